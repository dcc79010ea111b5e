package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/qmgr"
	"ferry/internal/submit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func newTransfer() *cobra.Command {
	c := &cobra.Command{Use: "transfer", Short: "Look at transfers, follow, cancel, resume or repeat them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newTransferLs(), newTransferShow(), newTransferWatch(), newTransferRetry(),
		newTransferControl("cancel", "Cancel a transfer; partial files are removed", wire.ControlCancel),
		newTransferControl("resume", "Let a parked transfer go on", wire.ControlResume))
	return c
}

func newTransferLs() *cobra.Command {
	q := &query{}
	f := &filterFlags{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List running and finished transfers, newest first", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		filter, err := f.filter(time.Now())
		if err != nil {
			return err
		}
		conn, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		rows := [][]string{{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"}}
		ask, left := wire.Ask{Kind: wire.AskTransfers, Filter: filter}, 0
		for listed := 0; ; {
			ask.Limit = f.limit - listed
			ans, err := q.coordination(ctx, conn, ask)
			if err != nil {
				return err
			}
			for _, p := range ans.Transfers {
				if q.json {
					printJSON(cmd, inJSON(&p))
				}
				rows = append(rows, row(&p))
				ask.ID = p.ID
			}
			listed, left = listed+len(ans.Transfers), ans.Left
			if left == 0 || listed >= f.limit || len(ans.Transfers) == 0 {
				break
			}
		}
		if !q.json {
			table(cmd.OutOrStdout(), rows)
		}
		if left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s more; --limit shows more, --since and other filters fewer\n", plural(int64(left), "transfer"))
		}
		return nil
	}}
	q.add(c)
	f.add(c)
	return c
}

// row is a transfer's line of a table.
func row(p *transfer.Progress) []string {
	reason := ""
	if p.Reason != nil {
		reason = p.Reason.Text
	}
	submitted := p.Submitted
	if submitted.IsZero() {
		submitted = p.ID.Time()
	}
	return []string{p.ID.String(), string(p.State), string(p.Source), string(p.Destination), fmt.Sprint(p.Files),
		fmt.Sprint(p.FilesFailed), transfer.FormatBytes(bytesSoFar(p)), stamp(submitted), p.Job, reason}
}

// bytesSoFar is what has arrived, and of a transfer that runs what has been sent.
func bytesSoFar(p *transfer.Progress) int64 {
	if p.State.Final() {
		return p.Bytes
	}
	done := max(p.Bytes, p.BytesSent-p.BytesResent)
	if p.Walked && p.BytesTotal > 0 {
		done = min(done, p.BytesTotal)
	}
	return done
}

// inJSON is a transfer in JSON: the summary's names first, then the rest.
func inJSON(p *transfer.Progress) transferLine {
	return transferLine{p, "transfer", p.Summary().Seconds}
}

// find resolves an ID or its suffix through coordination, and asks the source
// agent for the present picture where it is not over.
func (q *query) find(ctx context.Context, conn *qmgr.Conn, suffix string) (*transfer.Progress, error) {
	ans, err := q.coordination(ctx, conn, wire.Ask{Kind: wire.AskTransfer, Suffix: suffix})
	if err != nil {
		return nil, err
	}
	if len(ans.Transfers) == 0 {
		return nil, transfer.Errorf(transfer.KindNotFound, "no transfer has an ID that ends in %q", suffix)
	}
	p := &ans.Transfers[0]
	if fresh, err := q.ask(ctx, conn, wire.AskSubject(p.Source), string(p.Source), wire.Ask{Kind: wire.AskStatus, ID: p.ID}, q.timeout); err == nil && fresh.Progress != nil {
		p = fresh.Progress
	}
	return p, nil
}

func newTransferShow() *cobra.Command {
	q := &query{}
	var limit int
	var failed bool
	c := &cobra.Command{Use: "show ID", Short: "Show one transfer, with what it was asked for and what became of its files", Args: oneID, RunE: func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 0", limit)
		}
		conn, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		p, err := q.find(ctx, conn, args[0])
		if err != nil {
			return err
		}
		r, err := q.recorded(ctx, conn, p, failed, limit)
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit log could not be read, so sources and files are left out: %s\n", printable(err.Error()))
		}
		if q.json {
			printJSON(cmd, shownLine{inJSON(p), r.request, r.items, r.more})
			return nil
		}
		showTransfer(cmd, p, r)
		return nil
	}}
	q.add(c)
	c.Flags().IntVar(&limit, "limit", 20, "how many files are named at most, the last ones; 0: none")
	c.Flags().BoolVar(&failed, "failed", false, "name only files that have failed")
	return c
}

// A recorded transfer is what the audit log has of it beyond its picture.
type recorded struct {
	request *audit.RequestFacts // nil: the log does not have it yet
	items   []found             // the oldest first
	more    bool                // there are older ones
}

// recorded asks what a transfer was asked for, and for its last items.
func (q *query) recorded(ctx context.Context, conn *qmgr.Conn, p *transfer.Progress, failed bool, limit int) (r recorded, err error) {
	records := func(ask wire.Ask, fn func(r *audit.Record) (more bool)) error {
		return q.records(ctx, conn, p.ID, ask, fn)
	}
	err = records(wire.Ask{Event: string(audit.Submitted)}, func(rec *audit.Record) bool {
		if rec.Agent == p.Source {
			r.request = rec.Request
		}
		return r.request == nil
	})
	if err != nil || limit == 0 {
		return r, err
	}
	take := func(rec *audit.Record) bool {
		if rec.Agent != p.Source && rec.Agent != p.Destination {
			return true
		}
		for i := len(rec.Items) - 1; i >= 0; i-- {
			o := &rec.Items[i]
			switch {
			case failed && !o.Failed():
			case len(r.items) == limit:
				r.more = true
				return false
			default:
				r.items = append(r.items, found{"item", rec.Time, rec.Transfer, rec.Job, rec.Source, rec.Destination, o.OK(), o})
			}
		}
		return true
	}
	for _, role := range []string{audit.RoleDestination, audit.RoleSource} { // the source's say the same, and may come first
		if err == nil && len(r.items) == 0 {
			err = records(wire.Ask{Filter: &wire.Filter{Name: "*", Failed: failed, Role: role}}, take)
		}
	}
	slices.Reverse(r.items)
	return r, err
}

// records hands out the audit records of a transfer that a question is about, newest
// first, for as long as fn wants more.
func (q *query) records(ctx context.Context, conn *qmgr.Conn, id transfer.ID, ask wire.Ask, fn func(r *audit.Record) (more bool)) error {
	ask.Kind, ask.Suffix = wire.AskAudit, id.String()
	for {
		ans, err := q.ask(ctx, conn, wire.AskCoordination, "coordination", ask, max(q.timeout, 30*time.Second))
		if err != nil {
			return err
		}
		for _, raw := range ans.Records {
			rec, err := audit.Decode(raw)
			if err != nil {
				return err
			}
			if !fn(&rec) {
				return nil
			}
		}
		if ask.Index = ans.Next; !ans.More || ans.Next == 0 {
			return nil
		}
	}
}

func showTransfer(cmd *cobra.Command, p *transfer.Progress, r recorded) {
	rows := [][]string{
		{"transfer", p.ID.String()}, {"state", string(p.State)}, {"from", string(p.Source)}, {"to", string(p.Destination)},
	}
	if q := r.request; q != nil {
		if !q.Parent.IsZero() {
			rows = append(rows, []string{"retry of", q.Parent.String()})
		}
		rows = append(rows, []string{"sources", namesOf(q)}, []string{"destination", q.Dest.String()})
	}
	rows = append(rows, [][]string{
		{"originator", printable(p.Originator)}, {"job", printable(p.Job)}, {"priority", fmt.Sprint(p.Priority)},
		{"submitted", stamp(p.Submitted)}, {"started", stamp(p.Started)}, {"ended", stamp(p.Ended)},
		{"files", fmt.Sprintf("%d arrived, %d failed, %d skipped, %d directories", p.Files, p.FilesFailed, p.FilesSkipped, p.Dirs)},
		{"bytes", transfer.FormatBytes(bytesSoFar(p))}, {"lane", strings.TrimSpace(p.Lane + " " + paren(p.LaneReason))},
		{"compression, on the wire", or(p.Compress, "?") + ", " + transfer.FormatBytes(p.BytesWire)},
		{"checksum, durability", p.Checksum + ", " + p.Durability}, {"chunk, window, frame, checkpoint", settingsText(p.Settings)}, {"run-ahead", aheadText(p)},
		{"epoch, resumes", fmt.Sprintf("%d, %d (%s sent again)", p.Epoch, p.Resumes, transfer.FormatBytes(p.BytesResent))},
	}...)
	if p.State.Final() {
		rows = append(rows, []string{"result code", fmt.Sprint(p.Code)})
	}
	if p.Reason != nil {
		rows = append(rows, []string{"reason", printable(p.Reason.Error())})
	}
	if !p.NextTry.IsZero() {
		rows = append(rows, []string{"next try", stamp(p.NextTry)})
	}
	out := cmd.OutOrStdout()
	table(out, rows)
	if len(r.items) > 0 {
		showItems(out, r)
		return
	}
	for _, f := range p.Failures {
		fmt.Fprintf(out, "failed  %s\n", failure(&f))
	}
}

// showItems writes the files of a transfer, as far as they are decided.
func showItems(out io.Writer, r recorded) {
	rows := [][]string{{"TIME", "RESULT", "SIZE", "DIGEST", "FILE"}}
	for _, f := range r.items {
		rows = append(rows, f.row())
	}
	fmt.Fprintln(out)
	table(out, rows)
	if r.more {
		fmt.Fprintln(out, "and more before; see --limit")
	}
}

func (f *found) row() []string {
	if !f.Arrived {
		return []string{stamp(f.Time), ended(f.Item), transfer.FormatBytes(f.Item.Size), "-", failure(f.Item)}
	}
	return []string{stamp(f.Time), "arrived", transfer.FormatBytes(f.Item.Size), or(f.Item.Digest, "-"), f.Item.Path.String()}
}

// namesOf are the sources of a request, as far as there is room for them on a line.
func namesOf(q *audit.RequestFacts) string {
	const named = 3
	text := ""
	all := q.Named()
	for n, s := range all[:min(len(all), named)] {
		if n > 0 {
			text += "  "
		}
		text += s.String()
	}
	if more := len(all) - named + q.MoreSources; more > 0 {
		text += fmt.Sprintf("  and %d more", more)
	}
	if q.Base != "" {
		text += "  beneath " + q.Base.String()
	}
	return text
}

func paren(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// oneID wants one transfer ID, or the end of one.
func oneID(cmd *cobra.Command, args []string) error {
	if err := oneArg("a transfer ID or its last six or more characters")(cmd, args); err != nil {
		return err
	}
	return transfer.CheckIDSuffix(args[0])
}

func newTransferWatch() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "watch ID", Short: "Follow a transfer to its end; the result code is the transfer's", Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, ctx, done, err := q.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			p, err := q.find(ctx, conn, args[0])
			if err != nil {
				return err
			}
			v := newView(cmd, q.json, false)
			s := &submit.Submitter{Conn: conn, Clock: clock.System, Who: submit.Me()}
			if p, err = s.Watch(ctx, submit.Transfer{Source: p.Source, ID: p.ID, Hash: p.Request}, v.show, func(err error) { v.notice("%v", err) }); err != nil {
				return err
			}
			return v.finish(p)
		}}
	q.add(c)
	return c
}

func newTransferControl(verb, short string, kind wire.Kind) *cobra.Command {
	q := &query{}
	var agentName string
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: oneID, RunE: func(cmd *cobra.Command, args []string) error {
		conn, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		id, source, err := q.target(ctx, conn, args[0], agentName)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, q.timeout)
		defer cancel()
		s := &submit.Submitter{Conn: conn, Clock: clock.System, Who: submit.Me()}
		p, err := s.Control(ctx, source, kind, id)
		if err != nil {
			return err
		}
		if p == nil {
			p = &transfer.Progress{ID: id, State: transfer.Cancelled, Source: source}
		}
		if kind == wire.ControlCancel && !p.State.Final() { // most end at once: say so
			quick, cancel := context.WithTimeout(ctx, 2*time.Second)
			if last, err := s.Watch(quick, submit.Transfer{Source: source, ID: id}, nil, nil); err == nil {
				p = last
			}
			cancel()
		}
		state := p.State
		if kind == wire.ControlCancel && !state.Final() {
			state = transfer.Cancelling
		}
		if q.json {
			printJSON(cmd, controlLine{verb, id, state})
		} else {
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", id, state)
		}
		return nil
	}}
	q.add(c)
	c.Flags().StringVar(&agentName, "agent", "", "the source agent, where coordination cannot tell; the ID must then be whole")
	return c
}

// target finds the transfer and its source agent.
func (q *query) target(ctx context.Context, conn *qmgr.Conn, id, agentName string) (transfer.ID, transfer.AgentName, error) {
	if agentName != "" {
		a, err := transfer.ParseAgentName(agentName)
		if err != nil {
			return transfer.ID{}, "", err
		}
		t, err := transfer.ParseID(id)
		return t, a, err
	}
	p, err := q.find(ctx, conn, id)
	if err != nil {
		return transfer.ID{}, "", err
	}
	return p.ID, p.Source, nil
}

// aheadText is how far the source was allowed to run ahead, and whether that was
// found or set.
func aheadText(p *transfer.Progress) string {
	switch {
	case p.RunAhead == 0:
		return "-" // nothing has been sent yet
	case p.Settings.Auto:
		return transfer.FormatBytes(p.RunAhead) + ", auto-tuned"
	}
	return transfer.FormatBytes(p.RunAhead) + ", as it was set"
}
