package writing

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A group gathers while another is committed, and the items of both are not begun again.
func TestGroupGathers(t *testing.T) {
	g := group{ended: map[uint64]bool{}}
	of := func(item uint64, size int64) ending {
		return ending{pending: place.Pending{Outcome: transfer.Outcome{Item: item}}, size: size}
	}
	g.add(of(1, 10))
	g.add(of(2, 20))
	items, done := g.take()
	g.add(of(3, 5))
	if len(items) != 2 || len(g.items) != 1 || g.size != 5 || g.idle() || !g.ended[1] || !g.ended[3] {
		t.Fatalf("%d items are committed, and %+v gather", len(items), g)
	}
	done <- CommitResult{group: items}
	if size := g.over(<-g.running); size != 30 || g.running != nil || g.ended[1] || g.ended[2] || !g.ended[3] {
		t.Errorf("%d bytes are committed; %+v is left", size, g)
	}
	if left := g.drop(); len(left) != 1 || !g.idle() || len(g.ended) != 0 || g.size != 0 {
		t.Errorf("%d items are dropped; %+v is left", len(left), g)
	}
}
