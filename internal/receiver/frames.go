package receiver

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// tempsAhead is for how many items at once the ledger records that temporaries may exist, so that small files do not
// cost a synced entry each.
const tempsAhead = 256

// A writer writes the data of an epoch's frames.
type writer struct {
	*record
	com *committer
	ep  *epoch

	files    files
	digests  *digest.Backlog                 // of the files that are being written
	wake     <-chan struct{}                 // a digest may have ended
	tell     func()                          // sends pending news to the source while the writer waits
	suspects atomic.Pointer[conversion.Pair] // of the current text, while nothing of it has changed
	absent   *conversion.Pair                // byte pair known to be absent from the current message; nil: unknown
	total    *uint64                         // from LAST, until it is in the ledger
	cp       checkpoint
}

var (
	errOffset = errors.New("a frame does not follow the one before it")
	errRedo   = errors.New("an item must be sent again from its start")
)

// ending reports whether the epoch is over, or about to be: background work may have ended while a frame was taken.
func (w *writer) ending() bool { return w.ep.ending() || w.r.ctx.Err() != nil }

// frame takes one frame. Errors: errOffset, a wait, or the ledger's.
func (w *writer) frame(f *wire.Frame) error {
	switch f.Type {
	case wire.FrameLast:
		return (setWriter{w}).number(f.Item)
	case wire.FrameBegin:
		return w.beginItem(f)
	}

	if w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item] {
		return nil // it is over; the source has yet to get its outcome
	}

	switch f.Type {
	case wire.FrameFail:
		if err := fits(w, f.Item); err != nil {
			return err
		}
		e := ending{pending: place.Pending{Outcome: transfer.Outcome{Item: f.Item, Type: transfer.ItemBad, Path: f.Source, Source: f.Source, Err: f.Fail}}}
		e.left, e.safe = w.setAside(w.files.of(f.Item))
		return w.addEnding(e)
	case wire.FrameSkip:
		w.drop(w.files.of(f.Item), true)
		return nil
	case wire.FrameSum:
		return w.summed(f)
	}

	if w.ep.shelved && w.files.cur == nil {
		if err := w.reopenShelved(f.Item); err != nil || w.ending() {
			return err
		}
	}
	if w.files.cur == nil || w.files.cur.item != f.Item {
		if w.ep.shelved && (w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item]) {
			return nil // it could not be resumed, and has failed
		}
		return fmt.Errorf("%w: item %d has not begun", errOffset, f.Item)
	}
	if w.ep.shelved && w.beyond(w.files.cur, f) {
		return nil
	}

	switch f.Type {
	case wire.FrameData:
		return w.data(f.Offset, int64(len(f.Data)), f.Data, w.absent)
	case wire.FrameCData:
		return w.packed(f)
	case wire.FrameHole:
		return w.data(f.Offset, f.Length, nil, nil)
	}
	return w.end(f)
}

// beginItem starts, restarts or resumes an item.
func (w *writer) beginItem(f *wire.Frame) error {
	b := f.Begin
	if w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item] {
		return nil
	}

	if err := fits(w, f.Item); err != nil {
		return err
	}

	c := w.files.of(f.Item)
	if c != w.files.cur {
		w.drop(w.files.cur, true)
	}

	if c != nil && !b.Again && b.Offset > 0 && b.Offset == c.offset() { // it resumes where this process stopped
		w.files.resume(c)
		c.goOn()
		return nil
	}

	w.drop(c, true)
	if why := (ofSet{w.record}).brokenFor(b); why != nil {
		return w.doomed(f.Item, b, why)
	}
	d, err := w.to.at(b.To)
	if err == errOffset {
		return fmt.Errorf("%w: item %d begins for target %d, which is not known", errOffset, f.Item, b.To)
	}
	if err != nil {
		return w.entry.Unwritable(err)
	}

	if d.err != nil {
		return w.doomed(f.Item, b, d.err)
	}

	loc, err := d.landing.Locate(b.Name, b.Source)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return w.doomed(f.Item, b, transfer.AsError(err))
	}

	b.Name = loc.Name
	if b.Type == transfer.ItemDir {
		o := w.outcome(f.Item, b)
		return w.addEnding(ending{pending: place.Pending{Outcome: o, At: d.landing, Mode: b.Mode, Mtime: b.Mtime, Name: b.Name}})
	}

	if b.Type != transfer.ItemFile || b.Offset < 0 || b.Size >= 0 && b.Offset > b.Size {
		return fmt.Errorf("%w: item %d begins with impossible figures", errOffset, f.Item)
	}

	what, err := d.contentOf(&w.r.cfg.Content, b, &loc)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return w.doomed(f.Item, b, transfer.AsError(err))
	}
	if err := w.entry.NoteTemporary(f.Item, &loc); err != nil {
		return err
	}

	if w.files.unsummed() > w.r.mostUnsummed() {
		return fmt.Errorf("%w: item %d begins before the digests of %d others", errOffset, f.Item, w.files.unsummed())
	}

	if !w.takeOpen() {
		return nil
	}

	err = w.openFile(f.Item, b, d, &what)
	if err == nil {
		return nil
	}

	w.givePlace()
	if transfer.KindOf(err) == transfer.KindNoSpace {
		w.com.short = shortage{max(b.Size-b.Offset, 1), w.to.resolution(b.To, d.landing.Path(b.Name))}
		return err
	}
	if err == errRedo || transfer.KindOf(err).Waits() {
		return err
	}
	return w.doomed(f.Item, b, transfer.AsError(err))
}

// openFile makes or opens an item's temporary. If there is no descriptor for it, this transfer's own finished files are
// committed first, which releases theirs.
func (w *writer) openFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	open := w.createFile
	if b.Offset > 0 {
		open = w.reopenFile
	}

	err := open(item, b, d, what)
	if !transfer.Descriptors(err) || w.com.grp.idle() {
		return err
	}

	w.com.drain()
	if w.ending() {
		return err
	}
	return open(item, b, d, what)
}

// takeOpen takes one of the agent's places for begun and undecided items. If none is free, it first commits this
// transfer's own finished files, also those with digests that become ready. If the epoch ends, it takes none and
// reports false.
func (w *writer) takeOpen() bool {
	if w.ending() {
		return false
	}

	if ok, _ := w.takePlace(); ok {
		return true
	}

	for {
		w.settleSums()
		w.com.drain()
		if w.ending() {
			return false
		}
		w.tell()
		ok, free := w.takePlace()
		if ok {
			return true
		}
		select {
		case <-free:
		case <-w.wake: // a digest may have ended
		case c := <-w.cp.running: // of files that wait for the checkpoint before they join the group
			w.checkpointed(c)
		case <-w.r.ctx.Done():
		}
	}
}

func (w *writer) createFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	if err := w.entry.Items.DropPoint(item); err != nil {
		return w.entry.Unwritable(err)
	}

	p, err := d.landing.Create(item, what.staging(b))
	if err != nil {
		return err
	}

	failpoint.Hit("receiver.after_create")
	c := &file{item: item, begin: b, at: d, partial: p, run: digest.NewRunning(d.method(), w.digests)}
	if what.converts() {
		if err := c.startConverting(what.plan); err != nil {
			c.run.Stop()
			p.Discard()
			return err
		}
	}

	w.files.cur = c
	w.suspect()
	return nil
}

// reopenFile resumes a temporary of an earlier process from its recorded point. If the temporary does not match the
// ledger entry, the item starts again.
func (w *writer) reopenFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	pt, err := w.entry.Items.Point(item)
	if err != nil {
		return w.entry.Unwritable(err)
	}

	if pt == nil || pt.Source != b.Offset || pt.Version != b.Version || pt.Plan != what.name() {
		return w.forgetPoint(item)
	}

	p, err := d.landing.Reopen(item, what.staging(b), pt.Place)
	if transfer.KindOf(err).Waits() {
		return err // the temporary is good; there is no room for the rest, or its root is away
	}
	if err != nil {
		w.log.Warn("cannot resume temporary file; restarting item", "item", item, "error", err)
		return w.forgetPoint(item)
	}

	failpoint.Hit("receiver.after_reopen")
	c := &file{item: item, begin: b, at: d, partial: p, safe: pt.Source}
	written, _ := p.(io.ReaderAt) // otherwise only the segments describe the written bytes
	if !what.converts() {
		c.run = digest.Resume(d.method(), w.digests, pt.Prefix, written)
	} else if err := c.resumeConverting(what.plan, pt, w.digests); err != nil {
		w.log.Warn("cannot resume conversion; restarting item", "item", item, "error", err)
		p.Close()
		return w.forgetPoint(item)
	}

	w.files.cur = c
	return nil
}

// data writes a run of bytes; a nil b stands for zeros. absent is a byte pair known to be absent from b; nil: unknown.
func (w *writer) data(offset, n int64, b []byte, absent *conversion.Pair) error {
	c := w.files.cur
	if offset != c.offset() || n < 0 || n > transfer.MaxChunk || c.begin.Size >= 0 && n > c.begin.Size-offset {
		return fmt.Errorf("%w: item %d has %d bytes of %d, and %d come for offset %d",
			errOffset, c.item, c.offset(), c.begin.Size, n, offset)
	}

	err := c.take(n, b, absent)
	took := c.offset() - offset
	w.ep.taken += took
	w.com.unsafe += took
	if err != nil {
		return w.unwritten(c, err)
	}

	if c.conv != nil && c.conv.out != nil {
		w.suspects.Store(nil)
	}
	return nil
}

// doom fails an item that has begun.
func (w *writer) doom(c *file, err *transfer.Error) error {
	left, safe := w.setAside(c)
	return w.failed(c.item, c.begin, err, left, safe)
}

// doomed records a failure of an item without a file; the item joins the group in its turn.
func (w *writer) doomed(item uint64, b *wire.Begin, err *transfer.Error) error {
	return w.failed(item, b, err, nil, 0)
}

func (w *writer) failed(item uint64, b *wire.Begin, err *transfer.Error, left place.Part, safe int64) error {
	o := transfer.Outcome{Item: item, Type: transfer.ItemBad}
	if b != nil { // otherwise BEGIN was damaged, with its name
		o = w.outcome(item, b)
	}
	o.Err = err
	return w.addEnding(ending{pending: place.Pending{Outcome: o}, left: left, safe: safe})
}

func (w *writer) addEnding(e ending) error {
	if err := (setWriter{w}).ending(&e); err != nil {
		return err
	}
	if e.pending.Outcome.Err != nil && e.left == nil {
		e.stale = w.staleOf(e.pending.Outcome.Item)
	}
	if e.pending.Part == nil && e.left == nil && !w.takeOpen() {
		return nil
	}
	w.com.grp.add(e)
	if len(w.com.grp.items) >= 2*w.r.groupItems() {
		w.com.drain() // decisions without data are not held back by credit alone
	}
	return nil
}

// drop closes a file, if it is not nil. With remove it also removes the temporary.
func (w *writer) drop(c *file, remove bool) {
	if c == nil || !w.stopFile(c) {
		return
	}

	var err error
	if remove {
		err = c.partial.Discard()
	} else {
		err = c.partial.Close()
	}
	if err != nil {
		w.log.Warn("cannot release temporary file", "item", c.item, "error", err)
	}

	w.givePlace()
}

// setAside takes a file away from the writer, if it is not nil, because its item fails. Its temporary and its place
// stay with the ending until the failure is on record: a crash before that resumes from the last safe point (R16).
func (w *writer) setAside(c *file) (left place.Part, safe int64) {
	if c == nil || !w.stopFile(c) {
		return nil, 0
	}
	return c.partial, c.safe
}

// stopFile ends the work on a file. It reports false if a checkpoint has ended it.
func (w *writer) stopFile(c *file) bool {
	if c.checking {
		w.awaitCheckpoint()
	}
	if !w.files.has(c) {
		return false
	}
	w.files.remove(c)
	c.stop()
	w.com.unsafe -= c.offset() - c.safe
	return true
}

// stop ends the digests and the conversion of a file.
func (c *file) stop() {
	c.run.Stop()
	if v := c.conv; v != nil {
		v.pipe.Release()
		if v.out != nil {
			v.out.Stop()
		}
	}
}

// stumbled handles a frame that could not be taken.
func (w *writer) stumbled(f *wire.Frame, err error) {
	switch {
	case errors.Is(err, errOffset), errors.Is(err, errPacked):
		w.badness(err)
	case transfer.KindOf(err).Waits():
		w.ep.stop = transfer.AsError(err)
	case errors.Is(err, errRedo):
		w.ep.again = "an item begins again"
	default:
		w.log.Error("cannot process frame", "item", f.Item, "error", err)
		w.ep.stop = w.entry.Unwritable(err)
	}
}

// badness counts a bad hash, offset or compressed chunk against the item that is being written;
// five without a further safe point between fail it.
func (w *writer) badness(err error) {
	c, item := w.files.unended(), w.entry.In.Decided.Below()
	if c != nil {
		item = c.item
	}

	m := w.com.bad[item]
	m.count++
	w.com.bad[item] = m
	if m.count >= maxBad && !w.com.grp.ended[item] {
		if c != nil {
			w.doom(c, transfer.Errorf(transfer.KindDigest,
				"%s was damaged on the way %d times without a safe point between", w.to.path(c.begin), maxBad))
		} else { // the item is unknown, if the message had one
			delete(w.com.bad, item)
			w.ep.stop = transfer.Errorf(transfer.KindBusy, "messages arrive damaged at %s: %w", w.r.cfg.Agent, err)
		}
	}

	w.log.Warn("chunk message rejected", "error", err)
	w.ep.again = err.Error()
}

// blocked reports whether one more message could make a crash cost more than one
// checkpoint (R16), or more than may wait for a slow digest: then a sync must finish
// first, or the digest catch up.
func (w *writer) blocked() bool {
	if w.digests.Full() {
		return true
	}
	if w.com.unsafe == 0 || w.com.grp.running == nil && w.cp.running == nil {
		return false
	}
	message := int64(w.entry.In.Settings.ChunkSize) + wire.Overhead
	return w.com.unsafe+message > flow.Checkpoint(w.entry.In.Settings)
}
