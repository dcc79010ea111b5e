package writing

import (
	"encoding/json"
	"fmt"
	"slices"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// beginItem starts, restarts or resumes an item.
func (w *Writer) beginItem(f *wire.Frame) error {
	b := f.Begin
	if w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item] {
		return nil
	}

	if err := w.fits(f.Item); err != nil {
		return err
	}

	c := w.fin.files.of(f.Item)
	if c != w.fin.files.cur {
		w.fin.drop(w.fin.files.cur, true)
	}

	if c != nil && !b.Again && b.Offset > 0 && b.Offset == c.offset() { // it resumes where this process stopped
		w.fin.files.resume(c)
		c.continueDigests()
		return nil
	}

	w.fin.drop(c, true)
	if why := w.to.ofBrokenSet(b); why != nil {
		return w.fin.failed(f.Item, b, why, nil, 0)
	}
	d, err := w.to.at(b.To)
	if err == errOffset {
		return fmt.Errorf("%w: item %d begins for target %d, which is not known", errOffset, f.Item, b.To)
	}
	if err != nil {
		return w.entry.Unwritable(err)
	}

	if d.err != nil {
		return w.fin.failed(f.Item, b, d.err, nil, 0)
	}

	loc, err := d.landing.Locate(b.Name, b.Source)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return w.fin.failed(f.Item, b, transfer.AsError(err), nil, 0)
	}

	b.Name = loc.Name
	if b.Type == transfer.ItemDir {
		o := w.to.outcome(f.Item, b)
		return w.fin.addEnding(ending{pending: place.Pending{Outcome: o, At: d.landing, Mode: b.Mode, Mtime: b.Mtime, Name: b.Name}})
	}

	if b.Type != transfer.ItemFile || b.Offset < 0 || b.Size >= 0 && b.Offset > b.Size {
		return fmt.Errorf("%w: item %d begins with impossible figures", errOffset, f.Item)
	}

	what, err := d.contentOf(&w.agent.Content, b, &loc)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return w.fin.failed(f.Item, b, transfer.AsError(err), nil, 0)
	}
	if err := w.entry.NoteTemporary(f.Item, &loc); err != nil {
		return err
	}

	if w.fin.files.unsummed() > w.agent.MostUnsummed() {
		return fmt.Errorf("%w: item %d begins before the digests of %d others", errOffset, f.Item, w.fin.files.unsummed())
	}

	if !w.fin.takeOpen() {
		return nil
	}

	err = w.openFile(f.Item, b, d, &what)
	if err == nil {
		return nil
	}

	w.com.itemSlots.give()
	if transfer.KindOf(err) == transfer.KindNoSpace {
		w.com.short = Shortage{max(b.Size-b.Offset, 1), w.to.resolution(b.To, d.landing.Path(b.Name))}
		return err
	}
	if err == errRedo || transfer.KindOf(err).Waits() {
		return err
	}
	return w.fin.failed(f.Item, b, transfer.AsError(err), nil, 0)
}

// fits refuses an item that cannot begin: it is too far ahead, or beyond the number of the set's items.
func (w *Writer) fits(item uint64) error {
	if !w.entry.In.Decided.Fits(item) {
		return fmt.Errorf("%w: item %d is too far ahead", errOffset, item)
	}
	if w.entry.In.Request.Together && (w.fin.total == nil || item >= *w.fin.total) {
		return fmt.Errorf("%w: item %d is none of the set", errOffset, item)
	}
	return nil
}

// number takes the number of the transfer's items from its source. A set that finds no item slots for them waits, and
// holds none meanwhile.
func (w *Writer) number(items uint64) error {
	if items < w.entry.In.Decided.Below() || w.entry.In.HasTotal && items != w.entry.In.Total || w.fin.total != nil && items != *w.fin.total {
		return fmt.Errorf("%w: it says that there are %d items", errOffset, items)
	}
	if !w.entry.In.Gathers() || items == 0 {
		w.fin.total = &items
		return nil
	}

	most, room := w.agent.ItemSlots.mostOfSet(), w.com.itemSlots
	switch {
	case room.items > 0 && items != uint64(room.items):
		return fmt.Errorf("%w: the set has %d items now, and had %d", errOffset, items, room.items)
	case items > uint64(most):
		w.fin.total = &items
		return w.fin.breakSet(transfer.Errorf(transfer.KindTooLarge, "the transfer has %d items, and %s names %d together at most", items, w.agent.Entries.Agent, most).
			WithHint("send fewer, or leave out --together"))
	}

	w.fin.total, room.items = &items, int(items)
	if !room.reserve(true) {
		w.ep.Stop = room.missing()
	}
	return nil
}

// openFile makes or opens an item's temporary. If there is no descriptor for it, this transfer's own finished files are
// committed first, which releases theirs.
func (w *Writer) openFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	open := w.open.create
	if b.Offset > 0 {
		open = w.open.reopen
	}

	c, err := open(item, b, d, what)
	if transfer.Descriptors(err) && !w.com.grp.idle() {
		if w.com.drain(); w.fin.ending() {
			return err
		}
		c, err = open(item, b, d, what)
	}
	if err != nil {
		return err
	}

	w.fin.files.cur = c
	if b.Offset == 0 {
		w.suspect()
	}
	return nil
}

// reopenStored resumes an item with a beginning that an earlier process took, or that came before the transfer had to
// wait.
func (w *Writer) reopenStored(item uint64) error {
	pt, err := w.entry.Items.Point(item)
	if err != nil {
		return w.entry.Unwritable(err)
	}
	b := new(wire.Begin)
	if pt == nil || len(pt.Begin) == 0 || json.Unmarshal(pt.Begin, b) != nil || pt.NoReadBack {
		return redo(w.entry, item)
	}
	b.Offset, b.Again = pt.Source, false
	return w.beginItem(&wire.Frame{Type: wire.FrameBegin, Item: item, Begin: b})
}

// awaitTurn waits until an item of stored delivery is not too far ahead of the first undecided one. In other lanes the
// source ensures that; it stores messages without that knowledge. awaitTurn waits only for files with a known digest.
// The source stores a missing digest before it goes on, and later messages of the store cannot come during the wait.
func (w *Writer) awaitTurn(item uint64) {
	in := func() *transfer.ItemSet { return &w.entry.In.Decided }
	for !in().Fits(item) && item <= in().Below()+2*transfer.MaxUndecided {
		w.fin.settleSums()
		w.com.drain()
		if w.fin.ending() || in().Fits(item) || !slices.ContainsFunc(w.fin.files.held, func(c *file) bool { return c.summed }) {
			return
		}
		w.fin.events.ReportNow()
		select {
		case <-w.fin.wake: // a digest may have ended
		case c := <-w.fin.cp.running:
			w.fin.checkpointed(c)
		case <-w.agent.Ctx.Done():
		}
	}
}
