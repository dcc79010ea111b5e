package audit

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/coordination"
	"ferry/internal/node/config"
	"ferry/internal/node/member"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// auditQuery reads the audit log: coordination's over the network, one in a
// directory, or that of this user's transfers on this host.
type auditQuery struct {
	session.Query
	dir string
}

func (q *auditQuery) add(c *cobra.Command) {
	q.Query.Add(c)
	c.Flags().StringVar(&q.dir, "dir", "", "read the log in this directory instead of asking a network")
	config.Never(c, "dir") // an agent's FERRY_DIR is no audit log
}

// local is the directory of the log to read; empty: ask the network.
func (q *auditQuery) local() (string, error) {
	if q.dir != "" || q.Network != "" {
		return q.dir, nil
	}
	home, err := member.StateDir()
	return filepath.Join(home, "audit"), err
}

// openLocal opens a log for reading. dir is the directory of the log itself, or the --dir of coordination or `ferry
// up`. The result is nil where no directory was named and this host has no log, because nothing was ever sent on it.
func (q *auditQuery) openLocal(dir string) (*audit.Log, error) {
	for _, below := range []string{"", "audit", "coordination/audit"} {
		if audit.Exists(filepath.Join(dir, below)) {
			return audit.OpenLogReadOnly(filepath.Join(dir, below))
		}
	}
	if q.dir == "" {
		return nil, nil
	}
	return nil, transfer.Errorf(transfer.KindMissing, "there is no audit log in %s", dir).
		WithHint("name the directory that `ferry up` or `ferry coordination run` was given")
}

// New makes the command `ferry audit`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Read and verify the audit log", Args: usage.NoArgs,
		Long: `Reads and verifies the audit log: with --network coordination's, with --dir the
one in a directory, otherwise that of this user's transfers on this host.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newAuditLs(), newAuditFind(), newAuditShow(), newAuditVerify(), newAuditCheck(), newAuditAccept(), newAuditXML())
	return c
}

func newAuditLs() *cobra.Command {
	q := &auditQuery{}
	f := &FilterFlags{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List audit records, newest first", Args: usage.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		filter, err := f.Filter(time.Now())
		if err != nil {
			return err
		}
		n, own := 0, false
		headings := []string{"TIME", "AGENT", "EVENT", "TRANSFER", "DETAILS"}
		if output.AsCSV(cmd) {
			headings = append(headings, "USER")
		}
		err = output.List(cmd, q.JSON, headings, func(row output.Row) (err error) {
			own, err = q.each(cmd, wire.Ask{Filter: filter, Limit: f.Limit}, func(raw json.RawMessage) error {
				n++
				if q.JSON { // the record as it is in the log
					fmt.Fprintf(cmd.OutOrStdout(), "%s\n", view.ForScripts(raw))
					return nil
				}
				r, err := audit.Decode(raw)
				if err != nil {
					return err
				}
				id := "-"
				if !r.Transfer.IsZero() {
					id = r.Transfer.String()
				}
				if output.AsCSV(cmd) {
					user := ""
					if r.Principal != "" {
						user = output.Person(r.Principal)
					}
					row(nil, output.Stamp(r.Time), string(r.Agent), string(r.Event), id, strings.Join(recordLines(&r), "; "), user)
					return nil
				}
				for _, text := range recordLines(&r) {
					row(nil, output.Stamp(r.Time), string(r.Agent), string(r.Event), id, text)
				}
				return nil
			})
			return err
		})
		if err == nil {
			sayLimit(cmd, n, f.Limit, "record")
		}
		if err == nil && n == 0 {
			err = q.checkAgents(cmd, f)
		}
		if err == nil && n == 0 && !q.JSON {
			session.None(cmd, "such record", own)
		}
		return err
	}}
	q.add(c)
	f.Add(c)
	output.AddForms(c)
	return c
}

// checkAgents refuses agents of a filter that the network does not know. A log in a directory has no registry.
func (q *auditQuery) checkAgents(cmd *cobra.Command, f *FilterFlags) error {
	if dir, err := q.local(); err != nil || dir != "" || f.agent+f.from+f.to == "" {
		return err
	}
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	return f.CheckAgents(ctx, net)
}

// recordLines describes a record in short lines: one for each item, or one.
func recordLines(r *audit.Record) []string {
	if len(r.Items) == 0 {
		return []string{Describe(r)}
	}
	lines := make([]string, len(r.Items))
	for i := range r.Items {
		lines[i] = itemWords(r.Event, &r.Items[i])
	}
	return lines
}

func newAuditFind() *cobra.Command {
	q := &auditQuery{}
	f := &FilterFlags{}
	c := &cobra.Command{Use: "find PATTERN", SuggestFor: []string{"search", "grep"}, Short: "Find files by name, newest first: outcome, time, source and digest",
		Long: `Finds the files that were transferred under a name: their last name at either end,
or the whole path where the pattern has a '/'. * and ? stand for any characters, also
for '/'. Files that failed are found, too. The destination agent answers, or the source
agent where the destination is a pipe. Result code 26: there is no such file.`,
		Example: "  ferry audit find pay-1234.xml\n  ferry audit find '*.xml' --agent BETA --since 18:00\n  ferry audit find '/srv/in/*'",
		Args:    usage.OneArg("a name or a pattern"), RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.Filter(time.Now())
			if err != nil {
				return err
			}
			filter.Name = transfer.Path(args[0])
			n, names := 0, audit.Filter{Name: args[0]}
			err = output.List(cmd, q.JSON, []string{"TIME", "RESULT", "FROM", "TO", "SIZE", "DIGEST", "TRANSFER", "REASON"}, func(row output.Row) error {
				take := func(raw json.RawMessage) error {
					r, err := audit.Decode(raw)
					if err != nil {
						return err
					}
					for i := len(r.Items) - 1; i >= 0; i-- {
						o := &r.Items[i]
						if n == f.Limit || !names.Names(*o) || f.failed && !o.Failed() {
							continue
						}
						n++
						one := view.FoundOf(client.ItemOf(&r, i))
						row(one, foundRow(&one)...)
					}
					return nil
				}
				own, err := q.each(cmd, wire.Ask{Filter: filter, Limit: f.Limit}, take)
				if err == nil && n == 0 { // the record of the destination may not have arrived yet
					filter.Role = audit.RoleSource
					own, err = q.each(cmd, wire.Ask{Filter: filter, Limit: f.Limit}, take)
				}
				if err == nil && n == 0 {
					seen := ""
					if own {
						seen = " that you may see"
					}
					return transfer.Errorf(transfer.KindNotFound, "the audit log has no file with a name like %q%s", args[0], seen).
						WithHint("* and ? stand for any characters; a pattern with a '/' is compared with whole paths; the newest records of an agent arrive a moment later")
				}
				return err
			})
			if err == nil {
				sayLimit(cmd, n, f.Limit, "file")
			}
			return err
		}}
	q.add(c)
	f.addRecords(c)
	c.Flags().BoolVar(&f.failed, "failed", false, "only files that have failed")
	output.AddForms(c)
	return c
}

// sayLimit prints a note that there may be more than the limit.
func sayLimit(cmd *cobra.Command, n, limit int, what string) {
	if n == limit {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: only the newest %s shown; --limit shows more\n", output.Plural(int64(n), what))
	}
}

// foundRow returns the cells of an item in the output of `ferry audit find`.
func foundRow(f *view.Found) []string {
	o := f.Item
	result, digest, reason, to := "arrived", output.Or(o.Digest, "none"), "", output.At(f.Destination, o.Path)
	if !o.OK() {
		result, digest, reason = output.Ended(o), "-", output.Failure(o)
	}
	if o.Type == transfer.ItemBad && o.Path == o.Source {
		to = output.At(f.Destination, "-") // it was never decided where it would have come to
	}
	return []string{output.Stamp(f.Time), result, output.At(f.Source, o.Source), to, transfer.FormatBytes(o.Size), digest, f.Transfer.String(), reason}
}

// Describe describes a record in a few words. Records of items have foundRow.
func Describe(r *audit.Record) string {
	switch {
	case r.Counts != nil:
		return fmt.Sprintf("%s %s, %d failed, %s", r.State, output.Plural(r.Counts.Files, "file"), r.Counts.FilesFailed, transfer.FormatBytes(r.Counts.Bytes))
	case r.Program != nil:
		return ranWords(r)
	case r.Error != nil:
		return output.Printable(r.Error.Text)
	case r.Request != nil:
		text := fmt.Sprintf("%s to %s", r.Source, output.ShownAt(r.Destination, r.Request.Dest))
		if all := r.Request.Named(); len(all) > 0 {
			n := len(all)
			text += ": " + output.Shown(all[0])
			if more := n - 1 + r.Request.MoreSources; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
		}
		return text
	case r.Event == audit.Removed:
		return output.Printable("agent " + string(r.Source) + " removed from the registry by " + output.Person(r.Principal))
	case r.Event == audit.Acked:
		return output.Printable("failure acknowledged by " + output.Person(r.Principal) + reasonOf(r))
	case r.Event == audit.Changed, r.Event == audit.Settled:
		return output.Printable("agent " + string(r.Source) + " " + r.Text + reasonOf(r) + ", by " + output.Person(r.Principal))
	case r.Text+r.Reason != "":
		return output.Printable(r.Text + r.Reason)
	}
	return fmt.Sprintf("%s to %s", r.Source, r.Destination)
}

// reasonOf is the reason of a record behind its text.
func reasonOf(r *audit.Record) string {
	if r.Reason == "" {
		return ""
	}
	return " (" + r.Reason + ")"
}

func itemWords(event audit.Event, o *transfer.Outcome) string {
	switch event {
	case audit.Deleted:
		return "source " + o.Source.String() + " deleted"
	case audit.Archived:
		return "source " + o.Source.String() + " moved to " + o.Path.String()
	}

	if o.Err != nil {
		return output.Ended(o) + ": " + output.Printable(o.Err.Text)
	}

	if o.Type == transfer.ItemDir {
		return o.Path.String() + "/"
	}

	text := fmt.Sprintf("%s, %s, %s", o.Path, transfer.FormatBytes(o.Size), output.Or(o.Digest, "no digest"))
	if w := o.Written; w != nil {
		if w.Base > 0 {
			text += "; appended behind " + transfer.FormatBytes(w.Base)
		}
		text += fmt.Sprintf("; written as %s, %s", transfer.FormatBytes(w.Size), output.Or(w.Digest, "no digest"))
		if w.Records > 0 {
			text += ", " + output.Plural(w.Records, "record")
		}
		if w.Long > 0 {
			text += fmt.Sprintf(", %d too long for one", w.Long)
		}
	}
	return text
}

// each calls fn for each record that a question is about, newest first. own reports that the log has hidden records of
// others.
func (q *auditQuery) each(cmd *cobra.Command, ask wire.Ask, fn func(json.RawMessage) error) (own bool, err error) {
	dir, err := q.local()
	if err != nil {
		return false, err
	}

	if dir != "" {
		log, err := q.openLocal(dir)
		if err != nil || log == nil {
			return false, err
		}
		defer log.Close()
		f := coordination.RecordFilter(&ask)
		f.Limit = ask.Limit
		return false, log.Find(f, func(_ int64, raw []byte, _ *audit.Record) error { return fn(raw) })
	}

	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return false, err
	}
	defer done()

	return net.Records(ctx, ask, fn)
}

func newAuditShow() *cobra.Command {
	q := &auditQuery{}
	var proof bool
	c := &cobra.Command{Use: "show ID", Short: "Show the records of one transfer, oldest first", Args: usage.OneID("transfer"), RunE: func(cmd *cobra.Command, args []string) error {
		if proof {
			return q.showProofs(cmd, args[0])
		}
		var records []json.RawMessage
		if _, err := q.each(cmd, wire.Ask{Suffix: args[0], Limit: 1 << 30}, func(raw json.RawMessage) error {
			records = append(records, append(json.RawMessage(nil), raw...))
			return nil
		}); err != nil {
			return err
		}
		if len(records) == 0 {
			return noTransfer(args[0])
		}
		for i := len(records) - 1; i >= 0; i-- {
			if q.JSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", view.ForScripts(records[i]))
				continue
			}
			r, err := audit.Decode(records[i])
			if err != nil {
				return err
			}
			ShowRecord(cmd, &r)
		}
		return nil
	}}
	q.add(c)
	c.Flags().BoolVar(&proof, "proof", false, "each record as a line of JSON with its proof, for ferry audit check")
	return c
}

// ShowRecord prints an audit record, in one line for each of its items.
func ShowRecord(cmd *cobra.Command, r *audit.Record) {
	out := cmd.OutOrStdout()
	who := ""
	switch {
	case r.Originator != nil && r.Event == audit.Submitted:
		who = "for " + output.Printable(r.Originator.String()) + ": "
	case r.Principal != "" && (r.Event == audit.Cancelled || r.Event == audit.Resumed):
		who = "by " + output.Printable(output.Person(r.Principal)) + ": "
	}

	if len(r.Items) == 0 {
		signed := ""
		if r.Author != nil {
			signed = fmt.Sprintf(" (signed by %s, key %.16s)", r.Author.By, r.Author.Key)
		}
		fmt.Fprintln(out, output.Printable(fmt.Sprintf("%s  %-10s %-11s %-10s %s%s%s", output.Stamp(r.Time), r.Agent, r.Role, r.Event, who, Describe(r), signed)))
		return
	}

	for i := range r.Items {
		fmt.Fprintln(out, output.Printable(fmt.Sprintf("%s  %-10s %-11s %-10s %s", output.Stamp(r.Time), r.Agent, r.Role, r.Event, itemWords(r.Event, &r.Items[i]))))
	}
}

func newAuditVerify() *cobra.Command {
	q := &auditQuery{}
	c := &cobra.Command{Use: "verify", Short: "Read the whole log again and check that nothing in it was changed", Args: usage.NoArgs,
		Long: `Reads the whole log again and checks that nothing in it was changed or is missing.
With --network it also checks the agents' signatures. It asks every agent that can be
reached for the newest checkpoint that the agent has seen, and compares the log with it.
With --dir and --network it reads the files itself, and asks only the agents.

Result codes: 0 sound, 40 not sound. The command prints each finding with its record.
Gaps that coordination has put on record are counted and are sound.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := q.verify(cmd)
			if kind := transfer.KindOf(err); kind == transfer.KindInternal || kind == transfer.KindVersion {
				output.Explain(cmd.ErrOrStderr(), err) // a damaged log counts as unsound, too
				return output.Exit(transfer.CodeNothing)
			}
			if err != nil {
				return err
			}
			if q.JSON {
				output.JSON(cmd, report)
			} else {
				for _, p := range report.Problems {
					where := fmt.Sprintf("record %d", p.Index)
					if p.Index < 0 {
						where = "log"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", where, output.Printable(p.Text))
				}
				for _, b := range report.Breaks {
					fmt.Fprintf(cmd.OutOrStdout(), "accepted: record %d: %s\n", b.Index, output.Printable(b.Text))
				}
				verdict := "sound"
				if report.Found > 0 {
					verdict = output.Plural(report.Found, "problem")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s, root %s\n", verdict, output.Plural(report.Records, "record"), output.Plural(report.Gaps, "gap")+" on record", report.Root)
				if text := signatures(report); text != "" {
					fmt.Fprintln(cmd.OutOrStdout(), text)
				}
			}
			if report.Found > 0 {
				return output.Exit(transfer.CodeNothing)
			}
			return nil
		}}
	q.add(c)
	return c
}

func (q *auditQuery) verify(cmd *cobra.Command) (*audit.Report, error) {
	dir, err := q.local()
	if err != nil {
		return nil, err
	}

	if dir != "" {
		log, err := q.openLocal(dir)
		if err != nil {
			return nil, err
		}
		if log == nil {
			return &audit.Report{}, nil
		}
		defer log.Close()
		if config.Typed(cmd, "network") {
			return q.verifyFiles(cmd, log)
		}
		r, err := log.Verify(cmd.Context(), nil)
		return &r, err
	}

	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()

	return client.Auditor{Client: net}.Verify(ctx)
}

// ranWords describes the end of a program, with the last line of its output.
func ranWords(r *audit.Record) string {
	p := r.Program
	text := fmt.Sprintf("%s %s: exit code %d in %.2f s", p.At, p.Name, p.Code, p.Seconds)
	if r.Error != nil {
		text = r.Error.Text
	}
	lines := strings.Split(strings.TrimSpace(p.Output), "\n")
	if last := lines[len(lines)-1]; last != "" {
		text += "; it wrote: " + last
	}
	return output.Printable(text)
}
