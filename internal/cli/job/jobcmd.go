package job

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/automation/job"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

// New makes the command `ferry job`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "job", Short: "Look at jobs of `ferry send --also-to`, follow, cancel or repeat them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newJobLs(), newJobShow(), newJobWatch(), newJobCancel(), newJobRetry())
	return c
}

func newJobLs() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List your jobs, and with the authority operate those of others, oldest first", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headings := []string{"ID", "STATE", "FROM", "ENDED", "SUCCESSFUL", "FILES", "FAILED", "BYTES", "MADE", "JOB", "OWNER", "PROBLEM"}
			return session.ListKept(q, cmd, headings, job.AskList, job.Page{}, func(at client.AtAgent, l *job.Listed, row output.Row) (next any) {
				for n := range l.Jobs {
					j := &l.Jobs[n]
					line := view.JobOf(view.TypeJob, j)
					line.AgentAway = at.Away
					row(line, j.ID.String(), string(j.State), string(at.Agent), fmt.Sprintf("%d/%d", j.Counts.Ended, j.Children), fmt.Sprint(j.Counts.Successful),
						fmt.Sprint(j.Counts.Files), fmt.Sprint(j.Counts.Failed), transfer.FormatBytes(j.Counts.Bytes), output.Stamp(j.Made), output.Printable(j.Name), output.Person(j.Principal), session.AwayText(at))
					if l.More {
						next = job.Page{After: j.ID}
					}
				}
				return next
			}, session.PageOf(func(s job.Shown) *job.Listed { return &job.Listed{Jobs: []job.Job{s.Job}} }))
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// withJob returns the function of a command that finds the job of its argument and calls fn with it.
func withJob(q *session.KeptQuery, fn func(k *session.Kept, at client.AtAgent, s *job.Shown) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return session.WithKept(q, cmd, job.AskShow, "job", args[0], job.Named{ID: args[0]}, func(k *session.Kept, at client.AtAgent, s *job.Shown) error {
			s, err := client.JobAt(k.Ctx, at, job.Named{ID: s.ID.String(), Request: true})
			if err != nil {
				return err
			}
			return fn(k, at, s)
		})
	}
}

func newJobShow() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "show ID", Short: "Show a job, with its sources and the state of each of its transfers", Args: usage.OneID("job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			one := session.KeptOne[job.Shown]{Noun: job.Noun, Key: strings.ToLower(id), Ending: true, Decode: session.Decode[job.Shown]}
			return session.WithShown(q, cmd, job.AskShow, one, id, job.Named{ID: id}, func(k *session.Kept, at client.AtAgent, s *job.Shown) error {
				if at.Away == nil {
					var err error
					if s, err = client.JobAt(k.Ctx, at, job.Named{ID: s.ID.String(), Request: true}); err != nil {
						return err
					}
				}
				if q.JSON {
					v := view.JobShownOf(s)
					v.AgentAway = at.Away
					output.JSON(cmd, v)
				} else {
					showJob(cmd, at, s)
				}
				return nil
			})
		}}
	q.Add(c)
	return c
}

func showJob(cmd *cobra.Command, at client.AtAgent, s *job.Shown) {
	rows := [][]string{{"job", s.ID.String()}, {"state", string(s.State)}}
	if at.Away != nil {
		rows = append(rows, []string{"problem", at.Away.String()})
	}
	if !s.RetryOf.IsZero() {
		rows = append(rows, []string{"retry of", s.RetryOf.String()})
	}
	rows = append(rows, [][]string{{"agent", string(s.Source)}, {"owner", output.Person(s.Principal)}, {"originator", output.Printable(s.Originator.String())},
		{"made", output.Stamp(s.Made)}, {"ended", output.Stamp(s.Ended)}, {"destinations", fmt.Sprintf("%d; %d have ended, %d successful", s.Children, s.Counts.Ended, s.Counts.Successful)}}...)
	if s.Cancelled != nil {
		rows = append(rows, []string{"cancelled by", output.Person(s.Cancelled.Principal) + ", " + output.Stamp(s.Cancelled.At)})
	}
	if s.Warning != "" {
		rows = append(rows, []string{"warning", output.Printable(s.Warning)})
	}
	if !s.Ended.IsZero() {
		rows = append(rows, []string{"result code", fmt.Sprint(s.Code)})
	}
	rows = append(rows, output.SourceRows(s.Request)...)
	out := cmd.OutOrStdout()
	output.Table(out, append(rows, []string{"job name", output.Printable(output.Or(s.Name, "-"))}))
	children := [][]string{{"DESTINATION", "STATE", "FILES", "FAILED", "BYTES", "TRANSFER", "REASON"}}
	for n := range s.Of {
		c := &s.Of[n]
		id, reason := "-", ""
		if !c.Transfer.IsZero() {
			id = c.Transfer.String()
		}
		if c.Reason != nil {
			reason = output.Printable(c.Reason.Error())
		}
		children = append(children, []string{childAt(c), string(c.State), fmt.Sprint(c.Files), fmt.Sprint(c.FilesFailed), transfer.FormatBytes(c.Bytes), id, reason})
	}
	fmt.Fprintln(out)
	output.Table(out, children)
	if s.More {
		fmt.Fprintf(out, "and %d more\n", s.Children-len(s.Of))
	}
}

func newJobWatch() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "watch ID", Short: "Follow a job to its end; the result code is the job's", Args: usage.OneID("job"),
		RunE: withJob(q, func(k *session.Kept, at client.AtAgent, s *job.Shown) error {
			f := &request.Flags{JSON: q.JSON}
			return follow.WatchEnded(k.Ctx, k.Cmd, "job", s.ID.String(), watching(k.Ctx, f, k.Cmd, k.Net, at.Agent, s.ID).follow())
		})}
	q.Add(c)
	return c
}

func newJobCancel() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "cancel ID", Short: "Cancel a job: its transfers that have not ended, and those that are yet to be submitted", Args: usage.OneID("job"),
		RunE: withJob(q, func(k *session.Kept, at client.AtAgent, s *job.Shown) error {
			j, err := client.Tell[job.Job](k.Ctx, at, q.Timeout, job.CommandCancel, job.Named{ID: s.ID.String()})
			if err != nil {
				return err
			}
			output.Result(k.Cmd, q.JSON, view.JobOf(view.TypeCancel, j), "%s %s\n", j.ID, j.State)
			return nil
		})}
	q.Add(c)
	return c
}

func newJobRetry() *cobra.Command {
	q, f := &session.KeptQuery{}, &request.Flags{}
	c := &cobra.Command{Use: "retry ID", Short: "Repeat the failed part of a job that is over, as a new job; the result code is the new job's",
		Long: `Makes a new job of one that is over, with the destinations that were not successful.
Where items of a transfer failed only those are sent again, without those that
another retry has brought. A transfer that was cancelled, refused or given up is
done again as a whole, unless a retry of it was successful. --if-exists decides about files
that have arrived already. A retry leaves the sources.`,
		Args: usage.OneID("job"),
		RunE: withJob(q, func(k *session.Kept, at client.AtAgent, s *job.Shown) error {
			p, err := client.RetryJob(k.Ctx, k.Net, s, f.IfExists)
			if err != nil {
				return err
			}
			f.JSON = q.JSON
			return handJob(k.Ctx, f, k.Cmd, k.Net, p)
		})}
	q.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.IfExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress and no notices")
	return c
}
