package qm

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// newDead makes the command `ferry queue dead`.
func newDead() *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "List, send again and remove messages that can never be delivered", Args: usage.NoArgs,
		Long: `A request or command that its agent can never take is a dead letter: its agent was removed, has
not read it for 14 days, or refuses it for ever. The queue manager of --network keeps its dead
letters for 30 days. Each user sees those of its own messages, and administrators see all.`,
		Example: `  ferry queue dead ls
  ferry queue dead show 0f1e2d3c4b5a6978
  ferry queue dead resend 0f1e2d3c4b5a6978`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newDeadLs(), newDeadShow(), newDeadResend(), newDeadRm())
	return c
}

func newDeadLs() *cobra.Command {
	q, agent := &session.Query{}, ""
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the dead letters, oldest first", Args: usage.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		var name transfer.AgentName
		if agent != "" {
			var err error
			if name, err = transfer.ParseAgentName(agent); err != nil {
				return err
			}
		}
		net, ctx, done, err := q.Open(cmd)
		if err != nil {
			return err
		}
		defer done()
		return output.ListOf(cmd, q.JSON, session.Seen("dead letter", net.Conn.Identity() != nil), []string{"LETTER", "KIND", "AGENT", "FROM", "KEPT", "TRANSFER", "REASON"}, func(row output.Row) error {
			return client.EachDeadLetter(ctx, net, name, func(d *wire.DeadLetter) {
				row(view.DeadLetterOf(view.TypeDeadLetter, d), d.ID, d.Kind, output.Printable(d.Agent), output.Printable(d.From), output.Stamp(d.Kept), aboutOf(d), output.Printable(d.Reason))
			})
		})
	}}
	q.Add(c)
	c.Flags().StringVar(&agent, "agent", "", "only those for one agent")
	output.AddForms(c)
	return c
}

// aboutOf returns the transfer of a letter, or the ID of its command.
func aboutOf(d *wire.DeadLetter) string {
	if d.Transfer.IsZero() {
		return "-"
	}
	return d.Transfer.String()
}

func newDeadShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show LETTER", Short: "Show a dead letter with its content", Args: usage.OneArg("the letter, as `ferry queue dead ls` has it"), RunE: func(cmd *cobra.Command, args []string) error {
		net, ctx, done, err := q.Open(cmd)
		if err != nil {
			return err
		}
		defer done()
		d, err := client.ReadDeadLetter(ctx, net, args[0])
		if err != nil {
			return err
		}
		if q.JSON {
			output.JSON(cmd, view.DeadLetterOf(view.TypeDeadLetter, d))
			return nil
		}
		showDead(cmd.OutOrStdout(), d)
		return nil
	}}
	q.Add(c)
	return c
}

func showDead(w io.Writer, d *wire.DeadLetter) {
	rows := [][]string{{"letter", d.ID}, {"kind", d.Kind}, {"agent", output.Printable(d.Agent)}, {"from", output.Printable(d.From)}}
	if d.Via != "" {
		rows = append(rows, []string{"through", output.Printable(d.Via)})
	}
	rows = append(rows, []string{"transfer", aboutOf(d)}, []string{"stored", output.Stamp(d.Stored)}, []string{"kept", output.Stamp(d.Kept)}, []string{"reason", output.Printable(d.Reason)})
	if d.Kind == wire.DeadStored {
		rows = append(rows, []string{"messages", fmt.Sprint(d.Messages)})
	} else {
		rows = append(rows, []string{"bytes", fmt.Sprint(d.Size)})
	}
	output.Table(w, rows)
	if len(d.Data) > 0 {
		fmt.Fprintf(w, "\n%s\n", output.Printable(string(d.Data)))
	}
}

func newDeadResend() *cobra.Command {
	return eachDead("resend LETTER...", "Put the messages of dead letters into their queues again",
		`Put the messages of dead letters into the queues of their agents again. A message that is too old
for its agent, one beside the letter of its cancel, or one for an unknown agent is not sent again.
The agent decides whether a request has run or was withdrawn. It asks coordination where its ledger
does not have the request. A request that has run becomes a dead letter again.`,
		func(cmd *cobra.Command, q *session.Query, net *client.Client, id string) error {
			d, err := client.ResendDeadLetter(cmd.Context(), net, id)
			if err == nil {
				output.Result(cmd, q.JSON, view.DeadLetterOf(view.TypeResent, d), "letter %s is in the queue of agent %s again\n", d.ID, output.Printable(d.Agent))
			}
			return err
		})
}

func newDeadRm() *cobra.Command {
	return eachDead("rm LETTER...", "Remove dead letters for good", "", func(cmd *cobra.Command, q *session.Query, net *client.Client, id string) error {
		d, err := client.RemoveDeadLetter(cmd.Context(), net, id)
		if err == nil {
			output.Result(cmd, q.JSON, view.DeadLetterOf(view.TypeRemoved, d), "letter %s is removed\n", d.ID)
		}
		return err
	})
}

// eachDead makes a command for one or more letters.
func eachDead(use, short, long string, do func(cmd *cobra.Command, q *session.Query, net *client.Client, id string) error) *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: use, Short: short, Long: long, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return transfer.Errorf(transfer.KindUsage, "`%s` takes one or more letters", cmd.CommandPath()).WithHint("`ferry queue dead ls` lists them")
		}
		net, ctx, done, err := q.Open(cmd)
		if err != nil {
			return err
		}
		defer done()
		cmd.SetContext(ctx)
		for _, id := range args {
			if err := do(cmd, q, net, id); err != nil {
				return err
			}
		}
		return nil
	}}
	q.Add(c)
	return c
}
