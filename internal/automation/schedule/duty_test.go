package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/automation/duty/dutytest"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A world is an agent with the duty of schedules. Transfers that the agent has accepted are durable.
type world struct {
	*dutytest.Agent
	k        *scheduleDuty
	accepted map[transfer.ID]string // the hash of each request
	ran      map[string][]time.Time // by the schedule: the times of the occurrences that were accepted

	states map[transfer.ID]transfer.State // of transfers that have not ended
	begins transfer.State                 // of each that is accepted; empty: it ends at once

	overlap bool // of schedules that are made

	answer func(principal string, q *transfer.Request) error // the agent's answer; nil: it accepts
	before func()                                            // before and after it has accepted
	after  func()
}

func newWorld(t testing.TB, now string) *world {
	t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Agent: dutytest.New(t, at), accepted: map[transfer.ID]string{}, ran: map[string][]time.Time{}, states: map[transfer.ID]transfer.State{}}
	w.start()
	return w
}

// start begins a run on the contents of the ledger.
func (w *world) start() {
	d := w.Start()
	d.Submit = func(by word.Origin, q *transfer.Request) (*transfer.Progress, error) {
		if err := dutytest.Signed(by); err != nil {
			w.T.Error(err)
		}
		return nil, w.submitted(by.Principal, q)
	}
	d.Status = func(id transfer.ID) (*transfer.Progress, error) {
		if _, known := w.accepted[id]; !known {
			return nil, transfer.Errorf(transfer.KindNotFound, "there is no transfer %s", id)
		}
		return &transfer.Progress{ID: id, State: cmp.Or(w.states[id], transfer.Successful)}, nil
	}
	w.k = newDuty(d)
	w.k.begin()
}

// submitted is the agent: it knows the transfers that it has accepted, and refuses an ID that is not written down.
func (w *world) submitted(principal string, q *transfer.Request) error {
	if w.before != nil {
		w.before()
	}
	var claim *Claim
	err := w.Ledger.View(func(t *ledger.Tx) error {
		data := drawerOf(t).Get("w/" + q.ID.String())
		if data == nil {
			return nil
		}
		claim = &Claim{}
		return json.Unmarshal(data, claim)
	})
	if claim == nil {
		w.T.Errorf("transfer %s is submitted, and its ID is not in the ledger: %v", q.ID, err)
		return nil
	}
	if was, known := w.accepted[q.ID]; known {
		if was != q.Hash() {
			w.T.Errorf("transfer %s is submitted again with another content", q.ID)
		}
	} else {
		if w.answer != nil {
			if err := w.answer(principal, q); err != nil {
				return err
			}
		}
		w.accepted[q.ID] = q.Hash()
		if w.begins != "" {
			w.states[q.ID] = w.begins
		}
		w.ran[claim.Name] = append(w.ran[claim.Name], claim.At)
	}
	if w.after != nil {
		w.after()
	}
	return nil
}

// pass has the duty do the steps that are due; false: it crashed.
func (w *world) pass() bool {
	return dutytest.RunsToEnd(func() {
		w.k.claim(false)
		w.k.submit(w.T.Context())
	})
}

// next is when the duty has to do something next.
func (w *world) next() (at time.Time) {
	for _, due := range w.k.dueTimes {
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// until passes the time up to an hour, and has the duty do each step when it is due.
func (w *world) until(end time.Time) {
	for {
		for !w.pass() {
			w.Clock.At = w.Clock.At.Add(time.Second)
			w.start()
		}
		next := w.next()
		if next.IsZero() || next.After(end) {
			w.Clock.At = end
			return
		}
		w.Clock.At = next
	}
}

func sample() transfer.Request {
	return transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Unix(1_700_000_000, 0)), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
}

func (w *world) command(who string, kind wire.Kind, body any) (answer any, err error) {
	answer, err = w.Do(w.k, who, w.Clock.At, kind, body)
	if err == nil {
		w.k.claim(true)
	}
	return answer, err
}

func (w *world) put(who, name, missed string, words PlanText) error {
	p, err := words.Plan(w.Clock.At, here)
	if err != nil {
		w.T.Fatal(err)
	}
	_, err = w.command(who, CommandPut, Put{Name: name, Plan: p, Missed: missed, Overlap: w.overlap, Request: sample()})
	return err
}

func (w *world) show(name string) *Schedule {
	w.T.Helper()
	s, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{Name: name}))
	w.Must(err)
	return s.(*Schedule)
}

// Each occurrence is submitted once, in a year with changes of clocks in three zones, crashes at every step and an
// agent that is busy now and then.
func TestAYear(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 27))
			w := newWorld(t, "2026-01-01T12:00:00Z")
			end := w.Clock.At.AddDate(1, 0, 0)
			want := map[string][]time.Time{}
			for name, words := range map[string]PlanText{
				"berlin": {At: "02:30", Every: "1d"}, "berlin-hours": {At: "00:30", Every: "2h"}, "new-york": {At: "01:30", Every: "1d", Zone: "America/New_York"},
				"new-york-2": {At: "02:15", Every: "1d", Zone: "America/New_York"}, "lord-howe": {At: "01:45", Every: "1d", Zone: "Australia/Lord_Howe"},
				"weekly": {At: "2026-01-04T02:00", Every: "1w"}, "monthly": {At: "2026-01-31T02:59", Every: "1mo"}, "some": {At: "+5h", Every: "3h", Count: 100},
				"part": {At: "+3h", Every: "90m", Until: "2026-04-01T00:00:00Z"}, "once": {At: "2026-03-29T02:00"},
			} {
				w.Must(w.put("ann", name, MissedSkip, words))
				p, err := words.Plan(w.Clock.At, here)
				w.Must(err)
				times, err := p.Times()
				w.Must(err)
				for n := int64(0); ; n++ {
					at, ok := times.At(n)
					if !ok || at.After(end) {
						break
					}
					want[name] = append(want[name], at)
				}
			}
			busy, crashes := 0, 0
			w.answer = func(string, *transfer.Request) error {
				if busy > 0 || r.IntN(50) == 0 {
					busy = (busy + 7) % 8
					return transfer.Errorf(transfer.KindBusy, "later")
				}
				return nil
			}
			dies := func() {
				if r.IntN(40) == 0 {
					crashes++
					dutytest.Crash()
				}
			}
			w.before, w.after = dies, dies
			w.until(end)
			for !w.pass() {
				w.start()
			}
			w.before, w.after, w.answer = nil, nil, nil
			w.pass()
			for name, times := range want {
				got := w.ran[name]
				slices.SortFunc(got, time.Time.Compare)
				if !slices.EqualFunc(got, times, time.Time.Equal) {
					t.Errorf("%s: %d occurrences ran, and there are %d", name, len(got), len(times))
				}
			}
			if crashes < 20 {
				t.Errorf("only %d crashes", crashes)
			}
		})
	}
}

// An agent that was down for a week submits one transfer for the missed occurrences, or none.
func TestDown(t *testing.T) {
	for _, c := range []struct {
		missed string
		ran    int
	}{{MissedOnce, 1}, {MissedSkip, 0}} {
		w := newWorld(t, "2026-01-01T12:00:00Z")
		w.Must(w.put("ann", "minutes", c.missed, PlanText{At: "+1m", Every: "1m"}))
		w.Must(w.put("ann", "hour", c.missed, PlanText{At: "+1h"}))
		w.Clock.At = w.Clock.At.AddDate(0, 0, 7).Add(30 * time.Second)
		w.start()
		w.pass()
		if n, h := len(w.ran["minutes"]), len(w.ran["hour"]); n != c.ran || h != c.ran {
			t.Errorf("%s: after a week %d run of those for each minute, and %d of the one", c.missed, n, h)
		}
		p := w.show("minutes").Results
		if len(p) != c.ran+1 || p[0].Missed+int64(c.ran) != 7*24*60 {
			t.Errorf("%s: on record is %+v", c.missed, p)
		}
		if s := w.show("hour"); s.Ended.IsZero() || len(s.Results) != 1 {
			t.Errorf("%s: the one is %+v", c.missed, s)
		}
		w.until(w.Clock.At.Add(10 * time.Minute))
		if n := len(w.ran["minutes"]); n != c.ran+10 {
			t.Errorf("%s: then %d run in ten minutes", c.missed, n-c.ran)
		}
		if !slices.ContainsFunc(w.Notes, func(r audit.Record) bool { return r.Event == audit.Warning && strings.Contains(r.Text, "missed") }) {
			t.Errorf("%s: the audit does not have the missed occurrences", c.missed)
		}
	}
}

// A clock that is put back repeats no occurrence. A clock that is put forward has the effect of a time in which the
// agent was down.
func TestTheClockIsSet(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "minutes", MissedOnce, PlanText{At: "+1m", Every: "1m"}))
	w.until(w.Clock.At.Add(10 * time.Minute))
	w.Clock.At = w.Clock.At.Add(-time.Hour)
	w.pass()
	w.start()
	w.pass()
	if n := len(w.ran["minutes"]); n != 10 {
		t.Fatalf("after the clock was put back %d have run, not 10", n)
	}
	w.until(w.Clock.At.Add(65 * time.Minute))
	if n := len(w.ran["minutes"]); n != 15 {
		t.Fatalf("when it is as late as before and 5 minutes later, %d have run, not 15", n)
	}
	w.Clock.At = w.Clock.At.Add(time.Hour)
	w.pass()
	if n := len(w.ran["minutes"]); n != 16 {
		t.Errorf("after the clock was put forward %d have run, not 16", n)
	}
}

// An occurrence after the clock was put back is not missed, though the agent's run began later by the clock.
func TestTheClockIsPutBackBeforeTheRunBegan(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Clock.At = w.Clock.At.Add(-time.Hour)
	w.Must(w.put("ann", "minutes", MissedSkip, PlanText{At: "+1m", Every: "1m"}))
	w.until(w.Clock.At.Add(10 * time.Minute))
	if n := len(w.ran["minutes"]); n != 10 {
		t.Errorf("%d have run, not 10", n)
	}
}

// A claim from before the clock was put back gets another ID, when the agent refuses that of the future.
func TestAnIDFromTheFuture(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "once", MissedOnce, PlanText{At: "+1m"}))
	w.answer = func(_ string, q *transfer.Request) error {
		if q.ID.Time().Sub(w.Clock.At) > time.Hour {
			return transfer.Errorf(transfer.KindClock, "it is from the future")
		}
		return nil
	}
	w.Clock.At = w.Clock.At.Add(time.Minute)
	w.k.claim(false)
	w.Clock.At = w.Clock.At.Add(-2 * time.Hour)
	w.pass()
	w.pass()
	if len(w.ran["once"]) != 1 || w.show("once").Waiting != 0 {
		t.Errorf("ran %v, %+v", w.ran, w.show("once"))
	}
}

// An occurrence that is refused is on record, and the next one is submitted.
func TestRefused(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "minutes", MissedOnce, PlanText{At: "+1m", Every: "1m"}))
	kinds := []transfer.Kind{transfer.KindDenied, transfer.KindUsage, transfer.KindConflict}
	left := slices.Clone(kinds)
	w.answer = func(principal string, q *transfer.Request) error {
		if principal != "ann" || q.Job != "minutes" || q.Submitted.IsZero() {
			t.Errorf("%s submits %+v", principal, q)
		}
		if len(left) == 0 {
			return nil
		}
		kind := left[0]
		left = left[1:]
		return transfer.Errorf(kind, "no")
	}
	w.until(w.Clock.At.Add(5 * time.Minute))
	past := w.show("minutes").Results
	if len(w.ran["minutes"]) != 2 || len(past) != 5 {
		t.Fatalf("ran %v, on record %+v", w.ran, past)
	}
	for n, kind := range kinds {
		if p := past[n]; p.N != int64(n) || p.Error == nil || p.Error.Kind != kind {
			t.Errorf("on record is %+v, for %s", p, kind)
		}
		if !slices.ContainsFunc(w.Notes, func(r audit.Record) bool {
			return r.Event == audit.Failed && r.Transfer == past[n].Transfer && r.Error.Kind == kind && r.Principal == "ann"
		}) {
			t.Errorf("the audit does not have that an occurrence was refused as %s", kind)
		}
	}
}

// While the agent is busy no occurrence is lost: those that are due wait, the oldest first, up to a limit.
func TestBusy(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.overlap = true
	w.Must(w.put("ann", "a", MissedSkip, PlanText{At: "+2m", Every: "1m"}))
	w.Must(w.put("ann", "b", MissedSkip, PlanText{At: "+1m", Every: "1h"}))
	full := true
	var order []string
	w.answer = func(_ string, q *transfer.Request) error {
		if full {
			return transfer.Errorf(transfer.KindBusy, "later")
		}
		order = append(order, q.Job)
		return nil
	}
	w.until(w.Clock.At.Add(50 * time.Minute))
	if a, b := w.show("a"), w.show("b"); a.Waiting != 49 || b.Waiting != 1 || len(w.accepted) != 0 {
		t.Fatalf("%d and %d wait", a.Waiting, b.Waiting)
	}
	w.start()
	full = false
	w.pass()
	if len(w.ran["a"]) != 49 || len(w.ran["b"]) != 1 || order[0] != "b" {
		t.Errorf("%d and %d have run, in the order %v", len(w.ran["a"]), len(w.ran["b"]), order)
	}
	full = true
	w.k.began = w.Clock.At
	for range 3 * maxWaiting {
		w.Clock.At = w.Clock.At.Add(time.Minute)
		w.pass()
	}
	if s := w.show("a"); s.Waiting != maxWaiting {
		t.Errorf("%d wait, and the limit is %d", s.Waiting, maxWaiting)
	}
	if next := w.next(); !next.After(w.Clock.At) {
		t.Errorf("it is to be looked at again at %s, and it is %s", next, w.Clock.At)
	}
	full = false
	w.pass()
	w.Clock.At = w.Clock.At.Add(retry)
	w.pass() // the last one is in time, and those before it are missed
	if s := w.show("a"); s.Waiting != 0 || len(w.ran["a"]) != 49+maxWaiting+1 {
		t.Errorf("%d have run, and %d wait", len(w.ran["a"]), s.Waiting)
	}
}

// Another kind of failure of one schedule does not delay other schedules.
func TestOneThatFails(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "a", MissedSkip, PlanText{At: "+1m"}))
	w.Must(w.put("ann", "b", MissedSkip, PlanText{At: "+1m"}))
	w.answer = func(_ string, q *transfer.Request) error {
		if q.Job == "a" {
			return fmt.Errorf("the disk is on fire")
		}
		return nil
	}
	w.until(w.Clock.At.Add(time.Minute))
	if w.show("a").Waiting != 1 || len(w.ran["b"]) != 1 {
		t.Errorf("%+v, %v", w.show("a"), w.ran)
	}
}

// Schedules have owners; their names are taken while they last.
func TestOwners(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Denied["bob"], w.Denied["eve"], w.Denied["sam"] = "operate", "operate schedule", "source"
	refused := func(what string, err error, kind transfer.Kind) {
		t.Helper()
		if transfer.KindOf(err) != kind {
			t.Errorf("%s: %v, not %s", what, err, kind)
		}
	}
	daily := PlanText{At: "02:30", Every: "1d"}
	refused("eve makes one", w.put("eve", "x", MissedOnce, daily), transfer.KindDenied)
	refused("sam makes one", w.put("sam", "x", MissedOnce, daily), transfer.KindDenied)
	w.Must(w.put("bob", "nightly", MissedOnce, daily))
	refused("bob makes it again", w.put("bob", "nightly", MissedOnce, daily), transfer.KindConflict)
	refused("ann makes it", w.put("ann", "nightly", MissedOnce, daily), transfer.KindConflict)
	refused("a name", w.put("ann", "a/b", MissedOnce, daily), transfer.KindUsage)
	refused("a policy", w.put("ann", "a", "twice", daily), transfer.KindUsage)
	w.Must(w.put("ann", "other", MissedOnce, PlanText{At: "+1m"}))

	names := func(who string) (all string) {
		l, err := w.k.list(duty.Caller{Origin: word.Origin{Principal: who}}, wire.Marshal(Page{}))
		w.Must(err)
		for _, s := range l.(Listed).Schedules {
			all += s.Name + " "
		}
		return all
	}
	if a, b := names("ann"), names("bob"); a != "nightly other " || b != "nightly " {
		t.Errorf("ann sees %s, bob %s", a, b)
	}
	_, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "bob"}}, wire.Marshal(Named{Name: "other"}))
	refused("bob looks at ann's", err, transfer.KindNotFound)
	_, err = w.command("bob", CommandRemove, Named{Name: "other"})
	refused("bob removes ann's", err, transfer.KindDenied)
	if q := w.show("nightly").Request; q == nil || q.Dest != transfer.File("b") {
		t.Errorf("the request is shown as %+v", q)
	}

	p, err := PlanText{At: "03:30", Every: "1d"}.Plan(w.Clock.At, here)
	w.Must(err)
	_, err = w.command("ann", CommandPut, Put{Name: "nightly", Plan: p, Missed: MissedOnce, Request: sample(), Redefine: true})
	refused("ann redefines bob's", err, transfer.KindConflict)
	_, err = w.command("bob", CommandPut, Put{Name: "nightly", Plan: p, Missed: MissedOnce, Request: sample(), Redefine: true})
	w.Must(err)
	if s := w.show("nightly"); s.Plan.Wall != "2026-01-02T03:30:00" || !s.Next.Equal(p.Start) {
		t.Errorf("redefined, it is %+v", s)
	}
	other := sample()
	other.Source = "GAMMA"
	_, err = w.command("bob", CommandPut, Put{Name: "x", Plan: p, Missed: MissedOnce, Request: other})
	refused("one of another agent", err, transfer.KindUsage)

	w.until(w.Clock.At.Add(2 * time.Minute)) // "other" ends, and its name is free
	w.Must(w.put("bob", "other", MissedOnce, PlanText{At: "+1m"}))
	_, err = w.command("ann", CommandRemove, Named{Name: "other"})
	w.Must(err)
	_, err = w.command("ann", CommandRemove, Named{Name: "other"})
	refused("it is gone", err, transfer.KindNotFound)
	w.until(w.Clock.At.Add(2 * time.Minute))
	if n := len(w.ran["other"]); n != 1 {
		t.Errorf("the schedules of one name have run %d times, not once", n)
	}
	done := ""
	for _, r := range w.Notes {
		done += r.Kept.Name + ":" + r.Kept.Done + " "
	}
	if want := "nightly:submit other:submit nightly:submit other:expire other:submit other:delete "; done != want {
		t.Errorf("the audit has %s, not %s", done, want)
	}
}

// A claim of a schedule that is removed or replaced is not submitted.
func TestRemovedWhileItWaits(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindBusy, "later") }
	w.Must(w.put("ann", "a", MissedOnce, PlanText{At: "+1m", Every: "1h"}))
	w.Must(w.put("ann", "ab", MissedOnce, PlanText{At: "+1m", Every: "1h"}))
	w.until(w.Clock.At.Add(time.Minute))
	_, err := w.command("ann", CommandRemove, Named{Name: "a"})
	w.Must(err)
	w.Must(w.put("ann", "a", MissedOnce, PlanText{At: "+1h"}))
	if page, err := w.k.page(""); err != nil || len(page) != 1 || page[0].Name != "ab" {
		t.Errorf("%d claims are left, %v", len(page), err)
	}
	w.answer = nil
	w.pass()
	if len(w.ran["a"]) != 0 || len(w.ran["ab"]) != 1 {
		t.Errorf("%v have run", w.ran)
	}
}

// A schedule may be replaced by another one of its name while it is submitted. It then leaves no trace in the record of
// the new one.
func TestRedefinedWhileItIsSubmitted(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "a", MissedOnce, PlanText{At: "+1m", Every: "1h"}))
	w.after = func() {
		_, err := w.command("ann", CommandRemove, Named{Name: "a"})
		w.Must(err)
		w.Must(w.put("ann", "a", MissedOnce, PlanText{At: "+1h"}))
	}
	w.until(w.Clock.At.Add(time.Minute))
	if s := w.show("a"); len(w.ran["a"]) != 1 || s.Waiting != 0 || len(s.Results) != 0 || s.Done != 0 {
		t.Errorf("%v have run, and the new one is %+v", w.ran, s)
	}
}

// An agent keeps so many schedules, and forgets those that have ended first.
func TestMany(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "first", MissedOnce, PlanText{At: "+1m"}))
	w.until(w.Clock.At.Add(2 * time.Minute))
	w.Must(w.put("ann", "n", MissedOnce, PlanText{At: "+24h"}))
	w.Must(w.Ledger.Update(func(tx *ledger.Tx) error {
		d := drawerOf(tx)
		s, err := d.Load("n")
		for n := 2; n < MaxSchedules && err == nil; n++ {
			s.Name, s.Principal = fmt.Sprintf("n%04d", n), fmt.Sprintf("user%d", n)
			s.Results = []Past{{Error: transfer.Errorf(transfer.KindDenied, "%s", strings.Repeat("no", maxReason/2))}}
			err = d.Save(s)
		}
		return err
	}))
	w.Must(w.put("bob", "one", MissedOnce, PlanText{At: "+24h"}))
	if err := w.put("carl", "two", MissedOnce, PlanText{At: "+24h"}); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("one too many: %v", err)
	}
	seen := map[string]bool{}
	for page := (Page{}); ; {
		l, err := w.k.list(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(page))
		w.Must(err)
		b, err := json.Marshal(l)
		if err != nil || len(b) > wire.MaxControl/2 {
			t.Fatalf("a page has %d bytes: %v", len(b), err)
		}
		all := l.(Listed)
		for _, s := range all.Schedules {
			seen[s.Name] = true
		}
		if !all.More {
			break
		}
		page.After = all.Schedules[len(all.Schedules)-1].Name
	}
	if len(seen) != MaxSchedules || seen["first"] {
		t.Errorf("%d are listed", len(seen))
	}
}

// A schedule in the place of an ended one counts in its maker's share.
func TestTheShareCountsNamesThatAreTakenAgain(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.Must(w.put("ann", "first", MissedOnce, PlanText{At: "+1m"}))
	w.until(w.Clock.At.Add(2 * time.Minute))
	w.Must(w.put("ann", "n", MissedOnce, PlanText{At: "+24h"}))
	w.Must(w.Ledger.Update(func(tx *ledger.Tx) error {
		d := drawerOf(tx)
		s, err := d.Load("n")
		for n := 2; n <= MaxSchedules/2 && err == nil; n++ {
			s.Name = fmt.Sprintf("n%04d", n)
			err = d.Save(s)
		}
		return err
	}))
	if err := w.put("ann", "second", MissedOnce, PlanText{At: "+24h"}); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("one too many: %v", err)
	}
	if err := w.put("ann", "first", MissedOnce, PlanText{At: "+24h"}); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("one too many in the place of one that has ended: %v", err)
	}
	if w.show("first").Ended.IsZero() {
		t.Error("the one that has ended is gone")
	}
	w.Must(w.put("bob", "first", MissedOnce, PlanText{At: "+24h"}))
}

// Run does all of that by itself, on the clock of the host.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "2026-01-01T12:00:00Z")
		w.k.Clock = clock.System
		w.Clock.At = time.Now()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		busy := 3
		ran := make(chan time.Duration, 10)
		began := time.Now()
		w.answer = func(string, *transfer.Request) error {
			if busy--; busy >= 0 {
				return transfer.Errorf(transfer.KindBusy, "later")
			}
			ran <- time.Since(began)
			return nil
		}
		go func() { w.k.Run(ctx); close(done) }()
		synctest.Wait()
		p, err := PlanText{At: "+90s", Every: "1h", Count: 2}.Plan(began, here)
		w.Must(err)
		c := w.k.Commands()[CommandPut]
		w.Must(w.Ledger.Update(func(tx *ledger.Tx) error {
			_, err := c.Do(tx, duty.Caller{Origin: word.Origin{Principal: "ann", Author: dutytest.Author("ann")}}, wire.Marshal(Put{Name: "a", Plan: p, Missed: MissedOnce, Request: sample()}))
			return err
		}))
		c.Done()
		// The agent is asked again each second; twice at once, where a look is due anyway.
		if first, second := <-ran, <-ran; first <= 90*time.Second || first > 93*time.Second || second != time.Hour+90*time.Second {
			t.Errorf("they run after %s and %s", first, second)
		}
		end()
		<-done
	})
}

func TestWordsAndPlan(t *testing.T) {
	p := Put{Name: "x", Missed: MissedOnce, Request: sample(), PlanText: &PlanText{At: "21:00"}, Plan: Plan{Zone: "UTC"}}
	if _, err := ParsePut(wire.Marshal(p)); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("with words and a plan: %v", err)
	}
}
