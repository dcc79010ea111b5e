package receiver

import (
	"fmt"
	"path"

	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/failpoint"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// tempsAhead is for how many items at once the ledger notes that temporaries
// may exist, so that small files do not cost a synced record each.
const tempsAhead = 256

// slowTail is how much of a file may be unsafe while it waits for a Follower, in parts
// of a checkpoint interval. More is made safe first, or the next file could not come in
// the meantime (R16).
const slowTail = 8

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
	if i.rec.Decided.Has(f.Item) || i.ended[f.Item] {
		return nil // it is over; the source has yet to hear of it
	}
	switch f.Type {
	case wire.FrameFail:
		if !i.rec.Decided.Fits(f.Item) {
			return fmt.Errorf("%w: item %d is too far ahead", errOffset, f.Item)
		}
		e := ending{pending: localfs.Pending{Outcome: transfer.Outcome{Item: f.Item, Type: transfer.ItemBad, Path: f.Source, Source: f.Source, Err: f.Fail}}}
		if i.cur != nil && i.cur.item == f.Item {
			e.left, e.safe = i.setAside()
		}
		return i.addEnding(e)
	case wire.FrameSkip:
		if i.cur != nil && i.cur.item == f.Item {
			i.dropFile(true)
		}
		return nil
	case wire.FrameTail:
		if i.cur != nil && i.cur.item == f.Item {
			i.cur.tail = f.Digest
		}
		return nil
	}
	if i.cur == nil || i.cur.item != f.Item {
		return fmt.Errorf("%w: item %d has not begun", errOffset, f.Item)
	}
	switch f.Type {
	case wire.FrameData:
		return i.data(f.Offset, int64(len(f.Data)), f.Data, i.free)
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
	if i.rec.Decided.Has(f.Item) || i.ended[f.Item] {
		return nil
	}
	if !i.rec.Decided.Fits(f.Item) {
		return fmt.Errorf("%w: item %d is too far ahead", errOffset, f.Item)
	}
	if i.cur != nil {
		if i.cur.item == f.Item && !b.Again && b.Offset > 0 && b.Offset == i.cur.at() {
			i.cur.rebase()
			return nil // goes on where this process stopped
		}
		i.dropFile(true)
	}
	if err := i.memberName(b); err != nil {
		return i.doomed(f.Item, b, transfer.AsError(err))
	}
	if b.Type == transfer.ItemDir {
		o := i.outcome(f.Item, b)
		return i.addEnding(ending{pending: localfs.Pending{Outcome: o, Mode: b.Mode, Mtime: b.Mtime, Name: b.Name}})
	}
	if b.Type != transfer.ItemFile || b.Size < 0 || b.Offset < 0 || b.Offset > b.Size {
		return fmt.Errorf("%w: item %d begins with impossible figures", errOffset, f.Item)
	}
	what, err := i.contentOf(b)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if err != nil {
		return i.doomed(f.Item, b, transfer.AsError(err))
	}
	if err := i.noteTemporary(f.Item, b.Name, what.beside); err != nil {
		return err
	}
	i.takeOpen()
	if i.ending() {
		<-i.r.open
		return nil
	}
	err = i.openFile(f.Item, b, &what)
	if err == nil {
		i.cur.beside = what.beside
		return nil
	}
	<-i.r.open
	if transfer.KindOf(err) == transfer.KindNoSpace {
		i.needs = max(b.Size-b.Offset, 1)
		return err
	}
	if err == errRedo || transfer.KindOf(err).Waits() {
		return err
	}
	return i.doomed(f.Item, b, transfer.AsError(err))
}

// openFile makes or opens an item's temporary. Where there is no descriptor for it
// this transfer's own finished files are committed first, which lets go of theirs.
func (i *incoming) openFile(item uint64, b *wire.Begin, what *content) error {
	open := i.createFile
	if b.Offset > 0 {
		open = i.reopenFile
	}
	err := open(item, b, what)
	if !transfer.Descriptors(err) || i.commit == nil && len(i.group) == 0 {
		return err
	}
	i.drain()
	if i.ending() {
		return err
	}
	return open(item, b, what)
}

// takeOpen takes one of the agent's places for begun and undecided items.
// Where none is left this transfer's own finished files go first.
func (i *incoming) takeOpen() {
	select {
	case i.r.open <- struct{}{}:
		return
	default:
	}
	i.drain()
	select {
	case i.r.open <- struct{}{}:
	case <-i.r.ctx.Done():
		i.over = true
		i.r.open <- struct{}{} // everything is being let go of
	}
}

func (i *incoming) createFile(item uint64, b *wire.Begin, what *content) error {
	if err := i.dropPoint(item); err != nil {
		return err
	}
	size, allocated := what.space(b)
	p, err := i.landing.Create(item, b.Name, size, allocated)
	if err != nil {
		return err
	}
	failpoint.Hit("receiver.after_create")
	c := &file{item: item, begin: b, partial: p}
	i.startDigest(c, what.converts())
	if what.converts() {
		if err := c.startConverting(what.plan); err != nil {
			p.Discard()
			return err
		}
	}
	i.cur = c
	i.suspect()
	return nil
}

// followAfter is how much of a file a Follower lets come before it begins, in parts of
// a checkpoint interval. Smaller files wait for their group.
const followAfter = 4

// startDigest begins the digest of a file that begins: of what comes, as it comes,
// or where that would hold up what comes next, and what comes is what is written, by
// reading it back.
func (i *incoming) startDigest(c *file, converts bool) {
	m := i.method()
	if m.Slow() && !converts {
		c.follow, m = digest.Later(c.partial, m, flow.Checkpoint(i.rec.Settings)/followAfter), digest.None
	}
	c.run = digest.NewRunning(m, nil)
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
func (i *incoming) reopenFile(item uint64, b *wire.Begin, what *content) error {
	var pt *ledger.Checkpoint
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(i.id, item)
		if it != nil {
			pt = it.Point
		}
		return err
	})
	if err != nil {
		return err
	}
	if pt == nil || pt.Source != b.Offset || pt.Identity != b.Identity || pt.Plan != what.name() {
		return i.forgetPoint(item)
	}
	size, allocated := what.space(b)
	p, err := i.landing.Reopen(item, b.Name, pt.Point, size, allocated)
	if transfer.KindOf(err).Waits() {
		return err // the temporary is good; there is no room for the rest, or its root is away
	}
	if err != nil {
		i.log.Warn("a temporary cannot be resumed; the item starts again", "item", item, "error", err)
		return i.forgetPoint(item)
	}
	failpoint.Hit("receiver.after_reopen")
	c := &file{item: item, begin: b, partial: p, safe: pt.Source, run: digest.NewRunning(i.method(), pt.Prefix)}
	written := pt.Prefix
	if what.converts() {
		if err := c.resumeConverting(what.plan, pt, i.method()); err != nil {
			i.log.Warn("a conversion cannot be resumed; the item starts again", "item", item, "error", err)
			p.Close()
			return i.forgetPoint(item)
		}
		written = pt.Written
	}
	c.follow = digest.Follow(p, i.method(), written)
	i.cur = c
	return nil
}

// forgetPoint makes the ledger forget a resume point and asks for the item
// from its start.
func (i *incoming) forgetPoint(item uint64) error {
	if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(i.id, item) }); err != nil {
		return err
	}
	return errRedo
}

func (i *incoming) method() digest.Method {
	m, _ := digest.ParseMethod(i.rec.Request.Checksum) // checked at OPEN
	return m
}

// noteTemporary records where temporaries will be before there is one (R23).
func (i *incoming) noteTemporary(item uint64, name transfer.Path, beside *transfer.Beside) error {
	dir := i.landing.Dir(name)
	above := transfer.Path("")
	if beside != nil && beside.Above {
		above = transfer.Path(path.Dir(string(dir)))
	}
	if item < i.rec.Temps && i.dirs[dir] {
		return nil
	}
	if len(i.dirs) > 4096 {
		clear(i.dirs) // noting one twice does no harm
	}
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.Temps = max(rec.Temps, item+tempsAhead)
		if above != "" {
			if err := t.PutDir(i.id, above); err != nil {
				return err
			}
		}
		return t.PutDir(i.id, dir)
	})
	failpoint.Hit("receiver.after_temporary")
	if err == nil {
		i.dirs[dir] = true
	}
	return err
}

// data writes a run of bytes, or of zeros where b is nil; b is known to be free of
// a pair of suspects, or free is nil.
func (i *incoming) data(offset, n int64, b []byte, free *conversion.Pair) error {
	c := i.cur
	if offset != c.at() || n < 0 || n > transfer.MaxChunk || n > c.begin.Size-offset {
		return fmt.Errorf("%w: item %d has %d bytes of %d, and %d come for offset %d",
			errOffset, c.item, c.at(), c.begin.Size, n, offset)
	}
	if c.conv != nil {
		return i.convert(n, b, free)
	}
	var err error
	if b != nil {
		err = c.partial.Write(b)
	} else {
		err = c.partial.Skip(n)
	}
	if err != nil {
		return i.unwritten(err)
	}
	if b != nil {
		c.run.Write(b)
	} else {
		c.run.Zeros(n)
	}
	if c.follow != nil {
		c.follow.Grow(c.partial.Offset())
	}
	i.taken += n
	i.unsafe += n
	return nil
}

// end completes a file: it joins the group that is to be committed.
func (i *incoming) end(f *wire.Frame) error {
	c := i.cur
	if f.Length != c.begin.Size || c.at() != c.begin.Size {
		return fmt.Errorf("%w: item %d ends at %d with %d bytes here", errOffset, c.item, f.Length, c.at())
	}
	if i.awaitCheckpoint(); c.follow != nil && i.cur == c && c.at()-c.safe >= flow.Checkpoint(i.rec.Settings)/slowTail {
		i.settleCurrent(true)
	}
	if i.cur == nil {
		return errRedo // its sync failed
	}
	e := ending{pending: localfs.Pending{Partial: c.partial, Outcome: i.outcome(c.item, c.begin),
		Mode: c.begin.Mode, Mtime: c.begin.Mtime, Name: c.begin.Name}, said: f.Digest, size: c.at() - c.safe, safe: c.safe}
	e.pending.Outcome.SrcSum, e.pending.Beside = f.Digest, c.beside
	if c.follow == nil {
		e.pending.Sum = c.run.Content()
		e.pending.Outcome.Digest = c.run.Whole()
	}
	if ok, err := i.finishConverting(&e); !ok {
		return err
	}
	if c.follow != nil {
		e.follow, e.length = c.follow, c.partial.Offset()
	}
	i.cur, i.checkDue = nil, zeroTime
	return i.addEnding(e)
}

func (i *incoming) outcome(item uint64, b *wire.Begin) transfer.Outcome {
	o := transfer.Outcome{Item: item, Type: b.Type, Path: i.landing.Target(b.Name), Source: b.Source}
	if i.rec.Request.DeleteSrc { // what is to be deleted is what was read
		o.Identity = b.Identity
	}
	if b.Type == transfer.ItemFile {
		o.Size = b.Size
	}
	return o
}

// doom fails the item that is being written.
func (i *incoming) doom(item uint64, b *wire.Begin, err *transfer.Error) error {
	left, safe := i.setAside()
	return i.failed(item, b, err, left, safe)
}

// doomed records a failure of an item that has no file; it takes its turn among the
// group.
func (i *incoming) doomed(item uint64, b *wire.Begin, err *transfer.Error) error {
	return i.failed(item, b, err, nil, 0)
}

func (i *incoming) failed(item uint64, b *wire.Begin, err *transfer.Error, left *localfs.Partial, safe int64) error {
	o := transfer.Outcome{Item: item, Type: transfer.ItemBad}
	if b != nil { // otherwise all of it was damaged, its name included
		o = i.outcome(item, b)
	}
	o.Err = err
	return i.addEnding(ending{pending: localfs.Pending{Outcome: o}, left: left, safe: safe})
}

// staleName is the name for which an earlier epoch has left a temporary of an item;
// empty: none.
func (i *incoming) staleName(item uint64) (name transfer.Path) {
	if i.rec.Epoch == 1 && !i.adopted {
		return ""
	}
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(i.id, item)
		if it != nil && it.Point != nil {
			name = it.Point.Name
		}
		return err
	})
	if err != nil {
		i.log.Warn("what an item has left cannot be read; the end of the transfer removes it", "item", item, "error", err)
	}
	return name
}

func (i *incoming) addEnding(e ending) error {
	if e.pending.Outcome.Err != nil && e.left == nil {
		e.stale = i.staleName(e.pending.Outcome.Item)
	}
	if e.pending.Partial == nil && e.left == nil {
		i.takeOpen()
		if i.ending() {
			<-i.r.open
			return nil
		}
	}
	i.ended[e.pending.Outcome.Item] = true
	i.group = append(i.group, e)
	i.groupSize += e.size
	if len(i.group) >= 2*i.r.groupItems() {
		i.drain() // decisions without data are not held back by credit alone
	}
	return nil
}

// dropFile lets go of the file that is being written, and with remove of its
// temporary as well.
func (i *incoming) dropFile(remove bool) {
	c := i.stopFile()
	if c == nil {
		return
	}
	var err error
	if remove {
		err = c.partial.Discard()
	} else {
		err = c.partial.Close()
	}
	if err != nil {
		i.log.Warn("a temporary could not be let go of", "item", c.item, "error", err)
	}
	<-i.r.open
}

// setAside lets go of the file that is being written because its item fails. Its
// temporary and its place stay with the ending until the failure is on record: a
// crash before that goes on from the last safe point (R16).
func (i *incoming) setAside() (left *localfs.Partial, safe int64) {
	if c := i.stopFile(); c != nil {
		return c.partial, c.safe
	}
	return nil, 0
}

// stopFile ends the work on the file that is being written; nil where there is none.
func (i *incoming) stopFile() *file {
	c := i.cur
	if c == nil {
		return nil
	}
	i.awaitCheckpoint()
	if i.cur != c {
		return nil
	}
	i.cur, i.checkDue = nil, zeroTime
	if c.follow != nil {
		c.follow.Stop()
	}
	if c.conv != nil {
		c.conv.pipe.Release()
	}
	i.unsafe -= c.at() - c.safe
	return c
}
