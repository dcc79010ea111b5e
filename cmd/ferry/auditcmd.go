package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/config"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// auditQuery reads the audit log: coordination's over the network, one in a
// directory, or that of this user's transfers on this host.
type auditQuery struct {
	query
	dir string
}

func (q *auditQuery) add(c *cobra.Command) {
	q.query.add(c)
	c.Flags().StringVar(&q.dir, "dir", "", "read the log in this directory instead of asking a network")
	config.Never(c, "dir") // an agent's FERRY_DIR is no audit log
}

// local is the directory of the log to read; empty: ask the network.
func (q *auditQuery) local() (string, error) {
	if q.dir != "" || q.network != "" {
		return q.dir, nil
	}
	home, err := stateDir()
	return filepath.Join(home, "audit"), err
}

// openLocal opens the log in a directory for reading: the log itself, or what
// coordination or `ferry up` was given as its --dir. It is nil where nothing
// was ever sent on this host and no directory was named.
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

func newAudit() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Read and verify the audit log", Args: noArgs,
		Long: `Reads and verifies the audit log: with --network coordination's, with --dir the
one in a directory, otherwise that of this user's transfers on this host.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newAuditLs(), newAuditShow(), newAuditVerify())
	return c
}

func newAuditLs() *cobra.Command {
	q := &auditQuery{}
	var limit int
	c := &cobra.Command{Use: "ls", Short: "List audit records, newest first", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 1", limit)
		}
		rows := [][]string{{"TIME", "AGENT", "EVENT", "TRANSFER", "WHAT"}}
		err := q.each(cmd, "", limit, func(raw json.RawMessage) error {
			if q.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
				return nil
			}
			r, err := audit.Decode(raw)
			if err != nil {
				return err
			}
			rows = append(rows, []string{stamp(r.Time), string(r.Agent), string(r.Event), r.Transfer.String(), what(&r)})
			return nil
		})
		if err == nil && !q.json {
			table(cmd.OutOrStdout(), rows)
		}
		return err
	}}
	q.add(c)
	c.Flags().IntVar(&limit, "limit", 1000, "how many at most")
	return c
}

// what is a record in a few words.
func what(r *audit.Record) string {
	switch {
	case len(r.Items) == 1:
		return itemWords(&r.Items[0])
	case len(r.Items) > 1:
		bad := 0
		for i := range r.Items {
			if !r.Items[i].OK() {
				bad++
			}
		}
		return fmt.Sprintf("%d items, %d failed", len(r.Items), bad)
	case r.Counts != nil:
		return fmt.Sprintf("%s %s, %d failed, %s", r.State, plural(r.Counts.Files, "file"), r.Counts.FilesFailed, transfer.FormatBytes(r.Counts.Bytes))
	case r.Error != nil:
		return printable(r.Error.Text)
	case r.Request != nil:
		text := fmt.Sprintf("%s to %s", r.Source, transfer.Location{Agent: r.Destination, Path: r.Request.Dest})
		if n := len(r.Request.Sources); n > 0 {
			text += ": " + r.Request.Sources[0].String()
			if more := n - 1 + r.Request.MoreSources; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
		}
		return text
	case r.Text+r.Reason != "":
		return printable(r.Text + r.Reason)
	}
	return fmt.Sprintf("%s to %s", r.Source, r.Destination)
}

func itemWords(o *transfer.Outcome) string {
	if o.Err != nil {
		return "failed: " + printable(o.Err.Text)
	}
	if o.Type == transfer.ItemDir {
		return o.Path.String() + "/"
	}
	text := fmt.Sprintf("%s, %s, %s", o.Path, transfer.FormatBytes(o.Size), or(o.Digest, "no digest"))
	if w := o.Written; w != nil {
		text += fmt.Sprintf("; written as %s, %s", transfer.FormatBytes(w.Size), or(w.Digest, "no digest"))
		if w.Records > 0 {
			text += ", " + plural(w.Records, "record")
		}
		if w.Long > 0 {
			text += fmt.Sprintf(", %d too long for one", w.Long)
		}
	}
	return text
}

// each hands out records, newest first.
func (q *auditQuery) each(cmd *cobra.Command, suffix string, limit int, fn func(json.RawMessage) error) error {
	dir, err := q.local()
	if err != nil {
		return err
	}
	if dir != "" {
		log, err := q.openLocal(dir)
		if err != nil || log == nil {
			return err
		}
		defer log.Close()
		return log.Find(audit.Filter{IDSuffix: suffix, Limit: limit}, func(_ int64, raw []byte, _ *audit.Record) error { return fn(raw) })
	}
	conn, ctx, done, err := q.open(cmd)
	if err != nil {
		return err
	}
	defer done()
	ask := wire.Ask{Kind: wire.AskAudit, Suffix: suffix}
	for limit > 0 {
		ask.Limit = limit
		ans, err := q.ask(ctx, conn, wire.AskCoordination, "coordination", ask, max(q.timeout, 30*time.Second))
		if err != nil {
			return err
		}
		for _, raw := range ans.Records {
			if err := fn(raw); err != nil {
				return err
			}
		}
		limit -= len(ans.Records)
		ask.Index = ans.Next
		if !ans.More || ans.Next == 0 {
			return nil
		}
	}
	return nil
}

func newAuditShow() *cobra.Command {
	q := &auditQuery{}
	c := &cobra.Command{Use: "show ID", Short: "Show the records of one transfer, oldest first", Args: oneID, RunE: func(cmd *cobra.Command, args []string) error {
		var records []json.RawMessage
		if err := q.each(cmd, args[0], 1<<30, func(raw json.RawMessage) error {
			records = append(records, append(json.RawMessage(nil), raw...))
			return nil
		}); err != nil {
			return err
		}
		if len(records) == 0 {
			return transfer.Errorf(transfer.KindNotFound, "the audit log has no transfer whose ID ends in %q", args[0]).WithHint("`ferry audit ls` lists them")
		}
		for i := len(records) - 1; i >= 0; i-- {
			if q.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", records[i])
				continue
			}
			r, err := audit.Decode(records[i])
			if err != nil {
				return err
			}
			showRecord(cmd, &r)
		}
		return nil
	}}
	q.add(c)
	return c
}

func showRecord(cmd *cobra.Command, r *audit.Record) {
	out := cmd.OutOrStdout()
	who := ""
	if r.Originator != nil && r.Event == audit.Submitted {
		who = "for " + printable(r.Originator.String()) + ": "
	}
	if len(r.Items) == 0 {
		fmt.Fprintln(out, printable(fmt.Sprintf("%s  %-10s %-11s %-10s %s%s", stamp(r.Time), r.Agent, r.Role, r.Event, who, what(r))))
		return
	}
	for i := range r.Items {
		fmt.Fprintln(out, printable(fmt.Sprintf("%s  %-10s %-11s %-10s %s", stamp(r.Time), r.Agent, r.Role, r.Event, itemWords(&r.Items[i]))))
	}
}

func newAuditVerify() *cobra.Command {
	q := &auditQuery{}
	c := &cobra.Command{Use: "verify", Short: "Read the whole log again and check that nothing in it was changed", Args: noArgs,
		Long: `Reads the whole log again and checks that nothing in it was changed or is missing.

Result codes: 0 sound, 40 not sound; what was found, and at which record, is
printed. Gaps that coordination has put on record are counted and are sound.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := q.verify(cmd)
			if kind := transfer.KindOf(err); kind == transfer.KindInternal || kind == transfer.KindVersion {
				explain(cmd.ErrOrStderr(), err) // what is no log any more is not sound either
				return exit(transfer.CodeNothing)
			}
			if err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, report)
			} else {
				for _, p := range report.Problems {
					where := fmt.Sprintf("record %d", p.Index)
					if p.Index < 0 {
						where = "log"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", where, printable(p.Text))
				}
				verdict := "sound"
				if report.Found > 0 {
					verdict = plural(report.Found, "problem")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s, root %s\n", verdict, plural(report.Records, "record"), plural(report.Gaps, "gap")+" on record", report.Root)
			}
			if report.Found > 0 {
				return exit(transfer.CodeNothing)
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
		r, err := log.Verify(cmd.Context(), nil)
		return &r, err
	}
	conn, ctx, done, err := q.open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	ans, err := q.ask(ctx, conn, wire.AskCoordination, "coordination", wire.Ask{Kind: wire.AskVerify}, max(q.timeout, 10*time.Minute))
	if err != nil {
		return nil, err
	}
	var r audit.Report
	return &r, json.Unmarshal(ans.Verified, &r)
}
