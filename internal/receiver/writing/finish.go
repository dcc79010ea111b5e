package writing

import (
	"errors"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A finisher brings the files of a transfer to a safe point, into a group, or to their failure.
type finisher struct {
	agent  *Agent
	entry  *entry.Entry
	ep     *Epoch
	to     *Destinations
	com    *committer
	events Events

	files   files
	digests *digest.Backlog // of the files that are being written
	wake    <-chan struct{} // a digest may have ended
	total   *uint64         // from LAST, until it is in the ledger
	cp      checkpoint
}

// ending reports whether the epoch is over, or about to be: background work may have ended while a frame was taken.
func (f *finisher) ending() bool { return f.ep.Ending() || f.agent.Ctx.Err() != nil }

// takeOpen takes one of the agent's item slots. If none is free, it first commits this
// transfer's own finished files, also those with digests that become ready. If the epoch ends, it takes none and
// reports false.
func (f *finisher) takeOpen() bool {
	if f.ending() {
		return false
	}

	if ok, _ := f.com.itemSlots.take(); ok {
		return true
	}

	for {
		f.settleSums()
		f.com.drain()
		if f.ending() {
			return false
		}
		f.events.ReportNow()
		ok, free := f.com.itemSlots.take()
		if ok {
			return true
		}
		select {
		case <-free:
		case <-f.wake: // a digest may have ended
		case c := <-f.cp.running: // of files that wait for the checkpoint before they join the group
			f.checkpointed(c)
		case <-f.agent.Ctx.Done():
		}
	}
}

// maxBad is the most bad hashes or offsets of an item between two safe points.
const maxBad = 5

// failItem fails an item that has begun.
func (f *finisher) failItem(c *file, err *transfer.Error) error {
	left, safe := f.setAside(c)
	return f.failed(c.item, c.begin, err, left, safe)
}

// failed fails an item. left is its temporary, with the offset of the last safe point; nil: it has none. A nil b stands
// for an item with a damaged beginning.
func (f *finisher) failed(item uint64, b *wire.Begin, err *transfer.Error, left place.Part, safe int64) error {
	o := transfer.Outcome{Item: item, Type: transfer.ItemBad}
	if b != nil { // otherwise BEGIN was damaged, with its name
		o = f.to.outcome(item, b)
	}
	o.Err = err
	return f.addEnding(ending{pending: place.Pending{Outcome: o}, left: left, safe: safe})
}

// addEnding adds an item that is complete, or has failed, to the group.
func (f *finisher) addEnding(e ending) error {
	if o := &e.pending.Outcome; o.Err != nil && f.entry.Gathers() { // a failed item fails its set
		if err := f.breakSet(transfer.SetFailed(o.Path, o.Err)); err != nil {
			return err
		}
	}
	if e.pending.Outcome.Err != nil && e.left == nil {
		e.stale = f.to.stale(e.pending.Outcome.Item)
	}
	if e.pending.Part == nil && e.left == nil && !f.takeOpen() {
		return nil
	}
	f.com.grp.add(e)
	if len(f.com.grp.items) >= 2*f.agent.groupItems() {
		f.com.drain() // decisions without data are not held back by credit alone
	}
	return nil
}

// drop closes a file, if it is not nil. With remove it also removes the temporary.
func (f *finisher) drop(c *file, remove bool) {
	if c == nil || !f.stopFile(c) {
		return
	}

	var err error
	if remove {
		err = c.partial.Discard()
	} else {
		err = c.partial.Close()
	}
	if err != nil {
		f.entry.Log.Warn("cannot release temporary file", "item", c.item, "error", err)
	}

	f.com.itemSlots.give()
}

// setAside takes a file away from the writer, if it is not nil, because its item fails. Its temporary and its item slot
// stay with the ending until the failure is on record: a crash before that resumes from the last safe point (R16).
func (f *finisher) setAside(c *file) (left place.Part, safe int64) {
	if c == nil || !f.stopFile(c) {
		return nil, 0
	}
	return c.partial, c.safe
}

// stopFile ends the work on a file. It reports false if a checkpoint has ended it.
func (f *finisher) stopFile(c *file) bool {
	if c.checking {
		f.awaitCheckpoint()
	}
	if !f.files.has(c) {
		return false
	}
	f.files.remove(c)
	c.stop()
	f.com.unsafe -= c.offset() - c.safe
	return true
}

// frameFailed handles a frame that could not be taken.
func (f *finisher) frameFailed(item uint64, err error) {
	switch {
	case errors.Is(err, errOffset), errors.Is(err, errPacked):
		f.countBad(err)
	case transfer.KindOf(err).Waits():
		f.ep.Stop = transfer.AsError(err)
	case errors.Is(err, errRedo):
		f.ep.Again = "an item begins again"
	default:
		f.entry.Log.Error("cannot process frame", "item", item, "error", err)
		f.ep.Stop = f.entry.Unwritable(err)
	}
}

// countBad counts a bad hash, offset or compressed chunk against the item that is being written;
// five without a further safe point between fail it.
func (f *finisher) countBad(err error) {
	c, item := f.files.unended(), f.entry.In.Decided.Below()
	if c != nil {
		item = c.item
	}

	m := f.com.bad[item]
	m.count++
	f.com.bad[item] = m
	if m.count >= maxBad && !f.com.grp.ended[item] {
		if c != nil {
			f.failItem(c, transfer.Errorf(transfer.KindDigest,
				"%s was damaged on the way %d times without a safe point between", f.to.path(c.begin), maxBad))
		} else { // the item is unknown, if the message had one
			delete(f.com.bad, item)
			f.ep.Stop = transfer.Errorf(transfer.KindBusy, "messages arrive damaged at %s: %w", f.agent.Entries.Agent, err)
		}
	}

	f.entry.Log.Warn("chunk message rejected", "error", err)
	f.ep.Again = err.Error()
}

// writeFailed handles a write that failed.
func (f *finisher) writeFailed(c *file, err error) error {
	if bad := (*contentError)(nil); errors.As(err, &bad) {
		return f.failItem(c, bad.why)
	}

	if transfer.KindOf(err) == transfer.KindNoSpace {
		f.com.short = Shortage{max(c.begin.Size-c.offset(), 1), f.to.resolution(c.begin.To, f.to.path(c.begin))}
		return err
	}

	if again := (*place.AgainError)(nil); errors.As(err, &again) && !f.com.meddled(again.Items[0]) {
		f.entry.Log.Warn("restarting item", "item", c.item, "error", err)
		err := redo(f.entry, c.item) // before the temporary of that point goes
		delete(f.com.bad, c.item)
		f.drop(c, true)
		return err
	}

	if transfer.KindOf(err).Waits() {
		return err
	}
	return f.failItem(c, transfer.AsError(err))
}
