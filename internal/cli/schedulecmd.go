package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/automation/schedule"
	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// keepWait is the time for which `ferry send --at` waits until the agent has the schedule.
const keepWait = 30 * time.Second

// planFlags say when a transfer is submitted, where that is not at once.
type planFlags struct {
	words        schedule.Words
	missed, name string
	overlap      bool
	redefine     bool
}

// planWords are the flags of planFlags.
var planWords = []string{"at", "every", "until", "count", "tz", "missed", "overlap", "schedule", "redefine"}

func (p *planFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&p.words.At, "at", "", "submit at that time: +2h, 17:30, 2026-11-30T17:30, or RFC 3339 with its offset; the source agent keeps the schedule")
	fl.StringVar(&p.words.Every, "every", "", "and again after each 30s, 15m, 1h (time that passes), 1d, 2w, 1mo, 1y (on the calendar)")
	fl.StringVar(&p.words.Until, "until", "", "not after that time, as --at")
	fl.Int64Var(&p.words.Count, "count", 0, "so many times in all (default: for ever)")
	fl.StringVar(&p.words.Zone, "tz", "", "time zone of --at, --until and the calendar, as Europe/Berlin (default: this host's)")
	fl.StringVar(&p.missed, "missed", schedule.MissedOnce, "how to treat times that pass while the agent is down, and several that pass while the transfer before is under way: once, the last of them late; skip, nothing")
	fl.BoolVar(&p.overlap, "overlap", false, "submit each transfer at its time, also while the one before is under way (default: it waits for the end of that)")
	fl.StringVar(&p.name, "schedule", "", "name of the schedule (default: one is made up)")
	fl.BoolVar(&p.redefine, "redefine", false, "put it in the place of your schedule of that name")
}

// given reports whether the flags ask for a schedule. It refuses an incomplete one.
func (p *planFlags) given(fl *pflag.FlagSet) (bool, error) {
	if fl.Changed("at") {
		return true, nil
	}
	for _, name := range planWords {
		if fl.Changed(name) {
			return false, transfer.Errorf(transfer.KindUsage, "--%s is for a schedule, and nothing says when it begins", name).WithHint("give --at")
		}
	}
	return false, nil
}

// scheduleLine is the form of a schedule under --json.
type scheduleLine struct {
	MessageType string             `json:"message_type"` // schedule, scheduled, removed
	Agent       transfer.AgentName `json:"agent"`
	*schedule.Schedule
}

// sendLater sends a schedule to the source agent.
func sendLater(cmd *cobra.Command, f *sendFlags, p *planFlags, args []string) error {
	now := time.Now()
	q, local, err := f.request(args, cmd.InOrStdin())
	switch {
	case err != nil:
		return err
	case isStream(q):
		return transfer.Errorf(transfer.KindUsage, "standard input cannot be sent at an appointed time")
	case local:
		return transfer.Errorf(transfer.KindUsage, "a schedule is kept by its source agent, and no agent is named").WithHint("name one on both sides, as ALPHA:pay.csv BETA:in/")
	case f.dryRun:
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of the present time, and --at sends later").WithHint("leave one of them out")
	}
	put, err := p.put(q, now)
	if err != nil {
		return err
	}
	if err := needNetwork(f.network); err != nil {
		return err
	}

	net, ctx, done, err := f.connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return f.give(ctx, cmd, net, put)
}

// put makes the schedule of a request.
func (p *planFlags) put(q *transfer.Request, now time.Time) (put *schedule.Put, err error) {
	put = &schedule.Put{Name: cmp.Or(p.name, schedule.NameOf(q.ID)), Missed: p.missed, Overlap: p.overlap, Request: *q, Redefine: p.redefine}
	if put.Plan, err = p.words.Plan(now, schedule.ZoneOfHost); err != nil {
		return nil, err
	}
	_, err = schedule.ParsePut(wire.Marshal(put))
	return put, err
}

// keepSchedule sends the schedule of a complete request to the source agent.
func (f *sendFlags) keepSchedule(ctx context.Context, cmd *cobra.Command, net *client.Client, p *planFlags, q *transfer.Request) error {
	if f.dryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of the present time, and this transfer starts later").WithHint("give --now")
	}
	put, err := p.put(q, time.Now())
	if err != nil {
		return err
	}
	return f.give(ctx, cmd, net, put)
}

// give sends a schedule to the source agent.
func (f *sendFlags) give(ctx context.Context, cmd *cobra.Command, net *client.Client, put *schedule.Put) error {
	q := &put.Request
	if err := net.Check(ctx, q); err != nil {
		return unsent(ctx, err)
	}
	s, err := tellKept[schedule.Schedule](ctx, client.AtAgent{Client: net, Agent: q.Source}, keepWait, schedule.CommandPut, put)
	if err == nil {
		f.saidOfSchedule(cmd, q.Source, s)
	}
	return err
}

// saidOfSchedule prints a schedule that an agent keeps from now on.
func (f *sendFlags) saidOfSchedule(cmd *cobra.Command, agent transfer.AgentName, s *schedule.Schedule) {
	if f.json {
		printJSON(cmd, scheduleLine{"scheduled", agent, s})
		return
	}
	fmt.Fprintln(cmd.OutOrStdout(), s.Name)
	if !f.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: agent %s submits it at %s\n", agent, stamp(s.Next))
	}
}

// makeSchedule sends the schedule of a request to the source agent.
func (q *query) makeSchedule(cmd *cobra.Command, put *schedule.Put) (transfer.AgentName, *schedule.Schedule, error) {
	source := put.Request.Source
	net, ctx, done, err := q.open(cmd)
	if err != nil {
		return source, nil, err
	}
	defer done()
	if err := net.Check(ctx, &put.Request); err != nil {
		return source, nil, err
	}
	s, err := tellKept[schedule.Schedule](ctx, client.AtAgent{Client: net, Agent: source}, q.timeout, schedule.CommandPut, put)
	return source, s, err
}

func newSchedule() *cobra.Command {
	c := &cobra.Command{Use: "schedule", Short: "Look at schedules of `ferry send --at`, and remove them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newScheduleLs(), newScheduleShow(), newScheduleRm())
	return c
}

func newScheduleLs() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List your schedules, and with the authority operate those of others", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return q.list(cmd, []string{"NAME", "AGENT", "NEXT", "EVERY", "LAST", "WAITING", "TO", "OWNER"}, func(k *kept, at client.AtAgent, row func(any, ...string)) error {
				for page := (schedule.Page{}); ; {
					l, err := readKept[schedule.Listed](k.ctx, at, schedule.AskList, page)
					if err != nil {
						return err
					}
					for n := range l.Schedules {
						s := &l.Schedules[n]
						row(scheduleLine{"schedule", at.Agent, s}, s.Name, string(at.Agent), nextOf(s), everyOf(s), lastOf(s), fmt.Sprint(s.Waiting), string(s.Destination), person(s.Principal))
						page.After = s.Name
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

func nextOf(s *schedule.Schedule) string {
	if s.Next.IsZero() {
		return "ended"
	}
	return stamp(s.Next)
}

func everyOf(s *schedule.Schedule) string {
	if s.Plan.Every.IsZero() {
		return "once"
	}
	return s.Plan.Every.String()
}

func lastOf(s *schedule.Schedule) string {
	if len(s.Past) == 0 {
		return "-"
	}
	return pastWord(&s.Past[len(s.Past)-1])
}

// pastWord describes the end of an occurrence in a word or two.
func pastWord(p *schedule.Past) string {
	switch {
	case p.Missed > 0:
		return fmt.Sprintf("missed %d", p.Missed)
	case p.Error != nil:
		return "refused"
	}
	return "submitted"
}

func newScheduleShow() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a schedule, with its sources and the outcomes of its last times", Args: oneArg("the schedule's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, done, err := q.openKept(cmd)
			if err != nil {
				return err
			}
			defer done()
			at, s, err := find[schedule.Schedule](k, schedule.AskShow, "schedule", args[0], schedule.Named{Name: args[0]})
			if err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, scheduleLine{"schedule", at.Agent, s})
				return nil
			}
			showSchedule(cmd, at.Agent, s)
			return nil
		}}
	q.add(c)
	return c
}

func showSchedule(cmd *cobra.Command, agent transfer.AgentName, s *schedule.Schedule) {
	rows := [][]string{{"schedule", s.Name}, {"agent", string(agent)}, {"owner", person(s.Principal)}, {"originator", printable(s.Originator.String())}, {"made", stamp(s.Made)},
		{"first", stamp(s.Plan.Start)}, {"every", everyOf(s)}, {"time zone", s.Plan.Zone}, {"next", nextOf(s)}, {"if missed", s.Missed}}
	if s.Plan.Count > 0 {
		rows = append(rows, []string{"times", fmt.Sprintf("%d of %d", s.Done, s.Plan.Count)})
	}
	if !s.Plan.Until.IsZero() {
		rows = append(rows, []string{"until", stamp(s.Plan.Until)})
	}
	if s.Overlap {
		rows = append(rows, []string{"overlap", "a transfer does not wait for the end of the one before"})
	}
	if !s.Held.IsZero() {
		rows = append(rows, []string{"due", "since " + stamp(s.Held) + ", and waits for the end of " + s.Last.String()})
	}
	if s.Waiting > 0 {
		rows = append(rows, []string{"waiting", fmt.Sprintf("%d, until the agent has room", s.Waiting)})
	}
	rows = append(rows, requestRows(s.Request)...)
	out := cmd.OutOrStdout()
	table(out, rows)
	if len(s.Past) == 0 {
		return
	}
	past := [][]string{{"TIME", "RESULT", "TRANSFER", "REASON"}}
	for n := range s.Past {
		p := &s.Past[n]
		id, reason := "-", ""
		if !p.Transfer.IsZero() {
			id = p.Transfer.String()
		}
		if p.Error != nil {
			reason = printable(p.Error.Error())
		}
		past = append(past, []string{stamp(p.At), pastWord(p), id, reason})
	}
	fmt.Fprintln(out)
	table(out, past)
}

// requestRows show the contents of a request.
func requestRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	return append(sourceRows(q), []string{"destination", shownAt(q.Destination, q.Dest)}, []string{"job", printable(or(q.Job, "-"))})
}

// sourceRows show the sources of a request.
func sourceRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	const named = 20
	for n := range q.Items[:min(len(q.Items), named)] {
		rows = append(rows, []string{"source", shownAt(q.Source, q.Items[n].Source)})
	}
	if more := len(q.Items) - named; more > 0 {
		rows = append(rows, []string{"", "and " + plural(int64(more), "source") + " more"})
	}
	return rows
}

func newScheduleRm() *cobra.Command {
	q := &keptQuery{}
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Remove a schedule; transfers that it has submitted go on", Args: oneArg("the schedule's name"),
		RunE: func(cmd *cobra.Command, args []string) error { return q.removeSchedule(cmd, args[0]) }}
	q.add(c)
	return c
}

// removeSchedule finds the schedule of a name, and has its agent remove it.
func (q *keptQuery) removeSchedule(cmd *cobra.Command, name string) error {
	k, done, err := q.openKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	at, _, err := find[schedule.Schedule](k, schedule.AskShow, "schedule", name, schedule.Named{Name: name})
	if err != nil {
		return err
	}
	s, err := tellKept[schedule.Schedule](k.ctx, at, q.timeout, schedule.CommandRemove, schedule.Named{Name: name})
	if err != nil {
		return err
	}
	if q.json {
		printJSON(cmd, scheduleLine{"removed", at.Agent, s})
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s removed\n", s.Name)
	return nil
}
