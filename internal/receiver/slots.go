package receiver

import (
	"slices"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A waiter is a transfer that has asked for a slot and got a place in the queue.
type waiter struct {
	id    transfer.ID
	from  transfer.AgentName
	asked time.Time
}

// admit gives a slot, or says which place in the queue the transfer has.
func (r *Receiver) admit(id transfer.ID, from transfer.AgentName) (place int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[id] {
		return 0, true
	}
	now := r.cfg.Clock.Now()
	kept, mine := r.waiters[:0], -1
	for _, w := range r.waiters {
		if w.id == id {
			w.asked = now
			mine = len(kept)
		}
		if now.Sub(w.asked) < waiterExpiry {
			kept = append(kept, w)
		}
	}
	r.waiters = kept
	ahead := r.ahead(kept, mine, from)
	if len(r.live)+ahead < r.cfg.Slots {
		if mine >= 0 {
			r.waiters = append(kept[:mine], kept[mine+1:]...)
		}
		r.live[id] = true
		r.cfg.Changed()
		return 0, true
	}
	if mine < 0 && len(kept) < maxActors && waitingOf(kept, from) < maxOfSpeaker {
		r.waiters = append(r.waiters, waiter{id, from, now})
	}
	return ahead + 1, false
}

// othersWait reports whether any transfer has asked for a slot and has none.
func (r *Receiver) othersWait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Now()
	return slices.ContainsFunc(r.waiters, func(w waiter) bool { return now.Sub(w.asked) < waiterExpiry })
}

// accuse lets one suspect run at a time, to find the one that crashes the agent
// (R3). The others are told when it is their turn.
func (r *Receiver) accuse(id transfer.ID, from transfer.AgentName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := r.accused[:0]
	for _, w := range r.accused {
		if w.id != id {
			others = append(others, w)
		}
	}
	r.accused = others
	if r.suspect.IsZero() {
		r.suspect = id
	}
	if r.suspect == id {
		return true
	}
	if len(r.accused) < maxActors {
		r.accused = append(r.accused, waiter{id, from, r.cfg.Clock.Now()})
	}
	return false
}

// acquit says that a transfer has moved without crashing anything.
func (r *Receiver) acquit(id transfer.ID) {
	r.mu.Lock()
	next := r.cleared(id)
	r.mu.Unlock()
	r.wake(next)
}

// cleared lets go of a suspect, and gives the next that is to be told. r.mu is
// held.
func (r *Receiver) cleared(id transfer.ID) (next *waiter) {
	if r.suspect != id {
		return nil
	}
	r.suspect = transfer.ID{}
	if len(r.accused) == 0 {
		return nil
	}
	w := r.accused[0]
	r.accused = r.accused[1:]
	return &w
}

// release gives a slot back and tells the first who waits for it to ask again.
func (r *Receiver) release(id transfer.ID) {
	r.mu.Lock()
	held := r.live[id]
	delete(r.live, id)
	suspect := r.cleared(id)
	if held {
		r.cfg.Changed()
	}
	var next *waiter
	if held {
		next = r.first()
	}
	r.mu.Unlock()
	r.wake(suspect)
	r.wake(next)
}

// wake makes a transfer that waits ask again at once.
func (r *Receiver) wake(w *waiter) {
	if w != nil {
		r.send(w.from, &wire.Message{Kind: wire.KindBusy, Transfer: w.id,
			Busy: &wire.Busy{Reason: transfer.Errorf(transfer.KindBusy, "a slot at %s is free", r.cfg.Agent)}})
	}
}

// keep notes that a waiting transfer has a partial file, or no longer. There
// are as many of them as slots at most; the youngest transfer gives way (R26).
func (r *Receiver) keep(id transfer.ID, has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !has {
		delete(r.kept, id)
		return
	}
	r.kept[id] = true
	if len(r.kept) <= r.cfg.Slots {
		return
	}
	youngest := id
	for k := range r.kept {
		if string(k[:]) > string(youngest[:]) {
			youngest = k
		}
	}
	delete(r.kept, youngest)
	if a := r.actors[youngest]; a != nil {
		a.box.control(&wire.Message{Kind: dropPartials})
	}
}
