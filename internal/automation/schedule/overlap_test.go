package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// busy makes a schedule with occurrences a minute apart. The first of them is running.
func busy(t *testing.T, missed string, overlap bool) *world {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	w.begins, w.overlap = transfer.Running, overlap
	w.Must(w.put("ann", "minutes", missed, PlanText{At: "+1m", Every: "1m"}))
	w.later(time.Minute)
	w.ranAre("12:01")
	return w
}

// later passes time in steps of a second.
func (w *world) later(d time.Duration) {
	for end := w.Clock.At.Add(d); w.Clock.At.Before(end); {
		w.Clock.At = w.Clock.At.Add(time.Second)
		w.pass()
	}
}

// ended ends all transfers.
func (w *world) ended(state transfer.State) {
	for id := range w.states {
		w.states[id] = state
	}
}

func (w *world) ranAre(want ...string) {
	w.T.Helper()
	var got []string
	for _, at := range w.ran["minutes"] {
		got = append(got, at.UTC().Format("15:04"))
	}
	if !slices.Equal(got, want) {
		w.T.Errorf("%v have run, not %v", got, want)
	}
}

// An occurrence that is due while the transfer before is running waits for its end. It waits for any end, for any time,
// and also where the agent restarts meanwhile.
func TestOneAtATime(t *testing.T) {
	for _, missed := range []string{MissedOnce, MissedSkip} {
		for _, state := range []transfer.State{transfer.Successful, transfer.Partial, transfer.Failed, transfer.Cancelled} {
			w := newWorld(t, "2026-01-01T12:00:00Z")
			w.begins = transfer.Running
			w.Must(w.put("ann", "minutes", missed, PlanText{At: "+1m", Every: "10m"}))
			w.later(time.Minute)
			w.later(15 * time.Minute)
			w.ranAre("12:01")
			if s := w.show("minutes"); s.Held.UTC().Format("15:04:05") != "12:11:00" || s.Waiting != 0 {
				t.Errorf("the schedule is %+v", s)
			}
			w.start()
			w.later(2 * time.Minute)
			w.ranAre("12:01")
			w.ended(state)
			w.later(2 * time.Second)
			w.ranAre("12:01", "12:11")
			if s := w.show("minutes"); !s.Held.IsZero() {
				t.Errorf("the schedule is %+v", s)
			}
			w.ended(state)
			w.later(4 * time.Minute)
			w.ranAre("12:01", "12:11", "12:21")
		}
	}
}

// Several occurrences may become due while the transfer before is running. The last one is submitted, or none, as the
// schedule says of those that are missed; the others are on record.
func TestSeveralFallTogether(t *testing.T) {
	for _, c := range []struct {
		missed  string
		first   []string
		dropped string
	}{{MissedOnce, []string{"12:01", "12:06"}, "not submitted: 4, from 2026-01-01T12:02:00Z on"}, {MissedSkip, []string{"12:01"}, "not submitted: 5, from 2026-01-01T12:02:00Z on"}} {
		w := busy(t, c.missed, false)
		w.later(5*time.Minute + 30*time.Second)
		w.ranAre("12:01")
		w.ended(transfer.Successful)
		w.later(2 * time.Second)
		w.ranAre(c.first...)
		w.ended(transfer.Successful)
		w.later(30 * time.Second)
		w.ranAre(append(c.first, "12:07")...)
		if !slices.ContainsFunc(w.Notes, func(r audit.Record) bool {
			return r.Event == audit.Warning && strings.Contains(r.Text, "due while the transfer before was under way") && strings.Contains(r.Text, c.dropped)
		}) {
			t.Errorf("%s: on record are %+v", c.missed, w.Notes)
		}
	}
}

// With overlap each occurrence is submitted when it is due.
func TestOverlap(t *testing.T) {
	w := busy(t, MissedSkip, true)
	w.later(3 * time.Minute)
	w.ranAre("12:01", "12:02", "12:03", "12:04")
}

// An occurrence that finds no room at the agent keeps the next one waiting.
func TestOneAtATimeWhileTheAgentIsBusy(t *testing.T) {
	w := newWorld(t, "2026-01-01T12:00:00Z")
	full := true
	w.answer = func(string, *transfer.Request) error {
		if full {
			return transfer.Errorf(transfer.KindBusy, "later")
		}
		return nil
	}
	w.Must(w.put("ann", "minutes", MissedOnce, PlanText{At: "+1m", Every: "1m"}))
	w.later(2*time.Minute + 30*time.Second)
	if s := w.show("minutes"); s.Waiting != 1 {
		t.Errorf("%d wait", s.Waiting)
	}
	full = false
	w.later(2 * time.Second)
	w.ranAre("12:01", "12:02")
}

// A schedule that is defined again waits for the transfer of the one before.
func TestRedefinedWhileATransferIsUnderWay(t *testing.T) {
	w := busy(t, MissedOnce, false)
	p, err := PlanText{At: "+1m", Every: "1m"}.Plan(w.Clock.At, here)
	w.Must(err)
	_, err = w.command("ann", CommandPut, Put{Name: "minutes", Plan: p, Missed: MissedOnce, Request: sample(), Redefine: true})
	w.Must(err)
	w.later(90 * time.Second)
	w.ranAre("12:01")
	w.ended(transfer.Successful)
	w.later(2 * time.Second)
	w.ranAre("12:01", "12:02")
}

// A schedule that waits for a transfer writes that down once, and no more.
func TestHeldWritesOnce(t *testing.T) {
	w := busy(t, MissedOnce, false)
	w.later(2 * time.Minute)
	before := string(wire.Marshal(w.show("minutes")))
	w.later(time.Minute - time.Second)
	if after := string(wire.Marshal(w.show("minutes"))); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
}
