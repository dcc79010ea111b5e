package flow

import (
	"sync"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A Throttle bounds the bytes that an agent sends in a second: to all other agents together, and to each. It is safe
// for concurrent use; new limits also hold for running transfers.
type Throttle struct {
	clock clock.Clock

	mu  sync.Mutex
	all limited
	to  map[transfer.AgentName]*limited
}

type limited struct {
	table Timetable
	pacer Pacer
}

// NewThrottle returns a Throttle without limits.
func NewThrottle(c clock.Clock) *Throttle {
	return &Throttle{clock: c, to: map[transfer.AgentName]*limited{}}
}

// MaxLimits is the most agents that have a limit of their own: a heartbeat names them all.
const MaxLimits = 255

// Set limits the sending to agents, "" being all together. A nil timetable removes a limit. If there would be more than
// MaxLimits, Set changes nothing and returns an error of KindTooLarge.
func (t *Throttle) Set(tables map[transfer.AgentName]Timetable) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	more := 0
	for to, table := range tables {
		switch has := t.to[to] != nil; {
		case to == "":
		case table != nil && !has:
			more++
		case table == nil && has:
			more--
		}
	}

	if n := len(t.to) + more; n > MaxLimits {
		return transfer.Errorf(transfer.KindTooLarge, "there would be limits for %d agents; the most is %d", n, MaxLimits).
			WithHint("take limits away with --limit AGENT=off")
	}

	for to, table := range tables {
		switch {
		case to == "":
			t.all.table = table
		case table == nil:
			delete(t.to, to)
		default:
			if t.to[to] == nil {
				t.to[to] = &limited{}
			}
			t.to[to].table = table
		}
	}
	return nil
}

// Limits returns the timetables of the limits, as text, by agent; "" is of all together.
func (t *Throttle) Limits() map[transfer.AgentName]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := map[transfer.AgentName]string{}
	if t.all.table != nil {
		set[""] = t.all.table.String()
	}
	for to, l := range t.to {
		set[to] = l.table.String()
	}
	return set
}

// Least returns the lowest rate, in bytes a second, that holds for an agent; 0: there is none.
func (t *Throttle) Least(to transfer.AgentName) (rate int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for _, l := range []*limited{&t.all, t.to[to]} {
		if l == nil {
			continue
		}
		if r := l.table.RateAt(now); r > 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	return rate
}

// Take counts n bytes as sent to an agent now, if these limits and the transfer's own rate (0: none), which own keeps,
// allow that. Otherwise it returns the time to ask again.
func (t *Throttle) Take(to transfer.AgentName, own *Pacer, rate, n int64) (again time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	type due struct {
		p    *Pacer
		rate int64
	}
	all := []due{{own, rate}, {&t.all.pacer, t.all.table.RateAt(now)}}
	if l := t.to[to]; l != nil {
		all = append(all, due{&l.pacer, l.table.RateAt(now)})
	}

	for _, d := range all {
		if d.rate > 0 {
			if at := d.p.Due(d.rate); at.After(now) && at.After(again) {
				again = at
			}
		}
	}

	if !again.IsZero() {
		return again, false
	}

	for _, d := range all {
		if d.rate > 0 {
			d.p.Sent(now, n, d.rate)
		}
	}
	return again, true
}
