package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/client"
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
		net, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		rows := [][]string{{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"}}
		left, err := net.Transfers(ctx, filter, f.limit, func(p *transfer.Progress) error {
			if q.json {
				printJSON(cmd, inJSON(p))
			}
			rows = append(rows, row(p))
			return nil
		})
		if err != nil {
			return err
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

// bytesSoFar returns the bytes that have arrived, or for a running transfer the bytes sent, where these are more.
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

func newTransferShow() *cobra.Command {
	q := &query{}
	var limit int
	var failed bool
	c := &cobra.Command{Use: "show ID", Short: "Show one transfer, with its request and the outcomes of its files", Args: oneID, RunE: func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 0", limit)
		}
		net, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		p, err := net.Transfer(ctx, args[0])
		if err != nil {
			return err
		}
		r, err := net.Recorded(ctx, p, failed, limit)
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit log could not be read, so sources and files are left out: %s\n", printable(err.Error()))
		}
		if q.json {
			printJSON(cmd, shownLine{inJSON(p), r.Request, r.Author, r.Meta, foundAll(r.Items), r.More})
			return nil
		}
		showTransfer(cmd, p, r, net.Conn.Identity() != nil)
		return nil
	}}
	q.add(c)
	c.Flags().IntVar(&limit, "limit", 20, "how many files are named at most, the last ones; 0: none")
	c.Flags().BoolVar(&failed, "failed", false, "name only files that have failed")
	return c
}

func showTransfer(cmd *cobra.Command, p *transfer.Progress, r client.Recorded, identities bool) {
	rows := [][]string{
		{"transfer", p.ID.String()}, {"state", string(p.State)}, {"from", string(p.Source)}, {"to", string(p.Destination)},
	}
	if q := r.Request; q != nil {
		if !q.Parent.IsZero() {
			rows = append(rows, []string{"retry of", q.Parent.String()})
		}
		rows = append(rows, []string{"sources", namesOf(q)}, []string{"destination", shown(q.Dest)})
		if q.Together {
			rows = append(rows, []string{"together", togetherText(p)})
		}
		if which := whichFiles(q); which != "" {
			rows = append(rows, []string{"which files", which})
		}
	}
	if p.FilesLeftOut > 0 {
		rows = append(rows, []string{"left out", plural(p.FilesLeftOut, "file")})
	}

	for _, k := range slices.Sorted(maps.Keys(r.Meta)) {
		rows = append(rows, []string{"metadata", printable(k + "=" + r.Meta[k])})
	}

	rows = append(rows, [][]string{
		{"originator", printable(p.Originator)}, {"signed", signedText(&r, identities)}, {"job", printable(p.Job)}, {"priority", fmt.Sprint(p.Priority)},
		{"submitted", stamp(p.Submitted)}, {"started", stamp(p.Started)}, {"ended", stamp(p.Ended)},
		{"files", fmt.Sprintf("%d arrived, %d failed, %d skipped, %d directories made", p.Files, p.FilesFailed, p.FilesSkipped, p.Dirs)},
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
	if len(r.Items) > 0 {
		showItems(out, r)
		return
	}

	for _, f := range p.Failures {
		fmt.Fprintf(out, "failed  %s\n", failure(&f))
	}
}

// signedText describes the identity that has signed the request of a transfer.
func signedText(r *client.Recorded, identities bool) string {
	switch {
	case r.Request == nil:
		return ""
	case r.Author != nil:
		return printable(fmt.Sprintf("by %s, with the key %.16s", r.Author.By, r.Author.Key))
	case !identities:
		return "no (the network has no identities)"
	}
	return "no"
}

// togetherText describes the progress of a transfer that gives all its files their names together.
func togetherText(p *transfer.Progress) string {
	switch {
	case p.Files == 0 && !p.State.Final() && p.Walked:
		return fmt.Sprintf("0 of %d files are visible until all have arrived", p.FilesTotal)
	case p.Files == 0 && !p.State.Final():
		return "no file is visible until all have arrived"
	case p.Files == 0:
		return "none of the files has got its name"
	case p.FilesFailed == 0:
		return "all files have got their names"
	}
	return "files were taken or touched by others while the names were given; see the audit"
}

// showItems writes the files of a transfer, as far as they are decided.
func showItems(out io.Writer, r client.Recorded) {
	rows := [][]string{{"TIME", "RESULT", "SIZE", "DIGEST", "FILE"}}
	for _, f := range foundAll(r.Items) {
		rows = append(rows, f.row())
	}
	fmt.Fprintln(out)
	table(out, rows)
	if r.More {
		fmt.Fprintln(out, "and more before; see --limit")
	}
}

func (f *found) row() []string {
	if !f.Arrived {
		return []string{stamp(f.Time), ended(f.Item), transfer.FormatBytes(f.Item.Size), "-", failure(f.Item)}
	}
	return []string{stamp(f.Time), "arrived", transfer.FormatBytes(f.Item.Size), or(f.Item.Digest, "-"), f.Item.Path.String()}
}

// namesOf returns the sources of a request, as far as a line has room for them.
func namesOf(q *audit.RequestFacts) string {
	const named = 3
	text := ""
	all := q.Named()
	for n, s := range all[:min(len(all), named)] {
		if n > 0 {
			text += "  "
		}
		text += shown(s)
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

// oneID accepts exactly one transfer ID, or the end of one.
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
			net, ctx, done, err := q.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			p, err := net.Transfer(ctx, args[0])
			if err != nil {
				return err
			}
			v := newView(cmd, q.json, false)
			if p, err = net.Watch(ctx, client.Transfer{Source: p.Source, ID: p.ID, Hash: p.Request}, v.show, func(err error) { v.notice("%v", err) }); err != nil {
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
		net, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		of, err := target(ctx, net, args[0], agentName)
		if err != nil {
			return err
		}
		return q.control(ctx, cmd, net, command{verb, kind}, of)
	}}
	q.add(c)
	c.Flags().StringVar(&agentName, "agent", "", "the source agent, where coordination cannot tell; the ID must then be whole")
	return c
}

// A command is a command about a transfer, and its name.
type command struct {
	verb string
	kind wire.Kind
}

// control sends a command about a transfer, and prints the transfer's status after it.
func (q *query) control(ctx context.Context, cmd *cobra.Command, net *client.Client, c command, of client.Transfer) error {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	var p *transfer.Progress
	var err error
	if c.kind == wire.ControlCancel {
		p, err = net.Cancel(ctx, of)
	} else {
		p, err = net.Control(ctx, of.Source, c.kind, of.ID)
	}
	if err != nil {
		return err
	}
	if p == nil {
		p = &transfer.Progress{ID: of.ID, Source: of.Source}
	}
	state := p.State
	if c.kind == wire.ControlCancel && !state.Final() {
		state = transfer.Cancelling
	}
	if q.json {
		printJSON(cmd, controlLine{MessageType: c.verb, ID: of.ID, State: state})
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", of.ID, state)
	}
	return nil
}

// target finds the transfer and its source agent.
func target(ctx context.Context, net *client.Client, id, agentName string) (of client.Transfer, err error) {
	if agentName != "" {
		if of.Source, err = transfer.ParseAgentName(agentName); err == nil {
			of.ID, err = transfer.ParseID(id)
		}
		return of, err
	}

	p, err := net.Transfer(ctx, id)
	if err != nil {
		return of, err
	}
	return client.Transfer{Source: p.Source, ID: p.ID}, nil
}

// aheadText describes how far the source was allowed to run ahead, and whether that was measured or set.
func aheadText(p *transfer.Progress) string {
	switch {
	case p.RunAhead == 0:
		return "-" // nothing has been sent yet
	case p.Settings.Auto:
		return transfer.FormatBytes(p.RunAhead) + ", auto-tuned"
	}
	return transfer.FormatBytes(p.RunAhead) + ", as it was set"
}
