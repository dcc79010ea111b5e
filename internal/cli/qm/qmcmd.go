package qm

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client/view"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// NewQM makes the command `ferry qm`.
func NewQM() *cobra.Command {
	c := &cobra.Command{Use: "qm", Short: "Look at queue managers, and take one out of its cluster", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newQMLs(), newQMShow(), newQMRm())
	return c
}

func newQMLs() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the queue managers of the cluster, and those at the ends of channels", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := members(q, cmd)
			if err != nil {
				return err
			}
			headings := []string{"NAME", "CLUSTER", "BY", "STATE", "URL", "NATS", "LEADS", "CONNECTIONS", "STORE", "BEHIND"}
			return output.List(cmd, q.JSON, headings, func(row output.Row) error {
				for _, m := range all {
					by := "-"
					switch {
					case m.Linked:
						by = "channel"
					case m.Cluster != "":
						by = "route"
					}
					row(m, output.Printable(m.Name), output.Or(output.Printable(m.Cluster), "-"), by, memberState(m), output.Or(output.Printable(m.URL), "-"), output.Or(output.Printable(m.Version), "-"),
						output.Or(output.Printable(strings.Join(m.Leads(), " ")), "-"), fmt.Sprint(m.Connections), transfer.FormatBytes(int64(m.StoreBytes)), fmt.Sprint(m.Lag))
				}
				return nil
			})
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func newQMShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show one queue manager, with its queues", Args: usage.OneArg("the queue manager's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := members(q, cmd)
			if err != nil {
				return err
			}
			for _, m := range all {
				if m.Name != args[0] {
					continue
				}
				if q.JSON {
					output.JSON(cmd, m)
				} else {
					showMember(cmd.OutOrStdout(), m)
				}
				return nil
			}
			return transfer.Errorf(transfer.KindNotFound, "the network has no queue manager %s", output.Printable(args[0])).WithHint("`ferry qm ls` lists them")
		}}
	q.Add(c)
	return c
}

func newQMRm() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Take a queue manager that is not running out of its cluster, for good", Args: usage.OneArg("the queue manager's name"),
		Long: "Take a queue manager that is not running, and is not to come back, out of its cluster. The others keep the stored data. Each queue has one replica less until another queue manager joins under another name. It takes the authority admin.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, a, _, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			if err := a.RemoveMember(ctx, args[0]); err != nil {
				return err
			}
			output.Result(cmd, q.JSON, view.MemberRemoved(args[0]), "queue manager %s is no member of its cluster any more\n", output.Printable(args[0]))
			return nil
		}}
	q.Add(c)
	return c
}

// members asks the queue manager that is reached for all of them.
func members(q *session.Query, cmd *cobra.Command) ([]streams.Member, error) {
	if err := session.NeedURL(q.Network); err != nil {
		return nil, err
	}
	ctx, stop := session.UntilSignal(cmd.Context())
	defer stop()
	log, err := session.ErrorLogger(cmd)
	if err != nil {
		return nil, err
	}
	conn, err := session.ConnectUser(ctx, cmd, q.Network, "ferry qm", q.Timeout, log)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	return qmgr.Members(ctx, conn)
}

func memberState(m streams.Member) string {
	switch {
	case !m.Up:
		return "AWAY"
	case m.Degraded != "":
		return "DEGRADED"
	}
	return "UP"
}

func showMember(w io.Writer, m streams.Member) {
	row := func(what, is string) { fmt.Fprintf(w, "%-12s %s\n", what, output.Or(output.Printable(is), "-")) }
	row("name", m.Name)
	row("cluster", m.Cluster)
	row("state", memberState(m))
	row("url", m.URL)
	row("nats", m.Version)
	if !m.Started.IsZero() {
		row("up since", output.Stamp(m.Started))
	}
	if m.Cluster != "" {
		row("leader", map[bool]string{true: "of the cluster", false: "no"}[m.Leader])
	}
	row("connections", fmt.Sprint(m.Connections))
	row("store", transfer.FormatBytes(int64(m.StoreBytes)))
	row("behind", fmt.Sprint(m.Lag))
	for _, r := range m.Queues {
		role := "follows"
		switch {
		case r.Leader && m.Cluster != "":
			role = "leads"
		case r.Leader:
			role = "has it alone"
		case r.Current:
			role = "follows, up to date"
		case r.Lag > 0:
			role = fmt.Sprintf("follows, %d messages behind", r.Lag)
		}
		row("queue", r.Queue+" "+role)
	}
	if m.Degraded != "" {
		row("degraded", m.Degraded)
	}
}
