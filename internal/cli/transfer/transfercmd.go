package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// New makes the command `ferry transfer`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "transfer", Short: "Look at transfers, follow, cancel, resume, repeat or acknowledge them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newTransferLs(), newTransferShow(), newTransferWatch(), newTransferRetry(), newTransferAck(),
		newTransferControl("cancel", "Cancel a transfer; partial files are removed", wire.ControlCancel),
		newTransferControl("resume", "Let a parked transfer go on", wire.ControlResume))
	return c
}

func newTransferLs() *cobra.Command {
	q := &session.Query{}
	f := &cliaudit.FilterFlags{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List running and finished transfers, newest first", Args: usage.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		filter, err := f.Filter(time.Now())
		if err != nil {
			return err
		}
		var end client.Listing
		listed, headings := 0, []string{"ID", "STATE", "FROM", "TO", "FILES", "FAILED", "BYTES", "SUBMITTED", "JOB", "REASON"}
		if output.Full(cmd) {
			headings = append(headings, "USER")
		}
		err = q.List(cmd, headings, func(ctx context.Context, net *client.Client, row output.Row) (err error) {
			end, err = net.Transfers(ctx, filter, f.Limit, func(p *transfer.Progress) error {
				listed++
				line := cells(p)
				if output.Full(cmd) {
					line = append(line, output.Submitter(p))
				}
				row(view.TransferOf(p), line...)
				return nil
			})
			if err == nil && listed == 0 {
				err = f.CheckAgents(ctx, net)
			}
			return err
		})
		switch {
		case err != nil:
		case end.Left > 0:
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s more; --limit shows more, --since and other filters fewer\n", output.Plural(int64(end.Left), "transfer"))
		case listed == 0 && !q.JSON:
			session.None(cmd, "such transfer", end.Own)
		}
		if err == nil && listed > 0 && !q.JSON && !output.AsCSV(cmd) {
			fmt.Fprintln(cmd.OutOrStdout(), sumsLine(&end.Sums))
		}
		if err == nil && end.Complete.After(filter.Since) {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the list is complete since %s; `ferry audit ls` has older transfers\n", output.Stamp(end.Complete))
		}
		if closed := closedText(&end.Sums); err == nil && closed != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %s; --all shows them, too\n", closed)
		}
		return err
	}}
	q.Add(c)
	f.Add(c)
	f.AddAll(c)
	output.AddForms(c)
	return c
}

// closedText describes the failures that a list leaves out because they are not open; "": there are none.
func closedText(s *wire.Sums) string {
	var all []string
	for _, n := range []struct {
		count int64
		verb  string
	}{{s.Retried, "repeated"}, {s.Acknowledged, "acknowledged"}} {
		if n.count > 0 {
			all = append(all, fmt.Sprintf("%s that %s %s", output.Plural(n.count, "transfer"), map[bool]string{true: "was", false: "were"}[n.count == 1], n.verb))
		}
	}
	return strings.Join(all, ", ")
}

// acknowledgedText describes the acknowledgement of a failure.
func acknowledgedText(a *transfer.Acknowledgement) string {
	text := "by " + output.Person(a.By) + ", " + output.Stamp(a.Time)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return output.Printable(text)
}

// sumsLine describes the sums of a list.
func sumsLine(s *wire.Sums) string {
	line := fmt.Sprintf("total: %s, %s, %s", output.Plural(s.Transfers, "transfer"), output.Plural(s.Files, "file"), transfer.FormatBytes(s.Bytes))
	if s.Failed > 0 {
		line += fmt.Sprintf("; not successful: %s", output.Plural(s.Failed, "transfer"))
	}
	if s.FilesFailed > 0 {
		line += fmt.Sprintf("; failed: %s", output.Plural(s.FilesFailed, "file"))
	}
	return line
}

// cells returns a transfer's line of a table.
func cells(p *transfer.Progress) []string {
	reason := ""
	if p.Reason != nil {
		reason = p.Reason.Text
	}
	submitted := p.Submitted
	if submitted.IsZero() {
		submitted = p.ID.Time()
	}
	from, to := output.Ends(p)
	return []string{p.ID.String(), string(p.State), from, to, fmt.Sprint(p.Files),
		fmt.Sprint(p.FilesFailed), transfer.FormatBytes(p.BytesSoFar()), output.Stamp(submitted), p.Job, reason}
}

func newTransferShow() *cobra.Command {
	q := &session.Query{}
	var limit int
	var failed bool
	c := &cobra.Command{Use: "show ID", Short: "Show one transfer, with its request and the outcomes of its files", Args: usage.OneID("transfer"), RunE: func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 0", limit)
		}
		net, ctx, done, err := q.Open(cmd)
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
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit log could not be read, so sources and files are left out: %s\n", output.Printable(err.Error()))
		}
		if q.JSON {
			output.JSON(cmd, view.ShownOf(p, &r))
			return nil
		}
		showTransfer(cmd, p, r, net.Conn.Identity() != nil)
		return nil
	}}
	q.Add(c)
	c.Flags().IntVar(&limit, "limit", 20, "how many files are named at most, the last ones; 0: none")
	c.Flags().BoolVar(&failed, "failed", false, "name only files that have failed")
	return c
}

func showTransfer(cmd *cobra.Command, p *transfer.Progress, r client.Recorded, identities bool) {
	rows := [][]string{
		{"transfer", p.ID.String()}, {"state", string(p.State)}, {"from", string(p.Source)}, {"to", string(p.Destination)},
	}
	if p.CancelledBy != "" {
		rows = append(rows, []string{"cancelled by", output.Person(p.CancelledBy)})
	}
	if !p.RetriedAs.IsZero() {
		rows = append(rows, []string{"retried as", p.RetriedAs.String() + retriedText(p)})
	}
	if a := p.Acknowledged; a != nil {
		rows = append(rows, []string{"acknowledged", acknowledgedText(a)})
	}
	if q := r.Request; q != nil {
		if !q.Parent.IsZero() {
			rows = append(rows, []string{"retry of", q.Parent.String()})
		}
		rows = append(rows, []string{"sources", namesOf(q)}, []string{"destination", output.Shown(q.Dest)})
		if q.Together {
			rows = append(rows, []string{"together", togetherText(p)})
		}
		if which := whichFiles(q); which != "" {
			rows = append(rows, []string{"which files", which})
		}
		if q.Rate > 0 {
			rows = append(rows, []string{"limit", transfer.FormatBytes(q.Rate) + "/s"})
		}
	}
	if p.FilesLeftOut > 0 {
		rows = append(rows, []string{"left out", output.Plural(p.FilesLeftOut, "file")})
	}

	for _, k := range slices.Sorted(maps.Keys(r.Meta)) {
		rows = append(rows, []string{"metadata", output.Printable(k + "=" + r.Meta[k])})
	}

	rows = append(rows, [][]string{
		{"originator", output.Printable(p.Originator)}, {"signed", output.Or(signedText(&r, identities), "-")}, {"job", output.Printable(output.Or(p.Job, "-"))}, {"priority", fmt.Sprint(p.Priority)},
		{"submitted", output.Stamp(p.Submitted)}, {"started", output.Stamp(p.Started)}, {"ended", output.Stamp(p.Ended)},
		{"files", fmt.Sprintf("%d arrived, %d failed, %d skipped, %d directories made", p.Files, p.FilesFailed, p.FilesSkipped, p.Dirs)},
		{"bytes", bytesText(p)}, {"lane", output.Or(strings.TrimSpace(p.Lane+" "+paren(p.LaneReason)), "-")},
		{"compression, on the wire", wireText(p)},
		{"checksum, durability", known(p.Checksum, p.Durability)}, {"chunk, window, frame, checkpoint", output.SettingsText(p.Settings)}, {"run-ahead", aheadText(p)},
		{"epoch, resumes", fmt.Sprintf("%d, %d (%s sent again)", p.Epoch, p.Resumes, transfer.FormatBytes(p.BytesResent))},
	}...)
	if left := follow.Left(p); left != "" {
		rows = append(rows, []string{"rate, time left", left})
	}
	if p.State.Final() {
		rows = append(rows, []string{"result code", fmt.Sprint(p.Code)})
	}

	if p.Reason != nil {
		rows = append(rows, []string{"reason", output.Printable(p.Reason.Error())})
	}

	if !p.NextTry.IsZero() {
		rows = append(rows, []string{"next try", output.Stamp(p.NextTry)})
	}

	if !p.GivesUp.IsZero() {
		rows = append(rows, []string{"gives up at", output.Stamp(p.GivesUp)})
	}

	out := cmd.OutOrStdout()
	output.Table(out, rows)
	if len(r.Items) > 0 {
		showItems(out, r)
		return
	}

	for _, f := range p.Failures {
		fmt.Fprintf(out, "failed  %s\n", output.Failure(&f))
	}
}

// known joins the facts that are known; "-": none is.
func known(facts ...string) string {
	facts = slices.DeleteFunc(facts, func(s string) bool { return s == "" })
	return output.Or(strings.Join(facts, ", "), "-")
}

// wireText describes the compression, and the bytes of chunk messages. Both are unknown before a transfer has sent any.
func wireText(p *transfer.Progress) string {
	sent := ""
	if p.Compress != "" || p.BytesWire > 0 {
		sent = transfer.FormatBytes(p.BytesWire)
	}
	return known(p.Compress, sent)
}

// retriedText describes the repetitions of a transfer that leave it open.
func retriedText(p *transfer.Progress) string {
	switch {
	case p.Retried:
		return ""
	case p.RetriedFiles > 0:
		return fmt.Sprintf(" (cancelled; %d of the %d failed items have arrived)", p.RetriedFiles, p.FilesFailed)
	}
	return " (cancelled)"
}

// bytesText describes the bytes of a transfer; with the part of all of them while it has not ended.
func bytesText(p *transfer.Progress) string {
	text := transfer.FormatBytes(p.BytesSoFar())
	if !p.State.Final() && p.Walked && p.BytesTotal > 0 {
		text += fmt.Sprintf(" of %s, %.0f%%", transfer.FormatBytes(p.BytesTotal), 100*float64(p.BytesSoFar())/float64(p.BytesTotal))
	}
	return text
}

// signedText describes the identity that has signed the request of a transfer.
func signedText(r *client.Recorded, identities bool) string {
	switch {
	case r.Request == nil:
		return ""
	case r.Author != nil:
		return output.Printable(fmt.Sprintf("by %s, with the key %.16s", r.Author.By, r.Author.Key))
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
	rows := [][]string{{"TIME", "RESULT", "SIZE", "DIGEST", "FILE", "REASON"}}
	for _, f := range view.FoundAll(r.Items) {
		rows = append(rows, itemRow(&f))
	}
	fmt.Fprintln(out)
	output.Table(out, rows)
	if r.More {
		fmt.Fprintln(out, "and more before; see --limit")
	}
}

// itemRow returns the cells of an item in the output of `ferry transfer show`.
func itemRow(f *view.Found) []string {
	if !f.Arrived {
		return []string{output.Stamp(f.Time), output.Ended(f.Item), transfer.FormatBytes(f.Item.Size), "-", cmp.Or(f.Item.Path, f.Item.Source).String(), output.Failure(f.Item)}
	}
	return []string{output.Stamp(f.Time), "arrived", transfer.FormatBytes(f.Item.Size), output.Or(f.Item.Digest, "-"), f.Item.Path.String(), ""}
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
		text += output.Shown(s)
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

func newTransferWatch() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "watch ID", Short: "Follow a transfer to its end; the result code is the transfer's", Args: usage.OneID("transfer"),
		RunE: func(cmd *cobra.Command, args []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			p, err := net.Transfer(ctx, args[0])
			if err != nil {
				return err
			}
			v := follow.NewView(cmd, q.JSON, false)
			id := p.ID.String()
			if p, err = net.Watch(ctx, client.Transfer{Source: p.Source, ID: p.ID, Hash: p.Request}, v.Show, func(err error) { v.Notice("%v", err) }); err != nil {
				v.Clear()
				return follow.WatchEnded(ctx, cmd, "transfer", id, err)
			}
			return v.Finish(p)
		}}
	q.Add(c)
	return c
}

func newTransferControl(verb, short string, kind wire.Kind) *cobra.Command {
	q := &session.Query{}
	var agentName string
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: usage.OneID("transfer"), RunE: func(cmd *cobra.Command, args []string) error {
		net, ctx, done, err := q.Open(cmd)
		if err != nil {
			return err
		}
		defer done()
		of, err := Target(ctx, net, args[0], agentName)
		if err != nil {
			return err
		}
		return Control(ctx, q, cmd, net, Command{verb, kind}, of)
	}}
	q.Add(c)
	c.Flags().StringVar(&agentName, "agent", "", "the source agent, where coordination cannot tell; the ID must then be whole")
	return c
}

// A Command is a command about a transfer, and its name.
type Command struct {
	Verb string
	Kind wire.Kind
}

// Control sends a command about a transfer, and prints the transfer's status after it.
func Control(ctx context.Context, q *session.Query, cmd *cobra.Command, net *client.Client, c Command, of client.Transfer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, q.Timeout, fmt.Errorf("no answer has come within %s", q.Timeout))
	defer cancel()
	var p *transfer.Progress
	var err error
	if c.Kind == wire.ControlCancel {
		p, err = net.Cancel(ctx, of)
	} else {
		p, err = net.Control(ctx, of.Source, c.Kind, of.ID)
	}
	if err != nil {
		return err
	}
	if p == nil {
		p = &transfer.Progress{ID: of.ID, Source: of.Source}
	}
	state := p.State
	if c.Kind == wire.ControlCancel && !state.Final() {
		state = transfer.Cancelling
	}
	output.Result(cmd, q.JSON, view.ControlOf(c.Verb, of.ID, state), "%s %s\n", of.ID, state)
	return nil
}

// Target finds the transfer and its source agent.
func Target(ctx context.Context, net *client.Client, id, agentName string) (of client.Transfer, err error) {
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

// whichFiles describes the choice of files of a request, and their order; empty: all, in the order of the walk.
func whichFiles(q *audit.RequestFacts) string {
	f, all := q.Filter, []string{}
	add := func(given bool, what string) {
		if given {
			all = append(all, what)
		}
	}
	add(f.MinSize > 0, "at least "+transfer.FormatBytes(f.MinSize))
	add(f.MaxSize > 0, "at most "+transfer.FormatBytes(f.MaxSize))
	add(f.MinAge > 0, "at least "+f.MinAge.String()+" old")
	add(f.MaxAge > 0, "at most "+f.MaxAge.String()+" old")
	add(!f.AsOf.IsZero(), "at "+output.Stamp(f.AsOf))
	add(q.Order != "", "by "+q.Order)
	add(q.Archive != "", "moved to "+q.Archive.String()+" then")
	add(q.Disposition == transfer.DispositionDelete, "deleted then")
	add(q.AllSources, "all of them or none")
	return strings.Join(all, ", ")
}
