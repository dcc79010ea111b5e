package writing

import (
	"errors"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Sets take places for all of their items or none, in the order of their requests. Places that become free are owed to
// the first set, and sets have half of the places at most.
func TestItemSlotsOfSets(t *testing.T) {
	p, now := NewItemSlots(100), time.Unix(1000, 0)
	ask := func(n byte, need int) bool {
		ok, _ := p.reserve(waiter{transfer.ID{n}, "ALPHA", now}, need, true)
		return ok
	}
	take := func(n int) (had int) {
		for range n {
			if ok, _ := p.take(now); ok {
				had++
			}
		}
		return had
	}

	if !ask(1, 30) || ask(2, 30) {
		t.Fatal("two sets have more than half of the places, or the first one none")
	}
	if had := take(200); had != 70 {
		t.Fatalf("beside a set of 30 items there is room for %d, while the one that waits could not have its own anyway", had)
	}
	for range 20 { // when the first set is over, the second one is owed the free places
		p.give(now)
	}
	if next := p.release(transfer.ID{1}, now); next == nil || next.id != (transfer.ID{2}) {
		t.Fatalf("%v is told that there are places", next)
	}
	if had := take(200); had != 20 {
		t.Fatalf("%d others took places that are owed to a set", had)
	}
	if ask(3, 10) || !ask(2, 30) || ask(3, 10) {
		t.Fatal("a set came before its turn, or not in its turn, or without places")
	}
	for range 10 {
		p.give(now)
	}
	if !ask(3, 10) || p.single != 60 || p.reserved != 40 {
		t.Fatalf("%d and %d of %d places are taken", p.single, p.reserved, p.most)
	}
}

// A set whose source asks no more loses its turn and the places that were owed to it.
func TestASetThatAsksNoMoreIsOwedNothing(t *testing.T) {
	p, now := NewItemSlots(10), time.Unix(1000, 0)
	for range 8 {
		p.take(now)
	}
	if ok, _ := p.reserve(waiter{transfer.ID{1}, "ALPHA", now}, 5, true); ok {
		t.Fatal("a set has places that there are not")
	}
	if ok, _ := p.take(now); ok {
		t.Fatal("a place that is owed was taken")
	}
	if ok, _ := p.take(now.Add(WaiterExpiry)); !ok {
		t.Fatal("a set of a silent source keeps others out")
	}
}

// An impossible message about a set is a bad message, and reserves nothing.
func TestASetIsWhatItWas(t *testing.T) {
	in := &ledger.Incoming{State: transfer.Receiving}
	in.Request.Together = true
	w, _ := bare(t.Context(), 1024, transfer.ID{1}, in)
	bad := func(what string, f wire.Frame) {
		t.Helper()
		if err := w.frame(&f); !errors.Is(err, errOffset) {
			t.Errorf("%s: %v", what, err)
		}
	}

	bad("an item before the number of items", wire.Frame{Type: wire.FrameFail, Item: 0, Fail: transfer.Errorf(transfer.KindMissing, "gone")})
	if err := w.frame(&wire.Frame{Type: wire.FrameLast, Item: 3}); err != nil || w.agent.ItemSlots.reserved != 3 {
		t.Fatalf("a set of 3 has %d places: %v", w.agent.ItemSlots.reserved, err)
	}
	bad("another number", wire.Frame{Type: wire.FrameLast, Item: 4})
	bad("an item beyond the last", wire.Frame{Type: wire.FrameFail, Item: 3, Fail: transfer.Errorf(transfer.KindMissing, "gone")})
	bad("a number beyond any", wire.Frame{Type: wire.FrameLast, Item: 1 << 62})
	w.Close()
	*w.ep = Epoch{}
	if w.NewEpoch(); w.agent.ItemSlots.reserved != 0 {
		t.Errorf("%d places are reserved when the epoch is over", w.agent.ItemSlots.reserved)
	}
	bad("another number in the next epoch", wire.Frame{Type: wire.FrameLast, Item: 4})
}
