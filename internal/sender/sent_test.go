package sender

import (
	"testing"

	"ferry/internal/sender/walk"
	"ferry/internal/transfer"
)

// An outcome is believed of sent items only.
func TestOutcomesThatAreAccepted(t *testing.T) {
	const v = transfer.Version("\x01now")
	keep, drop := &walk.Task{}, &walk.Task{Options: transfer.Options{Disposition: transfer.DispositionDelete}, Content: true}
	s := &sentItems{items: map[uint64]*begun{}}
	s.begin(0, transfer.Item{Type: transfer.ItemFile, Source: "a"}, keep)
	s.begin(1, transfer.Item{Type: transfer.ItemFile, Source: "b"}, drop)
	s.begin(2, transfer.Item{Type: transfer.ItemDir, Source: "d"}, drop)
	s.begin(3, transfer.Item{Type: transfer.ItemBad, Source: "bad"}, drop)
	s.addEarlier(4, []transfer.Item{{Type: transfer.ItemFile, Source: "old"}}, []walk.Task{*drop})
	s.end(1, v)
	s.dated(1, 17)
	bad := transfer.Errorf(transfer.KindExists, "no")
	for _, c := range []struct {
		oc  transfer.Outcome
		why string
	}{
		{transfer.Outcome{Item: 0, Type: transfer.ItemFile, Source: "a"}, "an outcome of a file that was not sent to its end"},
		{transfer.Outcome{Item: 0, Type: transfer.ItemFile, Source: "a", Err: bad}, ""},
		{transfer.Outcome{Item: 0, Type: transfer.ItemBad, Err: bad}, ""}, // its BEGIN was damaged, with its name
		{transfer.Outcome{Item: 1, Type: transfer.ItemFile, Source: "b", Version: v}, ""},
		{transfer.Outcome{Item: 1, Type: transfer.ItemFile, Source: "b", Version: "\x01then"}, "an outcome of another state of the file than was sent"},
		{transfer.Outcome{Item: 1, Type: transfer.ItemFile, Source: "a", Version: v}, "an outcome of another file than the item's"},
		{transfer.Outcome{Item: 2, Type: transfer.ItemDir, Source: "d", Mtime: 5}, ""}, // the destination does not decide it
		{transfer.Outcome{Item: 2, Type: transfer.ItemFile, Source: "d"}, "an outcome of another type than the item's"},
		{transfer.Outcome{Item: 3, Type: transfer.ItemBad, Source: "bad"}, "an outcome of another type than the item's"},
		{transfer.Outcome{Item: 4, Type: transfer.ItemFile, Source: "old"}, ""},
		{transfer.Outcome{Item: 5, Type: transfer.ItemFile, Source: "x"}, "an outcome of an item that was not begun"},
	} {
		is, why := s.check(c.oc)
		if why != c.why {
			t.Errorf("%+v: %q, want %q", c.oc, why, c.why)
		}
		if want := map[uint64]int64{1: 17}[c.oc.Item]; why == "" && is.Mtime != want {
			t.Errorf("%+v has the time %d, not %d", c.oc, is.Mtime, want)
		}
		if why == "" && (is.Source == "" || is.delete != (c.oc.Item > 0) || is.form != is.delete) {
			t.Errorf("%+v is taken as %+v", c.oc, is)
		}
	}
	if s.forget(1); s.items[1] != nil {
		t.Error("a decided item is remembered")
	}
}

// The digest that was sent belongs to a version.
func TestDigestsThatWereSent(t *testing.T) {
	s := &sentItems{items: map[uint64]*begun{}}
	s.begin(0, transfer.Item{Type: transfer.ItemFile, Source: "a"}, &walk.Task{})
	s.end(0, "1")
	s.digest(0, "1", "xxh3:00")
	if sum, ok := s.digestOf(0, "1"); sum != "xxh3:00" || !ok {
		t.Errorf("%q, %v", sum, ok)
	}
	if _, ok := s.digestOf(0, "2"); ok {
		t.Error("the digest of another version is known")
	}
	s.end(0, "2")
	if _, ok := s.digestOf(0, "1"); ok {
		t.Error("the digest of an earlier version is still known")
	}
	if s.digest(0, "1", "late"); s.items[0].summed {
		t.Error("a digest of an earlier version is taken for the file's")
	}
}

// With stored delivery a destination may have decided items far beyond the first undecided one here. One batch may have
// that item, and more following items than are undecided at a time.
func TestReach(t *testing.T) {
	batch := []transfer.Outcome{{Item: 7}, {Item: 7 + transfer.MaxUndecided}, {Item: 7 + transfer.MaxUndecided + 500}}
	for _, c := range []struct {
		below    uint64
		outcomes []transfer.Outcome
		want     int
	}{{7, batch, transfer.MaxUndecided + 501}, {7, batch[:1], transfer.MaxUndecided}, {7, nil, transfer.MaxUndecided},
		{2000, batch, transfer.MaxUndecided}, {0, []transfer.Outcome{{Item: 1 << 40}}, 4 * transfer.MaxUndecided}} {
		if got := itemsToRead(c.below, c.outcomes); got != c.want {
			t.Errorf("from %d on: %d, want %d", c.below, got, c.want)
		}
	}

	s := &sentItems{items: map[uint64]*begun{}, needsEarlierItems: true, all: true}
	drop := &walk.Task{}
	s.addEarlier(0, []transfer.Item{{Type: transfer.ItemFile, Source: "a"}}, []walk.Task{*drop})
	s.addEarlier(5, []transfer.Item{{Type: transfer.ItemFile, Source: "b"}}, []walk.Task{*drop})
	if len(s.items) != 1 || s.items[5] == nil || !s.needsEarlier() {
		t.Errorf("%d items are known", len(s.items))
	}
}
