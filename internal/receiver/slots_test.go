package receiver

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

func slotID(n int) (id transfer.ID) {
	id[0], id[14], id[15] = 1, byte(n>>8), byte(n)
	return id
}

// A slot that is given back goes to the source that has the fewest, and there to the transfer that has waited longest.
// A transfer that does not ask again loses its place in the queue.
func TestSlotsGoRound(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSlots(2)
	ask := func(n int, from transfer.AgentName) int {
		place, _ := s.admit(waiter{slotID(n), from, now})
		return place
	}
	for n, want := range []int{0, 0, 1, 2} {
		if place := ask(n+1, "A"); place != want {
			t.Errorf("transfer %d of A has place %d, not %d", n+1, place, want)
		}
	}
	if _, gave := s.admit(waiter{slotID(1), "A", now}); gave || s.taken() != 2 {
		t.Errorf("a slot was given twice; %d are taken", s.taken())
	}
	if place := ask(5, "B"); place != 1 || !s.othersWait(now) {
		t.Errorf("B, which has no slot, has place %d", place)
	}
	had, next := s.release(slotID(1))
	if !had || next[1] == nil || next[1].id != slotID(5) {
		t.Fatalf("the turn is with %+v", next[1])
	}
	if place := ask(3, "A"); place != 2 {
		t.Errorf("a transfer of A gets place %d before B", place)
	}
	if place := ask(5, "B"); place != 0 || s.taken() != 2 {
		t.Errorf("B has place %d and %d slots are taken", place, s.taken())
	}
	now = now.Add(waiterExpiry)
	if s.othersWait(now) {
		t.Error("transfers that no longer ask still wait")
	}
	if had, next := s.release(slotID(9)); had || next[1] != nil {
		t.Error("a transfer without a slot gave one back")
	}
	if place := ask(4, "A"); place != 1 {
		t.Errorf("the last of A has place %d; the one before it no longer asks", place)
	}
}

// The places of one source in the queue are bounded.
func TestSlotsBoundTheQueue(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSlots(1)
	for n := range maxOfSource + 10 {
		s.admit(waiter{slotID(n), "A", now})
	}
	if len(s.waiters) != maxOfSource {
		t.Errorf("%d transfers of A wait", len(s.waiters))
	}
	s.admit(waiter{slotID(5000), "B", now})
	if len(s.waiters) != maxOfSource+1 {
		t.Error("B cannot wait")
	}
}

// Suspects run one at a time, each in its turn.
func TestSuspectsRunOneAtATime(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSlots(3)
	of := func(n int) waiter { return waiter{slotID(n), "A", now} }
	if !s.admitSuspect(of(1)) || s.admitSuspect(of(2)) || s.admitSuspect(of(3)) || s.admitSuspect(of(2)) || !s.admitSuspect(of(1)) {
		t.Fatal("the suspects do not wait for the first")
	}
	if next := s.clearSuspect(slotID(2)); next != nil {
		t.Error("one that waits was cleared")
	}
	if next := s.clearSuspect(slotID(1)); next == nil || next.id != slotID(3) {
		t.Errorf("the next suspect is %+v", next) // 2 has asked again after 3
	}
	if !s.admitSuspect(of(3)) {
		t.Error("the next suspect may not run")
	}
	if _, next := s.release(slotID(3)); next[0] == nil || next[0].id != slotID(2) {
		t.Errorf("the last suspect is %+v", next[0])
	}
}

// At most as many waiting transfers as there are slots keep a partial file; the youngest loses its own.
func TestTheYoungestPartialGivesWay(t *testing.T) {
	s := newSlots(2)
	for _, n := range []int{5, 3} {
		if _, givesWay := s.keepPartial(slotID(n), true); givesWay {
			t.Fatal("there is room")
		}
	}
	if gone, givesWay := s.keepPartial(slotID(4), true); !givesWay || gone != slotID(5) {
		t.Errorf("%v gives way", gone)
	}
	if gone, givesWay := s.keepPartial(slotID(6), true); !givesWay || gone != slotID(6) {
		t.Errorf("%v gives way for itself", gone)
	}
	s.keepPartial(slotID(3), false)
	if _, givesWay := s.keepPartial(slotID(7), true); givesWay {
		t.Error("a place that is free again is not given")
	}
}
