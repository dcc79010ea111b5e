package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// codeTrouble is the result code if something needs a person. Other commands end with it where they fail for an internal
// error or an unsupported version; this one then ends with codeFailed.
const (
	codeTrouble = 1
	codeFailed  = transfer.CodeParked
)

// most is the number of lines of a section.
const most = 8

// A section is a part of the screen: a heading, and a line for each object.
type section struct {
	heading string
	columns []string
	rows    [][]string
	objects []any
	more    int                        // lines that are left out
	list    string                     // the command that lists them
	trouble bool                       // it needs a person
	awaited map[transfer.AgentName]int // of transfers that have not ended: their number for each agent that they need
}

func (s *section) add(object any, cells ...string) {
	s.objects = append(s.objects, object)
	if len(s.rows) == most {
		s.more++
		return
	}
	s.rows = append(s.rows, cells)
}

// await counts a transfer that needs an agent.
func (s *section) await(agent transfer.AgentName) {
	if s.awaited == nil {
		s.awaited = map[transfer.AgentName]int{}
	}
	s.awaited[agent]++
}

// unknown adds a line about objects that could not be asked for. It says nothing of them, so a person must look.
func (s *section) unknown(err error) {
	cells := slices.Repeat([]string{"-"}, len(s.columns))
	cells[len(cells)-1] = err.Error()
	s.trouble = true
	s.add(view.UnknownOf(s.heading, err), cells...)
}

// New makes the command `ferry status`.
func New() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "status", Short: "Show on one screen the transfers that run, wait and have failed, and agents that are away", Args: usage.NoArgs,
		Long: `Shows the transfers that have failed since yesterday and were neither repeated
with ferry transfer retry nor acknowledged with ferry transfer ack, those that
wait, are parked or run, the agents and queue managers that are away or degraded,
the monitors with a problem, and the dead letters of the queue manager.

Result codes: 0 nothing needs a person, 1 something does: a failed or parked
transfer, one that waits for space, an agent that is unreachable or degraded, a
queue manager that is away or degraded, a problem of a monitor, a dead letter, a
question that was not answered. An agent that was stopped is no trouble unless
transfers wait for it. Where the command itself fails, the code is that of the
failure; for an internal error or an unsupported version it is 70.`,
		Example: "  ferry status\n  ferry status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return failure(cmd, err)
			}
			defer done()
			all, own, err := sections(ctx, net, q.Timeout, time.Now())
			if err != nil {
				return failure(cmd, err)
			}
			return show(cmd, q.JSON, all, own)
		}}
	q.Add(c)
	return c
}

// failure returns the error of the command itself. Its result code is not codeTrouble, so that a script can tell both.
func failure(cmd *cobra.Command, err error) error {
	if transfer.KindOf(err).Code() != codeTrouble {
		return err
	}
	output.Explain(cmd.ErrOrStderr(), err)
	return output.Exit(codeFailed)
}

// sections asks for everything on the screen. own reports that only transfers of the asker's own are in it.
func sections(ctx context.Context, net *client.Client, timeout time.Duration, now time.Time) (all []*section, own bool, err error) {
	failed := &section{heading: "failed since yesterday", columns: []string{"ID", "STATE", "FROM", "TO", "FAILED", "ENDED", "JOB", "REASON"},
		list: "ferry transfer ls --failed --since yesterday", trouble: true}
	parked := &section{heading: "parked", columns: []string{"ID", "STATE", "FROM", "TO", "SUBMITTED", "JOB", "REASON"}, list: "ferry transfer ls --state parked", trouble: true}
	waiting := &section{heading: "waiting", columns: []string{"ID", "FROM", "TO", "BYTES", "SUBMITTED", "JOB", "REASON"}, list: "ferry transfer ls --state waiting,queued,accepted"}
	running := &section{heading: "running", columns: []string{"ID", "STATE", "FROM", "TO", "FILES", "BYTES", "JOB"}, list: "ferry transfer ls --state running"}
	filter := filterOf(now)
	end, err := net.Transfers(ctx, filter, 1<<20, func(p *transfer.Progress) error {
		place(p, failed, parked, waiting, running)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if end.Complete.After(filter.Since) {
		failed.heading += fmt.Sprintf(", complete since %s", output.Stamp(end.Complete))
	}
	agents, err := agentsOf(ctx, net, waiting.awaited)
	if err != nil {
		return nil, false, err
	}
	all = []*section{failed, parked, waiting, running, agents, monitors(ctx, net), letters(ctx, net, timeout), managers(ctx, net, timeout)}
	return all, end.Own, context.Cause(ctx)
}

// filterOf returns the filter for the transfers on the screen: those that have not ended, and those that have failed since
// yesterday and are open.
func filterOf(now time.Time) *wire.Filter {
	f := &wire.Filter{States: []transfer.State{transfer.Failed, transfer.Partial}, Open: true, Since: time.Date(now.Year(), now.Month(), now.Day()-1, 0, 0, 0, 0, now.Location())}
	for _, s := range transfer.States() {
		if !s.Final() {
			f.States = append(f.States, s)
		}
	}
	return f
}

// place adds a transfer to its section.
func place(p *transfer.Progress, failed, parked, waiting, running *section) {
	line, id, bytes := view.TransferOf(p), p.ID.String(), transfer.FormatBytes(p.BytesSoFar())
	from, to := output.Ends(p)
	submitted, reason := p.Submitted, ""
	if submitted.IsZero() {
		submitted = p.ID.Time()
	}
	if p.Reason != nil {
		reason = p.Reason.Text
	}
	switch p.State {
	case transfer.Failed, transfer.Partial:
		failed.add(line, id, string(p.State), from, to, fmt.Sprint(p.FilesFailed), output.Stamp(p.Ended), p.Job, reason)
	case transfer.Parked:
		parked.add(line, id, string(p.State), from, to, output.Stamp(submitted), p.Job, reason)
	case transfer.Waiting, transfer.Queued, transfer.Accepted:
		if p.Reason != nil && p.Reason.Kind == transfer.KindNoSpace {
			waiting.trouble = true
		}
		needs := p.Destination
		if p.State == transfer.Queued {
			needs = p.Source
			reason = output.Or(reason, fmt.Sprintf("agent %s has not taken it yet", needs))
		}
		waiting.await(needs)
		if needs != p.Source { // the source has it: the destination alone does not end it
			waiting.await(p.Source)
		}
		waiting.add(line, id, from, to, bytes, output.Stamp(submitted), p.Job, output.Or(reason, "it waits for its turn"))
	default:
		if !p.State.Final() {
			waiting.await(p.Source)
			running.add(line, id, string(p.State), from, to, fmt.Sprint(p.Files), bytes, p.Job)
		}
	}
}

// agentsOf returns the section of the agents that are away or degraded. awaited is the number of transfers that need each
// agent: one that was stopped needs a person if there are any.
func agentsOf(ctx context.Context, net *client.Client, awaited map[transfer.AgentName]int) (*section, error) {
	s := &section{heading: "agents away or degraded", columns: []string{"AGENT", "STATE", "HEARD", "HOST", "REASON"}, list: "ferry agent ls"}
	err := net.Agents(ctx, func(a *wire.AgentStatus) error {
		reason := a.Reason
		switch a.Status {
		case wire.AgentUnreachable, wire.AgentDegraded:
			s.trouble = true
		case wire.AgentStopped:
			reason = output.Or(reason, "it was stopped")
			s.trouble = s.trouble || awaited[a.Agent] > 0
		default:
			return nil
		}
		if n := awaited[a.Agent]; n > 0 && a.Status != wire.AgentDegraded {
			reason = strings.TrimPrefix(reason+"; waiting for it: "+output.Plural(int64(n), "transfer"), "; ")
		}
		s.add(a, string(a.Agent), a.Status, output.Age(a.Age), a.Host, reason)
		return nil
	})
	return s, err
}

// monitors returns the section of the monitors with a problem. Agents that do not answer are in the section of agents.
func monitors(ctx context.Context, net *client.Client) *section {
	s := &section{heading: "monitors with a problem", columns: []string{"MONITOR", "AGENT", "STATE", "DIRECTORY", "PROBLEM"}, list: "ferry monitor ls", trouble: true}
	err := client.Definitions{Client: net}.EachAgent(ctx, "", func(at client.AtAgent) error {
		for ask := (monitor.ListAsked{}); ; {
			page, err := client.Ask[monitor.Listed](ctx, at, monitor.AskList, ask)
			if err != nil {
				return err
			}
			for n := range page.Monitors {
				m := &page.Monitors[n]
				ask.After = m.Definition.Name
				if m.Problem != nil {
					s.add(view.MonitorShownOf(m), m.Definition.Name, string(at.Agent), m.State, m.Definition.Dir.String(), m.Problem.Text)
				}
			}
			if !page.More || len(page.Monitors) == 0 {
				return nil
			}
		}
	}, func(transfer.AgentName, error) {})
	if err != nil {
		s.unknown(err)
	}
	return s
}

// letters returns the section of the dead letters of the connected queue manager, the oldest first.
func letters(ctx context.Context, net *client.Client, timeout time.Duration) *section {
	s := &section{heading: "dead letters", columns: []string{"LETTER", "KIND", "AGENT", "FROM", "KEPT", "REASON"}, list: "ferry queue dead ls", trouble: true}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	oldest := time.Time{}
	err := client.EachDeadLetter(ctx, net, "", func(d *wire.DeadLetter) {
		if oldest.IsZero() {
			oldest = d.Kept
		}
		s.add(view.DeadLetterOf(view.TypeDeadLetter, d), d.ID, d.Kind, output.Printable(d.Agent), output.Printable(d.From), output.Stamp(d.Kept), output.Printable(d.Reason))
	})
	switch {
	case transfer.KindOf(err) == transfer.KindDenied: // an earlier queue manager has none
	case err != nil:
		s.unknown(err)
	case len(s.objects) > 0:
		s.heading = fmt.Sprintf("dead letters since %s, see `%s`", output.Stamp(oldest), s.list)
	}
	return s
}

// managers returns the section of the queue managers.
func managers(ctx context.Context, net *client.Client, timeout time.Duration) *section {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return managersOf(qmgr.Members(ctx, net.Conn))
}

// managersOf returns the section of queue managers, or of the error of asking for them.
func managersOf(all []streams.Member, err error) *section {
	s := &section{heading: "queue managers", columns: []string{"NAME", "STATE", "STORE", "BEHIND", "REASON"}, list: "ferry qm ls"}
	if err != nil {
		s.unknown(err)
		return s
	}
	for _, m := range all {
		state := "UP"
		switch {
		case !m.Up:
			state, s.trouble = "AWAY", true
		case m.Degraded != "":
			state, s.trouble = "DEGRADED", true
		}
		s.add(m, m.Name, state, transfer.FormatBytes(int64(m.StoreBytes)), fmt.Sprint(m.Lag), m.Degraded)
	}
	return s
}

// show prints the sections. Its error is the result code if one of them needs a person.
func show(cmd *cobra.Command, asJSON bool, all []*section, own bool) error {
	trouble := slices.ContainsFunc(all, func(s *section) bool { return s.trouble && len(s.objects) > 0 })
	for _, s := range all {
		if asJSON {
			for _, o := range s.objects {
				output.JSON(cmd, o)
			}
			continue
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s: %d\n", s.heading, len(s.objects))
		if len(s.rows) == 0 {
			continue
		}
		output.Table(out, append([][]string{s.columns}, s.rows...))
		if s.more > 0 {
			fmt.Fprintf(out, "and %d more; `%s` lists them\n", s.more, s.list)
		}
		fmt.Fprintln(out)
	}
	if own && !asJSON {
		fmt.Fprintln(cmd.ErrOrStderr(), "ferry: of transfers, only those that you may see")
	}
	if trouble {
		return output.Exit(codeTrouble)
	}
	return nil
}
