package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/serve"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// New makes the command `ferry agent`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Run an agent, or look at agents", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(serve.NewAgentRun(), newAgentLs(), newAgentShow(), newAgentPing(), newAgentSet(), newAgentRm())
	return c
}

func newAgentLs() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List agents", Args: usage.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		headings := []string{"AGENT", "STATE", "HEARD", "UP SINCE", "HOST", "VERSION", "MODE", "SENDING", "WAITING", "RECEIVING"}
		listed := false
		err := q.List(cmd, headings, func(ctx context.Context, net *client.Client, row output.Row) error {
			return net.Agents(ctx, func(a *wire.AgentStatus) error {
				listed = true
				row(a, string(a.Agent), a.Status, output.Age(a.Age), upSince(a), a.Host, a.Version, a.Mode, fmt.Sprint(a.SourceRun), fmt.Sprint(a.SourceWait), fmt.Sprint(a.DestRun))
				for _, s := range a.Standbys {
					row(nil, string(a.Agent), s.Status, output.Age(s.Age), output.Stamp(s.Started), s.Host, s.Version, "", "", "", "")
				}
				return nil
			})
		})
		if err == nil && !listed && !q.JSON {
			output.None(cmd, "agent")
		}
		return err
	}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// upSince returns the time at which the agent started, while it runs.
func upSince(a *wire.AgentStatus) string {
	if a.Status == wire.AgentStopped || a.Status == wire.AgentUnreachable {
		return "-"
	}
	return output.Stamp(a.Started)
}

func newAgentRm() *cobra.Command {
	q := &session.Query{}
	var revoke bool
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Take an agent that is away out of the registry; its record in the audit log stays", Args: usage.OneArg("the agent's name"),
		Long: `Takes an agent that is away out of the registry, with all messages stored of it and
for it. Its record in the audit log stays. Its identity stays good, and with it the
agent may come back. --revoke revokes the identity, too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, net, ctx, done, err := q.OpenAgent(cmd, args[0])
			if err != nil {
				return err
			}
			defer done()
			id := net.Conn.Identity()
			if revoke && id == nil {
				return transfer.Errorf(transfer.KindUsage, "agent %s has no identity to revoke: the network has none", name).WithHint("leave out --revoke")
			}
			if err := net.RemoveAgent(ctx, name); err != nil {
				return err
			}
			switch {
			case revoke:
				who := identity.Name{Network: id.Name().Network, Role: identity.Agent, Name: string(name)}
				if err := (enrol.Client{Conn: net.Conn, Timeout: q.Timeout}).Revoke(ctx, who); err != nil {
					return fmt.Errorf("agent %s is removed, and its identity stays good: %w", name, err)
				}
			case id != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the identity of agent %[1]s stays good, and it may come back; `ferry identity revoke %[1]s` revokes it\n", name)
			}
			output.Result(cmd, q.JSON, view.AgentRemoved(name), "agent %s removed\n", name)
			return nil
		}}
	q.Add(c)
	c.Flags().BoolVar(&revoke, "revoke", false, "revoke the identity of the agent, too")
	return c
}

func newAgentSet() *cobra.Command {
	q := &session.Query{}
	var limits []string
	c := &cobra.Command{Use: "set NAME --limit RATE", Short: "Change how fast an agent sends, while it runs", Args: usage.OneArg("the agent's name"),
		Long: `Changes the sending rate of an agent, for running transfers, too. The change holds
until the agent is started again. Then its own --limit holds.`,
		Example: "  ferry agent set ALPHA --limit 10M\n  ferry agent set ALPHA --limit BETA=\"08:00,512K 19:00,off\"\n  ferry agent set ALPHA --limit off",
		RunE: func(cmd *cobra.Command, args []string) error {
			tables, err := serve.ParseLimits(limits)
			if err == nil && len(tables) == 0 {
				err = transfer.Errorf(transfer.KindUsage, "`ferry agent set` needs a setting to change").WithHint("give --limit RATE, or --limit off")
			}
			if err != nil {
				return err
			}
			name, net, ctx, done, err := q.OpenAgent(cmd, args[0])
			if err != nil {
				return err
			}
			defer done()
			rates := map[transfer.AgentName]string{}
			for to, t := range tables {
				rates[to] = t.String()
			}
			now, err := net.SetRates(ctx, name, rates)
			if err != nil {
				return err
			}
			output.Result(cmd, q.JSON, view.AgentSet(name, now), "agent %s sends at most: %s\n", name, ratesText(now.Rates))
			return nil
		}}
	q.Add(c)
	c.Flags().StringArrayVar(&limits, "limit", nil, "bytes a second: 10M, off, or by the hour \"08:00,512K 19:00,off\"; AGENT=10M for the data to one agent; may be repeated")
	return c
}

// ratesText describes the sending rates of an agent.
func ratesText(rates map[transfer.AgentName]string) string {
	var all []string
	for _, to := range slices.Sorted(maps.Keys(rates)) {
		if to == "" {
			all = append(all, rates[to])
		} else {
			all = append(all, rates[to]+" to "+string(to))
		}
	}
	return output.Or(output.Printable(strings.Join(all, "; ")), "no limit")
}

func newAgentShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show one agent", Args: usage.OneArg("the agent's name"), RunE: func(cmd *cobra.Command, args []string) error {
		name, net, ctx, done, err := q.OpenAgent(cmd, args[0])
		if err != nil {
			return err
		}
		defer done()
		a, err := net.Agent(ctx, name)
		if err != nil {
			return err
		}
		if q.JSON {
			output.JSON(cmd, a)
			return nil
		}
		output.Table(cmd.OutOrStdout(), agentRows(a))
		return nil
	}}
	q.Add(c)
	return c
}

// agentRows are the rows of `ferry agent show`. Each agent has a root: without one, coordination does not know the
// agent's roots, rates and exits, or the user may not see them.
func agentRows(a *wire.AgentStatus) [][]string {
	shown := func(text string) string {
		if len(a.Roots) == 0 {
			return "not shown"
		}
		return text
	}
	rows := [][]string{
		{"agent", string(a.Agent)}, {"state", a.Status}, {"reason", a.Reason}, {"last heard of", output.Age(a.Age)},
		{"host", a.Host + " (" + a.Platform + ")"}, {"version", a.Version}, {"started", output.Stamp(a.Started)},
		{"queue manager", strings.TrimSpace(output.Printable(a.Manager) + " in " + a.Mode + " mode")}, {"durability", output.Or(a.Durability, "synced always")},
		{"roots", shown(strings.Join(a.Roots, " "))}, {"sending", fmt.Sprintf("%d of %d, %d waiting of %d, %d parked", a.SourceRun, a.MaxSource, a.SourceWait, a.MaxQueued, a.Parked)},
		{"receiving", fmt.Sprintf("%d of %d", a.DestRun, a.MaxDest)}, {"sends at most", shown(ratesText(a.Rates))}, {"audit outbox", output.Plural(int64(a.Outbox), "record")},
		{"chunk, window, frame, checkpoint", output.SettingsText(a.Settings)}, {"exits", shown(output.Or(output.Printable(strings.Join(a.Exits, " ")), "none"))}, {"platform lacks", output.Or(strings.Join(a.Limits, "; "), "nothing")},
		{"incarnation", a.Incarnation}, {"instance", a.Instance},
	}
	for _, s := range a.Standbys {
		rows = append(rows, []string{"standby", fmt.Sprintf("%s (%s), version %s, since %s, heard %s, instance %s", s.Host, s.Platform, s.Version, output.Stamp(s.Started), output.Age(s.Age), s.Instance)})
	}
	return rows
}

// Ping asks an agent whether it is there, and prints its answer.
func Ping(ctx context.Context, q *session.Query, cmd *cobra.Command, net *client.Client, name transfer.AgentName) error {
	b, took, err := net.Ping(ctx, name)
	if err != nil {
		return err
	}
	output.Result(cmd, q.JSON, view.PingOf(name, b, took), "agent %s answered in %.1f ms: %s\n", name, float64(took.Microseconds())/1000, output.Printable(b.Status))
	return nil
}

func newAgentPing() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ping NAME", Short: "Ask an agent whether it is there", Args: usage.OneArg("the agent's name"), RunE: func(cmd *cobra.Command, args []string) error {
		name, net, ctx, done, err := q.OpenAgent(cmd, args[0])
		if err != nil {
			return err
		}
		defer done()
		return Ping(ctx, q, cmd, net, name)
	}}
	q.Add(c)
	return c
}
