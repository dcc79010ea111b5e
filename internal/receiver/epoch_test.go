package receiver

import (
	"testing"
	"time"

	"ferry/internal/flow"
)

func newEpoch() *epoch {
	pool := flow.NewPool(1<<30, 1<<30, 1, 256<<10)
	e := (&epoch{account: pool.Open(1 << 20)}).following(time.Time{})
	e.account.NewEpoch()
	return &e
}

// A path is long once new credit has taken a while to bring new data, each of longSigns times.
func TestLongPath(t *testing.T) {
	for _, c := range []struct {
		name  string
		trips []time.Duration
		idle  bool
		long  bool
	}{
		{"slow answers", []time.Duration{30, 40, 50, 30, 40, 50, 30, 40}, true, true},
		{"too few", []time.Duration{30, 40, 50, 30, 40, 50, 30}, true, false},
		{"one was quick", []time.Duration{30, 40, 5, 30, 40, 50, 30, 40, 30, 40}, true, false},
		{"the receiver was busy", []time.Duration{30, 40, 50, 30, 40, 50, 30, 40}, false, false},
	} {
		e, now, long := newEpoch(), time.Unix(1000, 0), false
		for _, trip := range c.trips {
			e.granted = []granted{{0, now.Add(-time.Hour)}, {1 << 60, now}} // the first is used up
			long = e.starved(now.Add(trip*time.Millisecond), 256<<10, c.idle)
		}
		if long != c.long {
			t.Errorf("%s: long is %v", c.name, long)
		}
	}
}

// A following epoch has the credit and the lane of the one before, and no other state of it.
func TestFollowingEpoch(t *testing.T) {
	e := newEpoch()
	e.direct, e.begun, e.next, e.Taken, e.Again, e.ask = true, true, 9, 100, "a gap", true
	e.grant(time.Unix(1, 0))
	f := e.following(time.Unix(2, 0))
	if !f.Live || !f.direct || f.account != e.account || f.next != 1 || f.begun || f.Taken != 0 || f.Again != "" || f.ask || len(f.granted) > 0 || !f.empty() || f.Ending() {
		t.Errorf("%+v", f)
	}
	if !e.Ending() || e.empty() || !new(epoch).Ending() {
		t.Error("an epoch that is over, or was never open, goes on")
	}
}
