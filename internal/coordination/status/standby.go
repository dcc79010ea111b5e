package status

import (
	"cmp"
	"slices"
	"time"

	"ferry/internal/wire"
)

// maxStandbys bounds the instances of an agent that are known to stand by.
const maxStandbys = 8

// A waiter is an instance that stands by, with the time of its last message.
type waiter struct {
	wire.Standby
	at time.Time
}

// Standby takes the message of an instance that stands by. It does not change the picture of the active instance. It
// reports whether the agent is new.
func (p *Picture) Standby(s *wire.Standby) (fresh bool) {
	fresh = p.Know(s.Agent)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[s.Agent]
	if a == nil {
		return false // there are too many agents
	}
	now := p.clock.Now()
	a.forgetStandbys(now, s.Instance)
	if s.Status == wire.AgentStopped || len(a.standbys) >= maxStandbys {
		return fresh
	}
	a.standbys = append(a.standbys, waiter{*s, now})
	slices.SortFunc(a.standbys, func(x, y waiter) int {
		return cmp.Or(cmp.Compare(x.Host, y.Host), cmp.Compare(x.Instance, y.Instance))
	})
	return fresh
}

// forgetStandbys removes standbys that have been silent for longer than wire.UnreachableAfter, and the named instance.
func (a *seen) forgetStandbys(now time.Time, instance string) {
	a.standbys = slices.DeleteFunc(a.standbys, func(w waiter) bool {
		return w.Instance == instance || now.Sub(w.at) > wire.UnreachableAfter
	})
}

// waiting are the standbys of an agent, with their ages.
func (a *seen) waiting(now time.Time) (all []wire.Standby) {
	for _, w := range a.standbys {
		if age := now.Sub(w.at); age <= wire.UnreachableAfter {
			w.Age = max(age, 0)
			all = append(all, w.Standby)
		}
	}
	return all
}

// take takes a heartbeat: an instance that is active stands by no more.
func (p *Picture) take(b *wire.Beat) {
	now := p.clock.Now()
	s := &seen{beat: *b, at: now, since: now}
	if before := p.agents[b.Agent]; before != nil {
		if before.beat.Instance == b.Instance && !before.since.IsZero() {
			s.since = before.since
		}
		s.standbys = before.standbys
		s.forgetStandbys(now, b.Instance)
	}
	p.agents[b.Agent] = s
}
