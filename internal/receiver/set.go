package receiver

import (
	"fmt"
	"slices"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A set is the items of a transfer that get their names together (transfer.MaxSet). The number of items comes before
// the items, and they have places for all of them or wait. Complete items are held until all are complete, with safe
// points like any other file; then one group commits them. If an item fails before that, the failure goes into the
// ledger first. Then the set waits for no other item: each fails with the same reason.

// A setState is the state of a set in this run.
type setState struct {
	items    int  // number of its items; 0: not known yet
	reserved bool // it has places for all of them
}

// A setWriter is the writer of a set. ofSet is the record of one.
type (
	setWriter struct{ *writer }
	ofSet     struct{ *record }
)

// number takes the number of the transfer's items from its source. A set that finds no places for them waits, and holds
// none meanwhile.
func (w setWriter) number(items uint64) error {
	if items < w.entry.In.Decided.Below() || w.entry.In.HasTotal && items != w.entry.In.Total || w.total != nil && items != *w.total {
		return fmt.Errorf("%w: it says that there are %d items", errOffset, items)
	}
	if !w.entry.In.Gathers() || items == 0 {
		w.total = &items
		return nil
	}

	most := w.r.places.mostOfSet()
	switch {
	case w.set.items > 0 && items != uint64(w.set.items):
		return fmt.Errorf("%w: the set has %d items now, and had %d", errOffset, items, w.set.items)
	case items > uint64(most):
		w.total = &items
		return w.breakSet(transfer.Errorf(transfer.KindTooLarge, "the transfer has %d items, and %s names %d together at most", items, w.r.cfg.Agent, most).
			WithHint("send fewer, or leave out --together"))
	}

	w.total, w.set.items = &items, int(items)
	if of := (ofSet{w.record}); !of.reserve(true) {
		w.ep.stop = of.noPlaces()
	}
	return nil
}

// reserve takes places for all items of a set. If take is false, it takes none, and reports whether it could.
func (rc ofSet) reserve(take bool) bool {
	ok, next := rc.r.places.reserve(waiter{rc.id, rc.from, rc.r.cfg.Clock.Now()}, rc.set.items, take)
	rc.r.wake(next)
	rc.set.reserved = ok && take
	return ok
}

// lacksPlaces reports whether the transfer is a set that would have to wait for places.
func (rc ofSet) lacksPlaces() bool {
	return rc.entry.In != nil && rc.entry.In.Gathers() && rc.set.items > 0 && !rc.set.reserved && !rc.reserve(false)
}

func (rc ofSet) noPlaces() *transfer.Error {
	return transfer.Errorf(transfer.KindBusy, "%s has no room yet for %d more items that are to arrive together", rc.r.cfg.Agent, rc.set.items)
}

// fits refuses an item that cannot begin: it is too far ahead, or beyond the number of the set's items.
func fits(w *writer, item uint64) error {
	if !w.entry.In.Decided.Fits(item) {
		return fmt.Errorf("%w: item %d is too far ahead", errOffset, item)
	}
	if w.entry.In.Request.Together && (w.total == nil || item >= *w.total) {
		return fmt.Errorf("%w: item %d is none of the set", errOffset, item)
	}
	return nil
}

// gather hands over the set once all of it has come.
func (w setWriter) gather() {
	if !w.entry.Gathers() || w.total == nil || *w.total == 0 || w.files.cur != nil || w.com.grp.running != nil || w.writer.ending() {
		return
	}
	if uint64(len(w.files.held)+len(w.com.grp.items)) != *w.total || slices.ContainsFunc(w.files.held, func(c *file) bool { return c.complete == nil || c.checking }) {
		return
	}

	for len(w.files.held) > 0 {
		c := w.files.held[0]
		w.files.unlist(c)
		e := *c.complete
		e.size, e.safe = c.offset()-c.safe, c.safe
		w.com.grp.add(e)
	}
	items := w.com.grp.items
	slices.SortFunc(items, func(a, b ending) int { return int(a.pending.Outcome.Item) - int(b.pending.Outcome.Item) })
	for n := range items {
		items[n].pending.Together = true
	}
	failpoint.Hit("receiver.set_complete")
	w.com.grp.whole = true
	w.com.handOver()
}

// breakSet fails a set after the failure of an item. The failure is in the ledger before any outcome.
func (w setWriter) breakSet(why *transfer.Error) error {
	if err := (ofSet{w.record}).noteBroken(why); err != nil {
		return err
	}

	for n := range w.com.grp.items {
		if e := &w.com.grp.items[n]; e.pending.Outcome.Err == nil {
			e.pending.Outcome.Err, e.left, e.pending.Part = transfer.OfSet(e.pending.Outcome.Path, why), e.pending.Part, nil
		}
	}
	for _, c := range w.files.all() {
		if err := w.doom(c, transfer.OfSet(w.to.path(c.begin), why)); err != nil {
			return err
		}
	}
	return nil
}

// noteBroken records that no item of the set gets its name, with the reason.
func (rc ofSet) noteBroken(why *transfer.Error) error {
	if err := rc.entry.FailSet(why); err != nil {
		return rc.entry.Unwritable(err)
	}
	rc.log.Warn("no file of the transfer gets its name: they were to arrive together", "error", why)
	return nil
}

// ending takes the ending of a set's item. A failed item fails the set.
func (w setWriter) ending(e *ending) error {
	o := &e.pending.Outcome
	if o.Err == nil || !w.entry.Gathers() {
		return nil
	}
	return w.breakSet(transfer.SetFailed(o.Path, o.Err))
}

// brokenFor returns the error of an item that begins after its set has failed; nil: the set has not.
func (rc ofSet) brokenFor(b *wire.Begin) *transfer.Error {
	if rc.entry.In.Set.Failed == nil {
		return nil
	}
	return transfer.OfSet(rc.to.path(b), rc.entry.In.Set.Failed)
}
