package receiver

import (
	"errors"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var zeroTime time.Time

// A checkpoint is how far what is written is safe.
type checkpoint struct {
	safe     *wire.Safe        // the last safe point
	unsafe   int64             // data bytes that a crash would lose, those of groups among them
	running  chan checkpointed // of the one that is being made; nil: none
	due      time.Time         // when the next one begins at the latest; zero: nothing is to be made safe
	failures int               // syncs that failed since something was made safe
}

// A checked file is one of a checkpoint.
type checked struct {
	file *file
	pt   ledger.Checkpoint
}

// checkpointed is the end of a checkpoint. Where it failed, that was in making the
// file at index n safe, or in recording all of them.
type checkpointed struct {
	files []checked
	n     int
	err   error
}

// unsafeFiles are those that are being written, or wait for their digests, with bytes
// that a crash would lose and a state that a checkpoint can keep.
func (i *incoming) unsafeFiles() (files []*file) {
	for _, c := range i.files.all() {
		if c.offset() > c.safe && !c.torn() {
			files = append(files, c)
		}
	}
	return files
}

// uncommitted is how many bytes a crash would lose that no group has yet.
func (i *incoming) uncommitted() (n int64) {
	for _, c := range i.unsafeFiles() {
		n += c.offset() - c.safe
	}
	return n
}

// startCheckpoint makes what is written durable in the background: first the
// data, then the record that speaks of it (INV-6). One is outstanding at most;
// it begins at half an interval, so that together with what arrives meanwhile
// a crash costs one interval.
func (i *incoming) startCheckpoint() {
	i.cp.due = zeroTime
	if i.cp.running != nil {
		return
	}
	files := i.checked(i.unsafeFiles())
	if len(files) == 0 {
		return
	}
	done := make(chan checkpointed, 1)
	i.cp.running = done
	if failpoint.Planted("safe-before-ledger") {
		last := &files[len(files)-1].pt
		i.cp.safe = &wire.Safe{Item: last.Item, Offset: last.Source}
		i.ack()
	}
	go func() {
		c := checkpointed{files: files}
		c.err = guarded(func() (err error) {
			c.n, err = i.writeCheckpoint(files)
			return err
		})
		done <- c
	}()
}

// checked prepares a checkpoint of files.
func (i *incoming) checked(files []*file) (all []checked) {
	for _, c := range files {
		pt, err := i.point(c)
		if err != nil {
			i.log.Error("cannot prepare checkpoint", "item", c.item, "error", err)
			continue
		}
		i.pointed[c.item], c.checking = true, true
		all = append(all, checked{c, pt})
	}
	return all
}

// A recordError says that what is on the disk is safe and the ledger could not
// say so.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// writeCheckpoint runs beside the loop and touches nothing that is the loop's. It says
// which file an error is of.
func (i *incoming) writeCheckpoint(files []checked) (n int, err error) {
	for n := range files {
		if err := files[n].file.partial.Sync(); err != nil {
			return n, err
		}
	}
	failpoint.Hit("checkpoint.after_sync")
	err = i.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		for n := range files {
			if err := t.PutItem(i.id, files[n].file.item, ledger.Item{Point: &files[n].pt}); err != nil {
				return err
			}
		}
		return nil
	})
	failpoint.Hit("checkpoint.after_ledger")
	if err != nil {
		return 0, recordError{err}
	}
	return 0, nil
}

// checkpointed takes in the end of a checkpoint. A failed sync is final for the
// temporary: the item starts again in a new one. Where only the ledger failed,
// the files are as good as before: the transfer waits, and goes on from the last
// points that the ledger has.
func (i *incoming) checkpointed(c checkpointed) {
	i.cp.running = nil
	for n := range c.files {
		c.files[n].file.checking = false
	}
	if c.err == nil {
		i.safeNow(c.files)
		return
	}
	if bad := c.files[c.n].file; i.files.has(bad) {
		i.unchecked(bad, c.err)
	}
}

// safeNow notes what a checkpoint has made safe.
func (i *incoming) safeNow(files []checked) {
	for n := range files {
		c, at := files[n].file, files[n].pt.Source
		i.cp.unsafe -= at - c.safe
		c.safe = at
		if m := i.bad[c.item]; at > m.safe || c.begin.Version != m.version { // an item that begins again and comes as far as before has not moved
			i.bad[c.item] = mishaps{safe: at, version: c.begin.Version}
		}
		i.cp.safe = &wire.Safe{Item: c.item, Offset: at}
	}
	i.cp.failures = 0
	i.progressed()
	i.ack()
}

// unchecked deals with a checkpoint that failed at a file.
func (i *incoming) unchecked(c *file, err error) {
	if unrecorded := (recordError{}); errors.As(err, &unrecorded) {
		i.log.Error("cannot record checkpoint", "item", c.item, "error", err)
		i.ep.stop = i.unwritable(unrecorded.error)
		return
	}
	if kind := transfer.KindOf(err); kind.Waits() && kind != transfer.KindNoSpace {
		i.ep.stop = transfer.AsError(err) // the root is away; what is there is as good as before
		return
	}
	if again := (*place.AgainError)(nil); errors.As(err, &again) {
		i.log.Warn("restarting item", "item", c.item, "error", err)
		i.ep.again = "an item begins again: " + again.Items[0].Err.Text
		i.restart(c)
		return
	}
	i.log.Error("checkpoint failed; restarting item", "item", c.item, "error", err)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		i.short = shortage{max(c.begin.Size-c.safe, 1), i.to.path(c.begin)}
		i.ep.stop = transfer.AsError(err)
	}
	i.syncFailed(err)
	i.restart(c)
}

// restart lets go of a file, which starts again, and of its resume point before that.
func (i *incoming) restart(c *file) {
	if err := i.forgetPoint(c.item); err != errRedo {
		i.log.Error("cannot write the ledger", "error", err)
	}
	delete(i.bad, c.item) // it is not for damage on the way that it begins again
	i.drop(c, true)
}

// maxFailures is how many syncs may fail in a row before the transfer waits
// with the reason instead of being sent again at once.
const maxFailures = 3

// syncFailed asks for what was not synced once more.
func (i *incoming) syncFailed(err error) {
	if i.cp.failures++; i.cp.failures >= maxFailures && i.ep.stop == nil {
		i.cp.failures = 0
		i.ep.stop = transfer.Errorf(transfer.KindBusy, "%s cannot make files durable: %w", i.r.cfg.Agent, err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	i.ep.again = "a sync failed"
}

// awaitCheckpoint waits for the outstanding checkpoint.
func (i *incoming) awaitCheckpoint() {
	if i.cp.running != nil {
		i.checkpointed(<-i.cp.running)
	}
}

// keepFrom is the least that is made safe of a file that waits for its digests when an
// epoch ends; what is less is sent again.
const keepFrom = 1 << 20

// settleOpen brings the files that are being written, or wait for their digests, to a
// safe point, and keeps them open only if the transfer goes on at once.
func (i *incoming) settleOpen(keep bool) {
	i.awaitCheckpoint()
	for _, c := range append([]*file(nil), i.files.held...) {
		if c.torn() || c.safe == 0 && c.offset() < keepFrom { // it goes on from its last safe point, in a new process's way
			i.drop(c, c.safe == 0)
		}
	}
	if c := i.files.cur; c != nil && c.torn() {
		i.drop(c, c.safe == 0)
	}
	for _, c := range i.unsafeFiles() {
		files := i.checked([]*file{c})
		if len(files) == 0 {
			continue
		}
		n, err := i.writeCheckpoint(files)
		i.checkpointed(checkpointed{files, n, err})
	}
	if c := i.files.cur; c != nil && c.offset() == 0 {
		i.drop(c, true)
	}
	if keep {
		i.hold()
		for _, c := range i.files.held {
			c.earlier = true
		}
		return
	}
	for _, c := range i.files.all() {
		i.drop(c, false)
	}
}

// progressed resets the count of crashes: the transfer is not what crashes the
// agent. Only written where there is something to reset.
func (i *incoming) progressed() {
	if i.rec.Crashes == 0 {
		return
	}
	i.r.acquit(i.id)
	if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Crashes = 0
		return nil
	}); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
	}
}
