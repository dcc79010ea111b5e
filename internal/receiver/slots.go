package receiver

import (
	"slices"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// A waiter is a transfer that has asked for a slot and got a place in the queue.
type waiter struct {
	id    transfer.ID
	from  transfer.AgentName
	asked time.Time
}

// slots are the transfers that may have an open epoch, and those that wait for one. It is safe for concurrent use.
type slots struct {
	count int // most transfers that hold one at the same time

	mu       sync.Mutex
	live     map[transfer.ID]transfer.AgentName // holding a slot, with their sources
	waiters  []waiter
	kept     map[transfer.ID]bool // waiting, with a partial file
	suspect  transfer.ID          // the transfer with a slot that was live at a crash and has made no progress since
	suspects []waiter             // suspects that wait until suspect is cleared
}

func newSlots(count int) *slots {
	return &slots{count: count, live: map[transfer.ID]transfer.AgentName{}, kept: map[transfer.ID]bool{}}
}

// taken returns how many transfers hold a slot.
func (s *slots) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// admit gives a transfer a slot, or returns its place in the queue. place is 0 for a transfer with a slot. gave is
// false if it had the slot before.
func (s *slots) admit(w waiter) (place int, gave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.live[w.id]; has {
		return 0, false
	}

	s.waiters = slices.DeleteFunc(s.waiters, func(o waiter) bool { return o.id != w.id && w.asked.Sub(o.asked) >= waiterExpiry })
	mine := slices.IndexFunc(s.waiters, func(o waiter) bool { return o.id == w.id })
	ahead := s.ahead(mine, w.from)
	switch {
	case len(s.live)+ahead < s.count:
		if mine >= 0 {
			s.waiters = slices.Delete(s.waiters, mine, mine+1)
		}
		s.live[w.id] = w.from
		return 0, true
	case mine >= 0:
		s.waiters[mine].asked = w.asked
	case len(s.waiters) < maxActors && s.waitingOf(w.from) < maxOfSource:
		s.waiters = append(s.waiters, w)
	}
	return ahead + 1, false
}

// othersWait reports whether a transfer has asked for a slot and has none.
func (s *slots) othersWait(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.waiters, func(w waiter) bool { return now.Sub(w.asked) < waiterExpiry })
}

// admitSuspect lets one suspect run at a time, to find the transfer that crashes the agent (R3). The others are woken
// one after the other.
func (s *slots) admitSuspect(w waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspects = slices.DeleteFunc(s.suspects, func(o waiter) bool { return o.id == w.id })
	if s.suspect.IsZero() {
		s.suspect = w.id
	}

	if s.suspect == w.id {
		return true
	}

	if len(s.suspects) < maxActors {
		s.suspects = append(s.suspects, w)
	}
	return false
}

// clearSuspect clears a transfer that has made progress without a crash. next is the suspect that is to ask again;
// nil: none.
func (s *slots) clearSuspect(id transfer.ID) (next *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropSuspect(id)
}

// dropSuspect clears the suspect, if it is id, and returns the next suspect. s.mu is held.
func (s *slots) dropSuspect(id transfer.ID) (next *waiter) {
	if s.suspect != id {
		return nil
	}
	s.suspect = transfer.ID{}
	if len(s.suspects) == 0 {
		return nil
	}
	w := s.suspects[0]
	s.suspects = s.suspects[1:]
	return &w
}

// release takes a slot back. next are the transfers that are to ask again: the next suspect, and, if the
// transfer had a slot, the first waiter.
func (s *slots) release(id transfer.ID) (had bool, next [2]*waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had = s.live[id]
	delete(s.live, id)
	next[0] = s.dropSuspect(id)
	if had {
		next[1] = s.first()
	}
	return had, next
}

// keepPartial records whether a waiting transfer has a partial file. At most as many transfers as there are slots may
// have one. Beyond that the youngest loses its partial files (R26).
func (s *slots) keepPartial(id transfer.ID, has bool) (youngest transfer.ID, givesWay bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !has {
		delete(s.kept, id)
		return id, false
	}

	s.kept[id] = true
	if len(s.kept) <= s.count {
		return id, false
	}

	youngest = id
	for k := range s.kept {
		if string(k[:]) > string(youngest[:]) {
			youngest = k
		}
	}

	delete(s.kept, youngest)
	return youngest, true
}

// ranks returns the rank of each waiter: the least number comes first, and of equal ones the first waiter. A
// transfer's rank is how many slots its source has, plus how many of the source's transfers wait before it. next is
// the rank that one more transfer of from would have. s.mu is held.
func (s *slots) ranks(from transfer.AgentName) (ranks []int, next int) {
	count := map[transfer.AgentName]int{}
	for _, source := range s.live {
		count[source]++
	}
	ranks = make([]int, len(s.waiters))
	for n, w := range s.waiters {
		ranks[n] = count[w.from]
		count[w.from]++
	}
	return ranks, count[from]
}

// ahead returns how many waiters come before the waiter at index mine, or before one more transfer of from if mine is
// below 0. s.mu is held.
func (s *slots) ahead(mine int, from transfer.AgentName) (ahead int) {
	ranks, its := s.ranks(from)
	at := mine
	if mine >= 0 {
		its = ranks[mine]
	} else {
		at = len(ranks)
	}

	for n := range ranks {
		if ranks[n] < its || ranks[n] == its && n < at {
			ahead++
		}
	}
	return ahead
}

// first returns the waiter that is next; nil if none waits. s.mu is held.
func (s *slots) first() *waiter {
	if len(s.waiters) == 0 {
		return nil
	}
	ranks, _ := s.ranks("")
	w := s.waiters[slices.Index(ranks, slices.Min(ranks))]
	return &w
}

// waitingOf returns how many transfers of a source wait for a slot. s.mu is held.
func (s *slots) waitingOf(from transfer.AgentName) (n int) {
	for _, w := range s.waiters {
		if w.from == from {
			n++
		}
	}
	return n
}
