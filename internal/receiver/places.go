package receiver

import (
	"slices"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// places are the agent's places for items that are begun and undecided (R7). An item outside a set takes one when it
// begins. A set takes one for each of its items before the first begins, or none: no set waits for a place while it has
// some, so two sets never wait for each other. Sets have half of the places at most. The first waiting set is owed the
// places that become free, so that neither kind can keep the other out for ever. It is safe for concurrent use.
type places struct {
	most int

	mu       sync.Mutex
	single   int                 // taken by items outside sets
	sets     map[transfer.ID]int // taken by sets
	reserved int                 // the sum of those
	queue    []setWaiter         // sets that wait, in the order of their first requests
	free     chan struct{}       // closed when a place is given back
}

// A setWaiter is a set that waits for places.
type setWaiter struct {
	waiter
	need int
	told bool // it was woken for its turn
}

func newPlaces(most int) *places {
	return &places{most: most, sets: map[transfer.ID]int{}, free: make(chan struct{})}
}

// mostOfSet returns the most items that a set may have here.
func (p *places) mostOfSet() int { return min(transfer.MaxSet, p.most/2) }

// take takes a place for one item. If none is free, take returns a channel that is closed when a place may be free.
func (p *places) take(now time.Time) (ok bool, free <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.single+p.reserved+p.owed(now) >= p.most {
		return false, p.free
	}
	p.single++
	return true, nil
}

// owed returns the number of places that are kept for the first waiting set; 0 while that set waits for another one.
// p.mu is held.
func (p *places) owed(now time.Time) int {
	p.queue = slices.DeleteFunc(p.queue, func(w setWaiter) bool { return now.Sub(w.asked) >= waiterExpiry })
	if len(p.queue) == 0 || p.reserved+p.queue[0].need > p.most/2 {
		return 0
	}
	return p.queue[0].need
}

// give returns the place of one item. next is the set that is to ask again; nil: none.
func (p *places) give(now time.Time) (next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.single--
	return p.given(now)
}

// given wakes the waiting writers after a place was given back. It returns the first waiting set, once, when there is
// room for it. p.mu is held.
func (p *places) given(now time.Time) (next *waiter) {
	close(p.free)
	p.free = make(chan struct{})
	if need := p.owed(now); need > 0 && !p.queue[0].told && p.single+p.reserved+need <= p.most {
		p.queue[0].told = true
		w := p.queue[0].waiter
		return &w
	}
	return nil
}

// reserve takes places for all items of a set, or none. A set gets them after the sets that asked before it. next is
// the set that comes after this one. If take is false, it takes none, and reports whether it could.
func (p *places) reserve(w waiter, need int, take bool) (ok bool, next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets[w.id] > 0 {
		return true, nil
	}

	p.owed(w.asked) // removes sets that no longer ask
	at := slices.IndexFunc(p.queue, func(o setWaiter) bool { return o.id == w.id })
	if at < 0 && len(p.queue) < maxActors {
		p.queue = append(p.queue, setWaiter{waiter: w, need: need})
		at = len(p.queue) - 1
	}

	if at != 0 || p.reserved+need > p.most/2 || p.single+p.reserved+need > p.most {
		if at >= 0 {
			p.queue[at].asked, p.queue[at].need, p.queue[at].told = w.asked, need, false
		}
		return false, nil
	}
	if !take {
		p.queue[at].asked = w.asked
		return true, nil
	}

	p.queue = slices.Delete(p.queue, 0, 1)
	p.sets[w.id] = need
	p.reserved += need
	return true, p.given(w.asked)
}

// release returns the places of a set. next is the set that is to ask again; nil: none.
func (p *places) release(id transfer.ID, now time.Time) (next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved -= p.sets[id]
	delete(p.sets, id)
	return p.given(now)
}

// takePlace takes a place for an item that begins. An item of a set has its own.
func (rc *record) takePlace() (ok bool, free <-chan struct{}) {
	if rc.set.reserved {
		return true, nil
	}
	return rc.r.places.take(rc.r.cfg.Clock.Now())
}

// givePlace returns the place of an item, unless the set has reserved it.
func (rc *record) givePlace() {
	if !rc.set.reserved {
		rc.r.wake(rc.r.places.give(rc.r.cfg.Clock.Now()))
	}
}

// dropPlaces gives back the reserved places of a set; the set's items have released theirs.
func (rc *record) dropPlaces() {
	if rc.set.reserved {
		rc.set.reserved = false
		rc.r.wake(rc.r.places.release(rc.id, rc.r.cfg.Clock.Now()))
	}
}
