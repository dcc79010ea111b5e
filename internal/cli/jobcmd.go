package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/job"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// jobLine is the form of a job under --json.
type jobLine struct {
	MessageType string `json:"message_type"` // job, cancel
	*job.Job
}

// jobShown is a job of `ferry job show`.
type jobShown struct {
	MessageType string `json:"message_type"` // job
	*job.Shown
}

func newJob() *cobra.Command {
	c := &cobra.Command{Use: "job", Short: "Look at jobs of `ferry send --also-to`, follow, cancel or repeat them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newJobLs(), newJobShow(), newJobWatch(), newJobCancel(), newJobRetry())
	return c
}

// oneJob accepts exactly one job ID, or the end of one.
func oneJob(cmd *cobra.Command, args []string) error {
	if err := oneArg("a job ID or its last six or more characters")(cmd, args); err != nil {
		return err
	}
	return transfer.CheckIDSuffix(args[0])
}

func newJobLs() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List your jobs, and with the authority operate those of others, oldest first", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return q.list(cmd, []string{"ID", "STATE", "FROM", "ENDED", "SUCCESSFUL", "FILES", "FAILED", "BYTES", "MADE", "JOB", "OWNER"}, func(k *kept, at client.AtAgent, row func(any, ...string)) error {
				for page := (job.Page{}); ; {
					l, err := readKept[job.Listed](k.ctx, at, job.AskList, page)
					if err != nil {
						return err
					}
					for n := range l.Jobs {
						j := &l.Jobs[n]
						row(jobLine{"job", j}, j.ID.String(), string(j.State), string(at.Agent), fmt.Sprintf("%d/%d", j.Tally.Ended, j.Children), fmt.Sprint(j.Tally.Successful),
							fmt.Sprint(j.Tally.Files), fmt.Sprint(j.Tally.Failed), transfer.FormatBytes(j.Tally.Bytes), stamp(j.Made), printable(j.Name), person(j.Principal))
						page.After = j.ID
					}
					if !l.More {
						return nil
					}
				}
			})
		}}
	q.add(c)
	return c
}

// findJob returns the job of an ID or the end of one, and its agent.
func (q *keptQuery) findJob(k *kept, id string) (client.AtAgent, *job.Shown, error) {
	at, s, err := find[job.Shown](k, job.AskShow, "job", id, job.Named{ID: id})
	if err == nil {
		s, err = readJob(k.ctx, at, job.Named{ID: s.ID.String(), Request: true})
	}
	return at, s, err
}

// about opens the connection, finds the job that the argument names, and calls fn with it.
func (q *keptQuery) about(fn func(k *kept, at client.AtAgent, s *job.Shown) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		k, done, err := q.openKept(cmd)
		if err != nil {
			return err
		}
		defer done()
		at, s, err := q.findJob(k, args[0])
		if err != nil {
			return err
		}
		return fn(k, at, s)
	}
}

func newJobShow() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "show ID", Short: "Show a job, with its sources and the state of each of its transfers", Args: oneJob,
		RunE: q.about(func(k *kept, _ client.AtAgent, s *job.Shown) error {
			if q.json {
				printJSON(k.cmd, jobShown{"job", s})
			} else {
				showJob(k.cmd, s)
			}
			return nil
		})}
	q.add(c)
	return c
}

func showJob(cmd *cobra.Command, s *job.Shown) {
	rows := [][]string{{"job", s.ID.String()}, {"state", string(s.State)}}
	if !s.RetryOf.IsZero() {
		rows = append(rows, []string{"retry of", s.RetryOf.String()})
	}
	rows = append(rows, [][]string{{"agent", string(s.Source)}, {"owner", person(s.Principal)}, {"originator", printable(s.Originator.String())},
		{"made", stamp(s.Made)}, {"ended", stamp(s.Ended)}, {"destinations", fmt.Sprintf("%d; %d have ended, %d successful", s.Children, s.Tally.Ended, s.Tally.Successful)}}...)
	if s.Cancelled != nil {
		rows = append(rows, []string{"cancelled by", person(s.Cancelled.Principal) + ", " + stamp(s.Cancelled.At)})
	}
	if s.Warning != "" {
		rows = append(rows, []string{"warning", printable(s.Warning)})
	}
	if !s.Ended.IsZero() {
		rows = append(rows, []string{"result code", fmt.Sprint(s.Code)})
	}
	rows = append(rows, sourceRows(s.Request)...)
	out := cmd.OutOrStdout()
	table(out, append(rows, []string{"job name", printable(or(s.Name, "-"))}))
	children := [][]string{{"DESTINATION", "STATE", "FILES", "FAILED", "BYTES", "TRANSFER", "REASON"}}
	for n := range s.Of {
		c := &s.Of[n]
		id, reason := "-", ""
		if !c.Transfer.IsZero() {
			id = c.Transfer.String()
		}
		if c.Reason != nil {
			reason = printable(c.Reason.Error())
		}
		children = append(children, []string{childAt(c), string(c.State), fmt.Sprint(c.Files), fmt.Sprint(c.FilesFailed), transfer.FormatBytes(c.Bytes), id, reason})
	}
	fmt.Fprintln(out)
	table(out, children)
}

func newJobWatch() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "watch ID", Short: "Follow a job to its end; the result code is the job's", Args: oneJob,
		RunE: q.about(func(k *kept, at client.AtAgent, s *job.Shown) error {
			f := &sendFlags{json: q.json}
			return f.watching(k.ctx, k.cmd, k.net, at.Agent, s.ID).follow()
		})}
	q.add(c)
	return c
}

func newJobCancel() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "cancel ID", Short: "Cancel a job: its transfers that have not ended, and those that are yet to be submitted", Args: oneJob,
		RunE: q.about(func(k *kept, at client.AtAgent, s *job.Shown) error {
			j, err := tellKept[job.Job](k.ctx, at, q.timeout, job.CommandCancel, job.Named{ID: s.ID.String()})
			if err != nil {
				return err
			}
			if q.json {
				printJSON(k.cmd, jobLine{"cancel", j})
			} else {
				fmt.Fprintf(k.cmd.OutOrStdout(), "%s %s\n", j.ID, j.State)
			}
			return nil
		})}
	q.add(c)
	return c
}

func newJobRetry() *cobra.Command {
	q, f := &keptQuery{}, &sendFlags{}
	c := &cobra.Command{Use: "retry ID", Short: "Repeat the failed part of a job that is over, as a new job; the result code is the new job's",
		Long: `Makes a new job of one that is over, with the destinations that were not successful.
Where items of a transfer failed only those are sent again; a transfer that was
cancelled, refused or given up is done again as a whole. --if-exists decides about files
that have arrived already. A retry leaves the sources.`,
		Args: oneJob,
		RunE: q.about(func(k *kept, at client.AtAgent, s *job.Shown) error {
			p, err := retryOfJob(k, s, f.ifExists)
			if err != nil {
				return err
			}
			p.Request.IfExists = cmp.Or(f.ifExists, p.Request.IfExists)
			if err := p.Check(); err != nil {
				return err
			}
			f.json = q.json
			return f.handJob(k.ctx, k.cmd, k.net, p)
		})}
	q.add(c)
	fl := c.Flags()
	fl.StringVar(&f.ifExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no notices")
	return c
}

// retryOfJob makes the job that repeats the failed transfers of another one.
func retryOfJob(k *kept, s *job.Shown, ifExists string) (*job.Put, error) {
	switch {
	case s.Ended.IsZero():
		return nil, transfer.Errorf(transfer.KindUsage, "job %s is %s; a job is retried once it is over", s.ID, s.State).
			WithHint("`ferry job watch` follows it, `ferry job cancel` ends it")
	case s.State == transfer.Successful:
		return nil, transfer.Errorf(transfer.KindUsage, "nothing of job %s has failed", s.ID)
	case s.Request == nil:
		return nil, transfer.Errorf(transfer.KindVersion, "agent %s has answered without the request of the job", s.Source)
	}
	now := time.Now()
	p := &job.Put{Request: *s.Request, RetryOf: s.ID}
	p.Request.ID, p.Request.Submitted, p.Request.Originator = transfer.NewID(now), now.UTC(), k.net.Who
	p.Request.Disposition, p.Request.Archive, p.Request.AllSources = transfer.DispositionLeave, "", false
	if f := &p.Request.Filter; f.Bounds() && f.AsOf.IsZero() {
		f.AsOf = s.Request.Submitted // the same files, however old they are by now
	}
	for n := range s.Of {
		c := &s.Of[n]
		if c.State == transfer.Successful {
			continue
		}
		to := job.To{Agent: c.Destination, Dest: c.Dest, Retry: c.Retry}
		if !c.Started.IsZero() { // otherwise the audit log has no more than the job
			some := c.FilesFailed > 0 && (c.Code == transfer.CodePartial || c.Code == transfer.CodeNothing)
			again, err := retryOfChild(k, c.Transfer, some, ifExists)
			if err != nil {
				return nil, fmt.Errorf("destination %s: %w", childAt(c), err)
			}
			to.Retry = again.Retry
		}
		p.To = append(p.To, to)
	}
	p.Request.Destination, p.Request.Dest = p.To[0].Agent, p.To[0].Dest
	return p, nil
}

// retryOfChild returns the request that repeats a transfer. It reads the audit log, and waits because the newest
// records may not have arrived there yet.
func retryOfChild(k *kept, id transfer.ID, failed bool, ifExists string) (q *transfer.Request, err error) {
	for end := time.Now().Add(k.net.Timeout); ; {
		q, err = k.net.Retry(k.ctx, id.String(), failed, ifExists)
		if transfer.KindOf(err) != transfer.KindNotFound || time.Now().After(end) {
			return q, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-k.ctx.Done():
			return nil, context.Cause(k.ctx)
		}
	}
}
