package receiver

import (
	"fmt"
	"io"
	"slices"

	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// tempsAhead is for how many items at once the ledger notes that temporaries
// may exist, so that small files do not cost a synced record each.
const tempsAhead = 256

// frame takes one frame. Errors: errOffset, a wait, or the ledger's.
func (i *incoming) frame(f *wire.Frame) error {
	switch f.Type {
	case wire.FrameLast:
		if f.Item < i.rec.Decided.Below() || i.rec.HasTotal && f.Item != i.rec.Total {
			return fmt.Errorf("%w: it says that there are %d items", errOffset, f.Item)
		}
		i.total = &f.Item
		return nil
	case wire.FrameBegin:
		return i.beginItem(f)
	}
	if i.rec.Decided.Has(f.Item) || i.grp.ended[f.Item] {
		return nil // it is over; the source has yet to hear of it
	}
	switch f.Type {
	case wire.FrameFail:
		if !i.rec.Decided.Fits(f.Item) {
			return fmt.Errorf("%w: item %d is too far ahead", errOffset, f.Item)
		}
		e := ending{pending: place.Pending{Outcome: transfer.Outcome{Item: f.Item, Type: transfer.ItemBad, Path: f.Source, Source: f.Source, Err: f.Fail}}}
		e.left, e.safe = i.setAside(i.files.of(f.Item))
		return i.addEnding(e)
	case wire.FrameSkip:
		i.drop(i.files.of(f.Item), true)
		return nil
	case wire.FrameSum:
		return i.summed(f)
	}
	if i.files.cur == nil || i.files.cur.item != f.Item {
		return fmt.Errorf("%w: item %d has not begun", errOffset, f.Item)
	}
	switch f.Type {
	case wire.FrameData:
		return i.data(f.Offset, int64(len(f.Data)), f.Data, i.absent)
	case wire.FrameCData:
		return i.packed(f)
	case wire.FrameHole:
		return i.data(f.Offset, f.Length, nil, nil)
	}
	return i.end(f)
}

// beginItem starts, restarts or resumes an item.
func (i *incoming) beginItem(f *wire.Frame) error {
	b := f.Begin
	if i.rec.Decided.Has(f.Item) || i.grp.ended[f.Item] {
		return nil
	}
	if !i.rec.Decided.Fits(f.Item) {
		return fmt.Errorf("%w: item %d is too far ahead", errOffset, f.Item)
	}
	c := i.files.of(f.Item)
	if c != i.files.cur {
		i.drop(i.files.cur, true)
	}
	if c != nil && !b.Again && b.Offset > 0 && b.Offset == c.offset() { // it goes on where this process stopped
		i.files.resume(c)
		c.goOn()
		return nil
	}
	i.drop(c, true)
	d, err := i.to.at(b.To)
	if err == errOffset {
		return fmt.Errorf("%w: item %d begins for target %d, which is not known", errOffset, f.Item, b.To)
	}
	if err != nil {
		return i.unwritable(err)
	}
	if d.err != nil {
		return i.doomed(f.Item, b, d.err)
	}
	loc, err := d.landing.Locate(b.Name, b.Source)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return i.doomed(f.Item, b, transfer.AsError(err))
	}
	b.Name = loc.Name
	if b.Type == transfer.ItemDir {
		o := i.outcome(f.Item, b)
		return i.addEnding(ending{pending: place.Pending{Outcome: o, At: d.landing, Mode: b.Mode, Mtime: b.Mtime, Name: b.Name}})
	}
	if b.Type != transfer.ItemFile || b.Offset < 0 || b.Size >= 0 && b.Offset > b.Size {
		return fmt.Errorf("%w: item %d begins with impossible figures", errOffset, f.Item)
	}
	what, err := i.contentOf(b, d, &loc)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return i.doomed(f.Item, b, transfer.AsError(err))
	}
	if err := i.noteTemporary(f.Item, loc.TempDirs); err != nil {
		return err
	}
	if i.files.unsummed() > i.r.mostUnsummed() {
		return fmt.Errorf("%w: item %d begins before the digests of %d others", errOffset, f.Item, i.files.unsummed())
	}
	if !i.takeOpen() {
		return nil
	}
	err = i.openFile(f.Item, b, d, &what)
	if err == nil {
		return nil
	}
	<-i.r.open
	if transfer.KindOf(err) == transfer.KindNoSpace {
		i.short = shortage{max(b.Size-b.Offset, 1), d.landing.Path(b.Name)}
		return err
	}
	if err == errRedo || transfer.KindOf(err).Waits() {
		return err
	}
	return i.doomed(f.Item, b, transfer.AsError(err))
}

// openFile makes or opens an item's temporary. Where there is no descriptor for it
// this transfer's own finished files are committed first, which lets go of theirs.
func (i *incoming) openFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	open := i.createFile
	if b.Offset > 0 {
		open = i.reopenFile
	}
	err := open(item, b, d, what)
	if !transfer.Descriptors(err) || i.grp.idle() {
		return err
	}
	i.drain()
	if i.ending() {
		return err
	}
	return open(item, b, d, what)
}

// takeOpen takes one of the agent's places for begun and undecided items. Where none is
// left this transfer's own finished files go first, and those whose digests become
// ready. It reports false, and has taken none, where the epoch ends.
func (i *incoming) takeOpen() bool {
	if i.ending() {
		return false
	}
	select {
	case i.r.open <- struct{}{}:
		return true
	default:
	}
	for {
		i.settleSums()
		i.drain()
		if i.ending() {
			return false
		}
		select {
		case i.r.open <- struct{}{}:
			return true
		case <-i.box.notify: // a digest may have ended
		case c := <-i.cp.running: // of files that wait for that to join the group
			i.checkpointed(c)
		case <-i.r.ctx.Done():
			i.over = true
		}
	}
}

func (i *incoming) createFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	if err := i.dropPoint(item); err != nil {
		return i.unwritable(err)
	}
	p, err := d.landing.Create(item, what.staging(b))
	if err != nil {
		return err
	}
	failpoint.Hit("receiver.after_create")
	c := &file{item: item, begin: b, at: d, partial: p, run: digest.NewRunning(d.method(), i.digests)}
	if what.converts() {
		if err := c.startConverting(what.plan); err != nil {
			c.run.Stop()
			p.Discard()
			return err
		}
	}
	i.files.cur = c
	i.suspect()
	return nil
}

// dropPoint makes the ledger forget a resume point that speaks of a temporary
// which is about to be replaced (INV-6).
func (i *incoming) dropPoint(item uint64) error {
	if !i.pointed[item] {
		return nil
	}
	var has bool
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(i.id, item)
		has = it != nil && it.Point != nil
		return err
	})
	if err != nil || !has {
		return err
	}
	return i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(i.id, item) })
}

// reopenFile goes on with a temporary of an earlier process, from its recorded
// point. Where it is not what the record says, the item starts again.
func (i *incoming) reopenFile(item uint64, b *wire.Begin, d *destination, what *content) error {
	var pt *ledger.Checkpoint
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(i.id, item)
		if it != nil {
			pt = it.Point
		}
		return err
	})
	if err != nil {
		return i.unwritable(err)
	}
	if pt == nil || pt.Source != b.Offset || pt.Version != b.Version || pt.Plan != what.name() {
		return i.forgetPoint(item)
	}
	p, err := d.landing.Reopen(item, what.staging(b), pt.Place)
	if transfer.KindOf(err).Waits() {
		return err // the temporary is good; there is no room for the rest, or its root is away
	}
	if err != nil {
		i.log.Warn("cannot resume temporary file; restarting item", "item", item, "error", err)
		return i.forgetPoint(item)
	}
	failpoint.Hit("receiver.after_reopen")
	c := &file{item: item, begin: b, at: d, partial: p, safe: pt.Source}
	written, _ := p.(io.ReaderAt) // else what was written is known by its segments alone
	if !what.converts() {
		c.run = digest.Resume(d.method(), i.digests, pt.Prefix, written)
	} else if err := i.resumeConverting(c, what.plan, pt); err != nil {
		i.log.Warn("cannot resume conversion; restarting item", "item", item, "error", err)
		p.Close()
		return i.forgetPoint(item)
	}
	i.files.cur = c
	return nil
}

// forgetPoint makes the ledger forget a resume point and asks for the item
// from its start.
func (i *incoming) forgetPoint(item uint64) error {
	if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(i.id, item) }); err != nil {
		return i.unwritable(err)
	}
	return errRedo
}

// noteTemporary records where temporaries will be before there is one (R23).
func (i *incoming) noteTemporary(item uint64, dirs []transfer.Path) error {
	if item < i.rec.Temps && !slices.ContainsFunc(dirs, func(d transfer.Path) bool { return !i.dirs[d] }) {
		return nil
	}
	if len(i.dirs) > 4096 {
		clear(i.dirs) // noting one twice does no harm
	}
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.Temps = max(rec.Temps, item+tempsAhead)
		return i.putDirs(t, dirs)
	})
	failpoint.Hit("receiver.after_temporary")
	if err == nil {
		i.notedDirs(dirs)
	}
	return err
}

// notedDirs takes in that the ledger has directories.
func (i *incoming) notedDirs(dirs []transfer.Path) {
	for _, dir := range dirs {
		i.dirs[dir] = true
	}
}

// putDirs notes directories in the ledger.
func (i *incoming) putDirs(t *ledger.Tx, dirs []transfer.Path) error {
	for _, dir := range dirs {
		if err := t.PutDir(i.id, dir); err != nil {
			return err
		}
	}
	return nil
}

// data writes a run of bytes, or of zeros where b is nil. absent is a byte pair known to
// be absent from b; nil: unknown.
func (i *incoming) data(offset, n int64, b []byte, absent *conversion.Pair) error {
	c := i.files.cur
	if offset != c.offset() || n < 0 || n > transfer.MaxChunk || c.begin.Size >= 0 && n > c.begin.Size-offset {
		return fmt.Errorf("%w: item %d has %d bytes of %d, and %d come for offset %d",
			errOffset, c.item, c.offset(), c.begin.Size, n, offset)
	}
	if c.conv != nil {
		return i.convert(c, n, b, absent)
	}
	var err error
	if b != nil {
		err = c.partial.Write(b)
	} else {
		err = c.partial.Skip(n)
	}
	if err != nil {
		return i.unwritten(c, err)
	}
	if b != nil {
		c.run.Write(b)
	} else {
		c.run.Zeros(n)
	}
	i.ep.taken += n
	i.cp.unsafe += n
	return nil
}

func (i *incoming) outcome(item uint64, b *wire.Begin) transfer.Outcome {
	o := transfer.Outcome{Item: item, Type: b.Type, Path: i.to.path(b), Source: b.Source, To: b.To}
	if d, err := i.to.at(b.To); err == nil && d.options.Delete() { // what is to be deleted is what was read
		o.Version = b.Version
	}
	if b.Type == transfer.ItemFile {
		o.Size = max(0, b.Size) // of one that has come, what came
	}
	return o
}

// doom fails an item that has begun.
func (i *incoming) doom(c *file, err *transfer.Error) error {
	left, safe := i.setAside(c)
	return i.failed(c.item, c.begin, err, left, safe)
}

// doomed records a failure of an item that has no file; it takes its turn among the
// group.
func (i *incoming) doomed(item uint64, b *wire.Begin, err *transfer.Error) error {
	return i.failed(item, b, err, nil, 0)
}

func (i *incoming) failed(item uint64, b *wire.Begin, err *transfer.Error, left place.Part, safe int64) error {
	o := transfer.Outcome{Item: item, Type: transfer.ItemBad}
	if b != nil { // otherwise all of it was damaged, its name included
		o = i.outcome(item, b)
	}
	o.Err = err
	return i.addEnding(ending{pending: place.Pending{Outcome: o}, left: left, safe: safe})
}

// staleOf is what an earlier epoch has left of an item; nil: nothing.
func (i *incoming) staleOf(item uint64) (left *stale) {
	if i.rec.Epoch == 1 && !i.adopted {
		return nil
	}
	var pt *ledger.Checkpoint
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(i.id, item)
		if it != nil {
			pt = it.Point
		}
		return err
	})
	if err == nil && pt != nil {
		var d *destination
		if d, err = i.to.at(pt.To); err == nil {
			left = &stale{d.landing, pt.Name}
		}
	}
	if err != nil {
		i.log.Warn("cannot look up an item's temporary file; removed at the end of the transfer", "item", item, "error", err)
	}
	return left
}

func (i *incoming) addEnding(e ending) error {
	if e.pending.Outcome.Err != nil && e.left == nil {
		e.stale = i.staleOf(e.pending.Outcome.Item)
	}
	if e.pending.Part == nil && e.left == nil && !i.takeOpen() {
		return nil
	}
	i.grp.add(e)
	if len(i.grp.items) >= 2*i.r.groupItems() {
		i.drain() // decisions without data are not held back by credit alone
	}
	return nil
}

// drop lets go of a file, if it is not nil, and with remove of its temporary as well.
func (i *incoming) drop(c *file, remove bool) {
	if c == nil || !i.stopFile(c) {
		return
	}
	var err error
	if remove {
		err = c.partial.Discard()
	} else {
		err = c.partial.Close()
	}
	if err != nil {
		i.log.Warn("cannot release temporary file", "item", c.item, "error", err)
	}
	<-i.r.open
}

// setAside lets go of a file, if it is not nil, because its item fails. Its temporary
// and its place stay with the ending until the failure is on record: a crash before
// that goes on from the last safe point (R16).
func (i *incoming) setAside(c *file) (left place.Part, safe int64) {
	if c == nil || !i.stopFile(c) {
		return nil, 0
	}
	return c.partial, c.safe
}

// stopFile ends the work on a file. It reports false where a checkpoint has ended it.
func (i *incoming) stopFile(c *file) bool {
	if c.checking {
		i.awaitCheckpoint()
	}
	if !i.files.has(c) {
		return false
	}
	i.files.remove(c)
	c.stop()
	i.cp.unsafe -= c.offset() - c.safe
	return true
}

// stop gives up what is made of a file beside its bytes.
func (c *file) stop() {
	c.run.Stop()
	if v := c.conv; v != nil {
		v.pipe.Release()
		if v.out != nil {
			v.out.Stop()
		}
	}
}
