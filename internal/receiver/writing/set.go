package writing

import (
	"slices"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A set is the items of a transfer that get their names together (transfer.MaxSet). The number of items comes before
// the items, and they have item slots for all of them or wait. Complete items are held until all are complete, with
// safe points like any other file; then one group commits them. If an item fails before that, the failure goes into the
// ledger first. Then the set waits for no other item: each fails with the same reason.

// gather hands over the set once all of it has come.
func (f *finisher) gather() {
	if !f.entry.Gathers() || f.total == nil || *f.total == 0 || f.files.cur != nil || f.com.grp.running != nil || f.ending() {
		return
	}
	if uint64(len(f.files.held)+len(f.com.grp.items)) != *f.total || slices.ContainsFunc(f.files.held, func(c *file) bool { return c.complete == nil || c.checking }) {
		return
	}

	for len(f.files.held) > 0 {
		c := f.files.held[0]
		f.files.unlist(c)
		e := *c.complete
		e.size, e.safe = c.offset()-c.safe, c.safe
		f.com.grp.add(e)
	}
	items := f.com.grp.items
	slices.SortFunc(items, func(a, b ending) int { return int(a.pending.Outcome.Item) - int(b.pending.Outcome.Item) })
	for n := range items {
		items[n].pending.Together = true
	}
	failpoint.Hit("receiver.set_complete")
	f.com.grp.whole = true
	f.com.handOver()
}

// breakSet fails a set after the failure of an item. The failure is in the ledger before any outcome.
func (f *finisher) breakSet(why *transfer.Error) error {
	if err := f.com.failSet(why); err != nil {
		return err
	}

	for n := range f.com.grp.items {
		if e := &f.com.grp.items[n]; e.pending.Outcome.Err == nil {
			e.pending.Outcome.Err, e.left, e.pending.Part = transfer.OfSet(e.pending.Outcome.Path, why), e.pending.Part, nil
		}
	}
	for _, c := range f.files.all() {
		if err := f.failItem(c, transfer.OfSet(f.to.path(c.begin), why)); err != nil {
			return err
		}
	}
	return nil
}
