package writing

import (
	"slices"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// ItemSlots are the agent's slots for items that are begun and undecided (R7). An item outside a set takes one when it
// begins. A set takes one for each of its items before the first begins, or none: no set waits for a slot while it has
// some, so two sets never wait for each other. Sets have half of the slots at most. The first waiting set is owed the
// slots that become free, so that neither kind can keep the other out for ever. It is safe for concurrent use.
type ItemSlots struct {
	most int

	mu       sync.Mutex
	single   int                 // taken by items outside sets
	sets     map[transfer.ID]int // taken by sets
	reserved int                 // the sum of those
	queue    []setWaiter         // sets that wait, in the order of their first requests
	free     chan struct{}       // closed when a slot is given back
}

// WaiterExpiry is the time after that a transfer of a source that no longer asks loses its place in a queue.
const WaiterExpiry = 15 * time.Second

// maxWaiters bounds the sets that wait.
const maxWaiters = 4096

// A waiter is a transfer that has asked for item slots.
type waiter struct {
	id    transfer.ID
	from  transfer.AgentName
	asked time.Time
}

// A setWaiter is a set that waits for item slots.
type setWaiter struct {
	waiter
	need int
	told bool // it was woken, because it is the next one
}

// NewItemSlots returns that many slots.
func NewItemSlots(most int) *ItemSlots {
	return &ItemSlots{most: most, sets: map[transfer.ID]int{}, free: make(chan struct{})}
}

// mostOfSet returns the most items that a set may have here.
func (p *ItemSlots) mostOfSet() int { return min(transfer.MaxSet, p.most/2) }

// take takes a slot for one item. If none is free, take returns a channel that is closed when a slot may be free.
func (p *ItemSlots) take(now time.Time) (ok bool, free <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.single+p.reserved+p.owed(now) >= p.most {
		return false, p.free
	}
	p.single++
	return true, nil
}

// owed returns the number of slots that are kept for the first waiting set; 0 while that set waits for another one.
// p.mu is held.
func (p *ItemSlots) owed(now time.Time) int {
	p.queue = slices.DeleteFunc(p.queue, func(w setWaiter) bool { return now.Sub(w.asked) >= WaiterExpiry })
	if len(p.queue) == 0 || p.reserved+p.queue[0].need > p.most/2 {
		return 0
	}
	return p.queue[0].need
}

// give returns the slot of one item. next is the set that is to ask again; nil: none.
func (p *ItemSlots) give(now time.Time) (next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.single--
	return p.given(now)
}

// given wakes the waiting writers after a slot was given back. It returns the first waiting set, once, when there is
// room for it. p.mu is held.
func (p *ItemSlots) given(now time.Time) (next *waiter) {
	close(p.free)
	p.free = make(chan struct{})
	if need := p.owed(now); need > 0 && !p.queue[0].told && p.single+p.reserved+need <= p.most {
		p.queue[0].told = true
		w := p.queue[0].waiter
		return &w
	}
	return nil
}

// reserve takes slots for all items of a set, or none. A set gets them after the sets that asked before it. next is
// the set that comes after this one. If take is false, it takes none, and reports whether it could.
func (p *ItemSlots) reserve(w waiter, need int, take bool) (ok bool, next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets[w.id] > 0 {
		return true, nil
	}

	p.owed(w.asked) // removes sets that no longer ask
	at := slices.IndexFunc(p.queue, func(o setWaiter) bool { return o.id == w.id })
	if at < 0 && len(p.queue) < maxWaiters {
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

// release returns the slots of a set. next is the set that is to ask again; nil: none.
func (p *ItemSlots) release(id transfer.ID, now time.Time) (next *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved -= p.sets[id]
	delete(p.sets, id)
	return p.given(now)
}

// transferSlots are the item slots of one transfer. An item outside a set takes one; a set has one for each of its
// items.
type transferSlots struct {
	agent    *Agent
	id       transfer.ID
	from     transfer.AgentName
	items    int  // number of the set's items; 0: not known yet
	reserved bool // the set has slots for all of them
}

// take takes a slot for an item that begins. An item of a set has its own.
func (r *transferSlots) take() (ok bool, free <-chan struct{}) {
	if r.reserved {
		return true, nil
	}
	return r.agent.ItemSlots.take(r.agent.now())
}

// give returns the slot of an item, unless the set has reserved it.
func (r *transferSlots) give() {
	if !r.reserved {
		r.agent.wake(r.agent.ItemSlots.give(r.agent.now()))
	}
}

// drop gives back the reserved slots of a set; the set's items have released theirs.
func (r *transferSlots) drop() {
	if r.reserved {
		r.reserved = false
		r.agent.wake(r.agent.ItemSlots.release(r.id, r.agent.now()))
	}
}

// reserve takes slots for all items of a set. If take is false, it takes none, and reports whether it could.
func (r *transferSlots) reserve(take bool) bool {
	ok, next := r.agent.ItemSlots.reserve(waiter{r.id, r.from, r.agent.now()}, r.items, take)
	r.agent.wake(next)
	r.reserved = ok && take
	return ok
}

// missing returns a reason to wait: there are no item slots for the set.
func (r *transferSlots) missing() *transfer.Error {
	return transfer.Errorf(transfer.KindBusy, "%s has no room yet for %d more items that are to arrive together", r.agent.Entries.Agent, r.items)
}
