package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of the duty.
const (
	look  = 30 * time.Second // between two checks of the clock at most: it may have been set
	retry = time.Second      // until another try
	late  = time.Minute      // an occurrence that is found so late is missed
)

// A scheduleDuty keeps the schedules of an agent.
type scheduleDuty struct {
	duty.Services
	changed chan struct{} // a command was given
	claimed chan struct{} // something waits to be submitted
	began   time.Time     // occurrences before it are missed

	dueTimes map[string]time.Time // of each schedule that has not ended: when it is due
}

// New makes the duty.
func New(d duty.Services) (duty.Duty, error) { return newDuty(d), nil }

func newDuty(d duty.Services) *scheduleDuty {
	return &scheduleDuty{Services: d, changed: make(chan struct{}, 1), claimed: make(chan struct{}, 1)}
}

// Commands make and remove schedules.
func (k *scheduleDuty) Commands() map[wire.Kind]duty.Command {
	changed := func() { wake.Up(k.changed) }
	return map[wire.Kind]duty.Command{
		CommandPut:    {Needs: transfer.AuthSchedule, Do: k.put, Done: changed},
		CommandRemove: {Needs: transfer.AuthNone, Do: k.remove, Done: changed}, // remove asks for more
	}
}

// Questions are answered about the caller's own schedules, and about those of others to callers with AuthOperate.
func (k *scheduleDuty) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Answer: k.list}, AskShow: {Answer: k.show}}
}

func (k *scheduleDuty) put(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	p, err := ParsePut(body)
	if err != nil {
		return nil, err
	}
	if p.Request.Source != k.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the schedule is for agent %s; this is %s", p.Request.Source, k.Agent)
	}
	if err := k.May(who.Principal, transfer.AuthSource); err != nil {
		return nil, err
	}
	if err := p.makePlan(who.Asked); err != nil {
		return nil, err
	}
	now := k.Clock.Now().UTC()
	if p.Plan.Start.Sub(now) > maxYears*366*24*time.Hour {
		return nil, transfer.Errorf(transfer.KindUsage, "the schedule begins at %s, more than %d years from now", p.Plan.Start.Format(time.RFC3339), maxYears)
	}

	d := drawerOf(t)
	old, err := d.Load(p.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case old == nil:
		err = k.room(d, who.Principal)
	case !old.Ended.IsZero():
		if err = d.remove(p.Name); err == nil { // the removed schedule does not count any more, and the new one does
			err = k.room(d, who.Principal)
		}
	case old.Principal != who.Principal:
		err = transfer.Errorf(transfer.KindConflict, "%s has a schedule %s of another user", k.Agent, p.Name).WithHint("take another name")
	case !p.Redefine:
		err = transfer.Errorf(transfer.KindConflict, "%s has a schedule %s already", k.Agent, p.Name).WithHint("--redefine puts this one in its place")
	}
	if err != nil {
		return nil, err
	}
	if err := d.remove(p.Name); err != nil {
		return nil, err
	}

	q := &p.Request
	q.Job = cmp.Or(q.Job, p.Name)
	s := &Schedule{V: version, Name: p.Name, ID: transfer.NewID(now), Origin: who.Origin, Originator: who.Originator, Made: now,
		Plan: p.Plan, Missed: p.Missed, Overlap: p.Overlap, Source: q.Source, Destination: q.Destination, Job: q.Job}
	if old != nil {
		s.Last = old.Last
	}
	if err := d.Put("r/"+s.Name, wire.Marshal(q)); err != nil {
		return nil, err
	}
	if err := d.Save(s); err != nil {
		return nil, err
	}
	k.Log.Info("schedule made", "schedule", s.Name, "principal", s.Principal, "start", s.Plan.Start)
	return s.shown(), k.noteChange(t, s, who, audit.ScheduleSubmit, "has the schedule "+s.Name+": "+s.Plan.String())
}

// String describes the times of the occurrences to users.
func (p Plan) String() string {
	text := "at " + p.Start.UTC().Format(time.RFC3339)
	if !p.Every.IsZero() {
		text += ", every " + p.Every.String() + " in " + p.Zone
	}
	if p.Count > 0 {
		text += fmt.Sprintf(", %d times", p.Count)
	}
	if !p.Until.IsZero() {
		text += ", until " + p.Until.UTC().Format(time.RFC3339)
	}
	return text
}

func (k *scheduleDuty) noteChange(t *ledger.Tx, s *Schedule, who duty.Caller, done, text string) error {
	r := who.Changed(text)
	r.Role, r.Source, r.Destination, r.Job, r.Figures = audit.RoleSource, k.Agent, s.Destination, s.Job, kept(s, done)
	return k.Note(t, r)
}

// kept is a command done with a schedule, for records.
func kept(s *Schedule, done string) audit.Figures {
	return audit.Figures{Kept: &audit.Kept{Kind: audit.KeptSchedule, Name: s.Name, Done: done}}
}

// room makes room for one more schedule of a principal: it removes the one that has ended first.
func (k *scheduleDuty) room(d drawer, principal string) error {
	var oldest *Schedule
	n := 0
	going := func(yield func(*Schedule, error) bool) {
		for s, err := range d.From("") {
			n++
			if err == nil && !s.Ended.IsZero() {
				if oldest == nil || s.Ended.Before(oldest.Ended) {
					oldest = s
				}
			} else if !yield(s, err) {
				return
			}
		}
	}
	if err := duty.CheckRoom(&k.Services, "schedule", principal, MaxSchedules, going); err != nil || n < MaxSchedules {
		return err
	}
	return d.remove(oldest.Name)
}

func (k *scheduleDuty) remove(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	d := drawerOf(t)
	s, err := d.Named(&k.Services, "schedule", body)
	if err != nil {
		return nil, err
	}
	if err := k.MayChange(who, s.Principal, transfer.AuthSchedule); err != nil {
		return nil, err
	}
	if err := d.remove(s.Name); err != nil {
		return nil, err
	}
	k.Log.Info("schedule removed", "schedule", s.Name, "principal", who.Principal)
	return s.shown(), k.noteChange(t, s, who, audit.ScheduleDelete, "has no schedule "+s.Name+" any more")
}

func (k *scheduleDuty) list(who duty.Caller, body json.RawMessage) (any, error) {
	p, err := duty.Body[Page](body, "the question about schedules")
	if err != nil {
		return nil, err
	}
	l := Listed{Schedules: []Schedule{}}
	err = k.Ledger.View(func(t *ledger.Tx) (err error) {
		l.More, err = duty.Page(duty.Visible(&k.Services, who, drawerOf(t).From(p.After)), listPage, func(s *Schedule) {
			shown := s.shown()
			shown.Results = s.Results[max(0, len(s.Results)-1):] // those of all are too much for a message
			l.Schedules = append(l.Schedules, *shown)
		})
		return err
	})
	return l, err
}

func (k *scheduleDuty) show(who duty.Caller, body json.RawMessage) (answer any, err error) {
	err = k.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		s, err := d.Named(&k.Services, "schedule", body)
		if err != nil {
			return err
		}
		ok, err := k.MaySee(who, s.Principal)
		if err == nil && !ok {
			err = k.NotFound("schedule", s.Name)
		}
		if err != nil {
			return err
		}
		s = s.shown()
		s.Request, err = d.request(s.Name)
		answer = s
		return err
	})
	return answer, err
}

// Kept has the schedules with their requests.
func (k *scheduleDuty) Kept(t *ledger.Tx, add func(wire.Definition)) error {
	d := drawerOf(t)
	for s, err := range d.From("") {
		if err != nil {
			return err
		}
		s = s.shown()
		if s.Request, err = d.request(s.Name); err != nil {
			return err
		}
		add(duty.Kept(Noun, s, duty.SeenBy, s))
	}
	return nil
}

// request is that of a schedule.
func (d drawer) request(name string) (*transfer.Request, error) {
	q := &transfer.Request{}
	if err := json.Unmarshal(d.Get("r/"+name), q); err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger has a request of the schedule %s that cannot be read: %w", name, err)
	}
	return q, nil
}

// shown is a copy with the fields that are computed when a schedule is shown.
func (s *Schedule) shown() *Schedule {
	c := *s
	if times, err := s.Plan.Times(); err == nil {
		if next, ok := times.At(s.Done); ok {
			c.Next = next
		}
	}
	return &c
}

// Run claims occurrences when they are due, and submits the claimed ones. The two are apart, so that an occurrence that
// waits to be submitted keeps no others from being claimed in time.
func (k *scheduleDuty) Run(ctx context.Context) {
	k.begin()
	var wg sync.WaitGroup
	wg.Go(func() { k.every(ctx, k.claimed, func(bool) time.Duration { return k.submit(ctx) }) })
	k.every(ctx, k.changed, k.claim)
	wg.Wait()
}

// begin notes that the agent is up from now on.
func (k *scheduleDuty) begin() { k.began, k.dueTimes = k.Clock.Now(), nil }

// every calls fn, after the time that it asks for and when it is poked, until ctx ends.
func (k *scheduleDuty) every(ctx context.Context, woken <-chan struct{}, fn func(woken bool) (again time.Duration)) {
	t := k.Clock.NewTimer(0)
	defer t.Stop()
	for ctx.Err() == nil {
		because := false
		select {
		case <-ctx.Done():
			return
		case <-woken:
			because = true
		case <-t.C():
		}
		t.Reset(max(0, min(fn(because), look)))
	}
}
