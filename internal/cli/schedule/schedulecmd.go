package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/automation/schedule"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/draft"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

// Flags say when a transfer is submitted, where that is not at once.
type Flags struct{ draft.Schedule }

// PlanWords are the flags of planFlags.
var PlanWords = []string{"at", "every", "until", "count", "tz", "missed", "overlap", "schedule", "redefine"}

// Add adds the flags.
func (p *Flags) Add(fl *pflag.FlagSet) {
	fl.StringVar(&p.Words.At, "at", "", "submit at that time: +2h, 17:30, 2026-11-30T17:30, or RFC 3339 with its offset; the source agent keeps the schedule")
	fl.StringVar(&p.Words.Every, "every", "", "and again after each 30s, 15m, 1h (time that passes), 1d, 2w, 1mo, 1y (on the calendar)")
	fl.StringVar(&p.Words.Until, "until", "", "not after that time, as --at")
	fl.Int64Var(&p.Words.Count, "count", 0, "so many times in all (default: for ever)")
	fl.StringVar(&p.Words.Zone, "tz", "", "time zone of --at, --until and the calendar, as Europe/Berlin (default: this host's)")
	fl.StringVar(&p.Missed, "missed", schedule.MissedOnce, "how to treat times that pass while the agent is down, and several that pass while the transfer before is under way: once, the last of them late; skip, nothing")
	fl.BoolVar(&p.Overlap, "overlap", false, "submit each transfer at its time, also while the one before is under way (default: it waits for the end of that)")
	fl.StringVar(&p.Name, "schedule", "", "name of the schedule (default: one is made up)")
	fl.BoolVar(&p.Redefine, "redefine", false, "put it in the place of your schedule of that name")
}

// Given reports whether the flags ask for a schedule. It refuses an incomplete one.
func (p *Flags) Given(fl *pflag.FlagSet) (bool, error) {
	if fl.Changed("at") {
		return true, nil
	}
	for _, name := range PlanWords {
		if fl.Changed(name) {
			return false, transfer.Errorf(transfer.KindUsage, "--%s is for a schedule, and nothing says when it begins", name).WithHint("give --at")
		}
	}
	return false, nil
}

// Send sends a schedule to the source agent.
func Send(cmd *cobra.Command, f *request.Flags, p *Flags, args []string) error {
	now := time.Now()
	q, local, err := f.Request(args, cmd.InOrStdin())
	switch {
	case err != nil:
		return err
	case request.IsStream(q):
		return transfer.Errorf(transfer.KindUsage, "standard input cannot be sent at an appointed time")
	case local:
		return transfer.Errorf(transfer.KindUsage, "a schedule is kept by its source agent, and no agent is named").WithHint("name one on both sides, as ALPHA:pay.csv BETA:in/")
	case f.DryRun:
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of the present time, and --at sends later").WithHint("leave one of them out")
	}
	put, err := p.Put(q, now)
	if err != nil {
		return err
	}
	if err := session.NeedNetwork(f.Network); err != nil {
		return err
	}

	net, ctx, done, err := f.Connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return give(ctx, f, cmd, net, put)
}

// KeepSchedule sends the schedule of a complete request to the source agent.
func KeepSchedule(ctx context.Context, f *request.Flags, cmd *cobra.Command, net *client.Client, p *Flags, q *transfer.Request) error {
	if f.DryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of the present time, and this transfer starts later").WithHint("give --now")
	}
	put, err := p.Put(q, time.Now())
	if err != nil {
		return err
	}
	return give(ctx, f, cmd, net, put)
}

// give sends a schedule to the source agent.
func give(ctx context.Context, f *request.Flags, cmd *cobra.Command, net *client.Client, put *schedule.Put) error {
	q := &put.Request
	if err := net.Check(ctx, q); err != nil {
		return session.Unsent(ctx, err)
	}
	s, err := client.Definitions{Client: net, Limit: session.KeepWait}.PutSchedule(ctx, put)
	if err == nil {
		PrintSchedule(f, cmd, q.Source, s)
	}
	return err
}

// PrintSchedule prints a schedule that an agent keeps from now on.
func PrintSchedule(f *request.Flags, cmd *cobra.Command, agent transfer.AgentName, s *schedule.Schedule) {
	if f.JSON {
		output.JSON(cmd, view.ScheduleOf(view.TypeScheduled, agent, s))
		return
	}
	fmt.Fprintln(cmd.OutOrStdout(), s.Name)
	if !f.Quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: agent %s submits it at %s\n", agent, output.Stamp(s.Next))
	}
}

// MakeSchedule sends the schedule of a request to the source agent.
func MakeSchedule(q *session.Query, cmd *cobra.Command, put *schedule.Put) (transfer.AgentName, *schedule.Schedule, error) {
	source := put.Request.Source
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return source, nil, err
	}
	defer done()
	if err := net.Check(ctx, &put.Request); err != nil {
		return source, nil, err
	}
	s, err := client.Definitions{Client: net, Limit: q.Timeout}.PutSchedule(ctx, put)
	return source, s, err
}

// New makes the command `ferry schedule`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "schedule", Short: "Look at schedules of `ferry send --at`, and remove them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newScheduleLs(), newScheduleShow(), newScheduleRm())
	return c
}

func newScheduleLs() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List your schedules, and with the authority operate those of others", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headings := []string{"NAME", "AGENT", "NEXT", "EVERY", "LAST", "WAITING", "TO", "OWNER", "PROBLEM"}
			return session.ListKept(q, cmd, headings, schedule.AskList, schedule.Page{}, func(at client.AtAgent, l *schedule.Listed, row output.Row) (next any) {
				var last []schedule.Past
				for n := range l.Schedules {
					if all := l.Schedules[n].Results; len(all) > 0 {
						last = append(last, all[len(all)-1])
					}
				}
				states := statesOf(cmd.Context(), at, last)
				for n := range l.Schedules {
					s := &l.Schedules[n]
					row(viewOf(at, s, states), s.Name, string(at.Agent), nextOf(s), everyOf(s), lastOf(s, states), fmt.Sprint(s.Waiting), string(s.Destination), output.Person(s.Principal), session.AwayText(at))
					if l.More {
						next = schedule.Page{After: s.Name}
					}
				}
				return next
			}, session.PageOf(func(s schedule.Schedule) *schedule.Listed { return &schedule.Listed{Schedules: []schedule.Schedule{s}} }))
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// statesOf returns coordination's states of the transfers of occurrences.
func statesOf(ctx context.Context, at client.AtAgent, all []schedule.Past) map[transfer.ID]transfer.State {
	var ids []transfer.ID
	for n := range all {
		if !all[n].Transfer.IsZero() {
			ids = append(ids, all[n].Transfer)
		}
	}
	return at.StatesOf(ctx, at.Agent, ids)
}

// viewOf returns the form of a schedule of an agent, with the states of its transfers.
func viewOf(at client.AtAgent, s *schedule.Schedule, states map[transfer.ID]transfer.State) view.ScheduleLine {
	v := view.ScheduleOf(view.TypeSchedule, at.Agent, s)
	v.AgentAway = at.Away
	for n := range s.Results {
		if id := s.Results[n].Transfer; states[id] != "" {
			if v.States == nil {
				v.States = map[string]transfer.State{}
			}
			v.States[id.String()] = states[id]
		}
	}
	return v
}

func nextOf(s *schedule.Schedule) string {
	if s.Next.IsZero() {
		return "ended"
	}
	return output.Stamp(s.Next)
}

func everyOf(s *schedule.Schedule) string {
	if s.Plan.Every.IsZero() {
		return "once"
	}
	return s.Plan.Every.String()
}

// lastOf describes the last occurrence.
func lastOf(s *schedule.Schedule, states map[transfer.ID]transfer.State) string {
	if len(s.Results) == 0 {
		return "-"
	}
	return pastWord(&s.Results[len(s.Results)-1], states)
}

// pastWord describes the end of an occurrence in a word or two: with the state of its transfer, where coordination knows
// it.
func pastWord(p *schedule.Past, states map[transfer.ID]transfer.State) string {
	switch {
	case p.Missed > 0:
		return fmt.Sprintf("missed %d", p.Missed)
	case p.Error != nil:
		return "refused"
	case states[p.Transfer] != "":
		return string(states[p.Transfer])
	}
	return "submitted"
}

// withSchedule finds the schedule of a name and calls fn with it.
func withSchedule(q *session.KeptQuery, cmd *cobra.Command, name string, fn func(*session.Kept, client.AtAgent, *schedule.Schedule) error) error {
	return session.WithKept(q, cmd, schedule.AskShow, "schedule", name, schedule.Named{Name: name}, fn)
}

func newScheduleShow() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a schedule, with its sources and the outcomes of its last times", Args: usage.OneArg("the schedule's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			one := session.KeptOne[schedule.Schedule]{Noun: schedule.Noun, Key: name, Decode: session.Decode[schedule.Schedule]}
			return session.WithShown(q, cmd, schedule.AskShow, one, name, schedule.Named{Name: name}, func(_ *session.Kept, at client.AtAgent, s *schedule.Schedule) error {
				states := statesOf(cmd.Context(), at, s.Results)
				if q.JSON {
					output.JSON(cmd, viewOf(at, s, states))
				} else {
					showSchedule(cmd, at, s, states)
				}
				return nil
			})
		}}
	q.Add(c)
	return c
}

func showSchedule(cmd *cobra.Command, at client.AtAgent, s *schedule.Schedule, states map[transfer.ID]transfer.State) {
	rows := [][]string{{"schedule", s.Name}, {"agent", string(at.Agent)}}
	if at.Away != nil {
		rows = append(rows, []string{"problem", at.Away.String()})
	}
	rows = append(rows, [][]string{{"owner", output.Person(s.Principal)}, {"originator", output.Printable(s.Originator.String())}, {"made", output.Stamp(s.Made)},
		{"first", output.Stamp(s.Plan.Start)}, {"every", everyOf(s)}, {"time zone", s.Plan.Zone}, {"next", nextOf(s)}, {"if missed", s.Missed}}...)
	if s.Plan.Count > 0 {
		rows = append(rows, []string{"times", fmt.Sprintf("%d of %d", s.Done, s.Plan.Count)})
	}
	if !s.Plan.Until.IsZero() {
		rows = append(rows, []string{"until", output.Stamp(s.Plan.Until)})
	}
	if s.Overlap {
		rows = append(rows, []string{"overlap", "a transfer does not wait for the end of the one before"})
	}
	if !s.Held.IsZero() {
		rows = append(rows, []string{"due", "since " + output.Stamp(s.Held) + ", and waits for the end of " + s.Last.String()})
	}
	if s.Waiting > 0 {
		rows = append(rows, []string{"waiting", fmt.Sprintf("%d, until the agent has room", s.Waiting)})
	}
	rows = append(rows, output.RequestRows(s.Request)...)
	out := cmd.OutOrStdout()
	output.Table(out, rows)
	if len(s.Results) == 0 {
		return
	}
	past := [][]string{{"TIME", "RESULT", "TRANSFER", "REASON"}}
	for n := range s.Results {
		p := &s.Results[n]
		id, reason := "-", ""
		if !p.Transfer.IsZero() {
			id = p.Transfer.String()
		}
		if p.Error != nil {
			reason = output.Printable(p.Error.Error())
		}
		past = append(past, []string{output.Stamp(p.At), pastWord(p, states), id, reason})
	}
	fmt.Fprintln(out)
	output.Table(out, past)
}

func newScheduleRm() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Remove a schedule; transfers that it has submitted go on", Args: usage.OneArg("the schedule's name"),
		RunE: func(cmd *cobra.Command, args []string) error { return RemoveSchedule(q, cmd, args[0]) }}
	q.Add(c)
	return c
}

// RemoveSchedule finds the schedule of a name, and has its agent remove it.
func RemoveSchedule(q *session.KeptQuery, cmd *cobra.Command, name string) error {
	return withSchedule(q, cmd, name, func(k *session.Kept, at client.AtAgent, _ *schedule.Schedule) error {
		s, err := client.Tell[schedule.Schedule](k.Ctx, at, q.Timeout, schedule.CommandRemove, schedule.Named{Name: name})
		if err != nil {
			return err
		}
		output.Result(cmd, q.JSON, view.ScheduleOf(view.TypeRemoved, at.Agent, s), "%s removed\n", s.Name)
		return nil
	})
}
