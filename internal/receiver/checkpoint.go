package receiver

import (
	"errors"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var zeroTime time.Time

// checkpointed is the end of a checkpoint.
type checkpointed struct {
	file *file
	at   int64
	err  error
}

// startCheckpoint makes what is written durable in the background: first the
// data, then the record that speaks of it (INV-6). One is outstanding at most;
// it begins at half an interval, so that together with what arrives meanwhile
// a crash costs one interval.
func (i *incoming) startCheckpoint() {
	i.checkDue = zeroTime
	c := i.cur
	if c == nil || i.checkpoint != nil || c.at() == c.safe || c.torn() {
		return
	}
	pt, err := i.point(c)
	if err != nil {
		i.log.Error("a checkpoint cannot be made", "item", c.item, "error", err)
		return
	}
	i.pointed[c.item] = true
	done := make(chan checkpointed, 1)
	i.checkpoint = done
	if failpoint.Planted("safe-before-ledger") {
		i.safe = &wire.Safe{Item: c.item, Offset: pt.Source}
		i.ack()
	}
	go func() {
		done <- checkpointed{c, pt.Source, guarded(func() error { return i.writeCheckpoint(c, &pt) })}
	}()
}

// A recordError says that what is on the disk is safe and the ledger could not
// say so.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// writeCheckpoint runs beside the loop and touches nothing that is the loop's.
func (i *incoming) writeCheckpoint(c *file, pt *ledger.Checkpoint) error {
	if err := c.partial.Sync(); err != nil {
		return err
	}
	failpoint.Hit("checkpoint.after_sync")
	err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return t.PutItem(i.id, c.item, ledger.Item{Point: pt})
	})
	failpoint.Hit("checkpoint.after_ledger")
	if err != nil {
		return recordError{err}
	}
	return nil
}

// checkpointed takes in the end of a checkpoint. A failed sync is final for the
// temporary: the item starts again in a new one. Where only the ledger failed,
// the file is as good as before: the transfer waits, and goes on from the last
// point that the ledger has.
func (i *incoming) checkpointed(c checkpointed) {
	i.checkpoint = nil
	if c.file != i.cur {
		return
	}
	if unrecorded := (recordError{}); errors.As(c.err, &unrecorded) {
		i.log.Error("a checkpoint could not be recorded", "item", c.file.item, "error", c.err)
		i.stop = i.unwritable(unrecorded.error)
		return
	}
	if kind := transfer.KindOf(c.err); kind.Waits() && kind != transfer.KindNoSpace {
		i.stop = transfer.AsError(c.err) // the root is away; what is there is as good as before
		return
	}
	if again := (*localfs.AgainError)(nil); errors.As(c.err, &again) {
		i.log.Warn("an item begins again", "item", c.file.item, "error", c.err)
		i.again = "an item begins again: " + again.Items[0].Err.Text
		i.dropCurrent()
		return
	}
	if c.err != nil {
		i.log.Error("a checkpoint failed; the item starts again", "item", c.file.item, "error", c.err)
		if transfer.KindOf(c.err) == transfer.KindNoSpace {
			i.needs = max(c.file.begin.Size-c.file.safe, 1)
			i.stop = transfer.AsError(c.err)
		}
		i.syncFailed(c.err)
		i.dropCurrent()
		return
	}
	i.unsafe -= c.at - i.cur.safe
	i.cur.safe = c.at
	i.failures = 0
	delete(i.bad, i.cur.item)
	i.safe = &wire.Safe{Item: i.cur.item, Offset: c.at}
	i.progressed()
	i.ack()
}

// dropCurrent lets go of the file that is being written, which starts again, and of
// its resume point before that.
func (i *incoming) dropCurrent() {
	if err := i.forgetPoint(i.cur.item); err != errRedo {
		i.log.Error("the ledger cannot be written", "error", err)
	}
	i.dropFile(true)
}

// maxFailures is how many syncs may fail in a row before the transfer waits
// with the reason instead of being sent again at once.
const maxFailures = 3

// syncFailed asks for what was not synced once more.
func (i *incoming) syncFailed(err error) {
	if i.failures++; i.failures >= maxFailures && i.stop == nil {
		i.failures = 0
		i.stop = transfer.Errorf(transfer.KindBusy, "%s cannot make files durable: %w", i.r.cfg.Agent, err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	i.again = "a sync failed"
}

// awaitCheckpoint waits for the outstanding checkpoint.
func (i *incoming) awaitCheckpoint() {
	if i.checkpoint != nil {
		i.checkpointed(<-i.checkpoint)
	}
}

// settleCurrent brings the file that is being written to a safe point, and
// keeps it open only if the transfer goes on at once.
func (i *incoming) settleCurrent(keep bool) {
	i.awaitCheckpoint()
	if i.cur == nil {
		return
	}
	c := i.cur
	if c.torn() { // it goes on from its last safe point, in a new process's way
		i.dropFile(c.safe == 0)
		return
	}
	if at := c.at(); at > c.safe {
		i.pointed[c.item] = true
		pt, err := i.point(c)
		if err == nil {
			err = i.writeCheckpoint(c, &pt)
		}
		i.checkpointed(checkpointed{c, at, err})
		if i.cur != c {
			return
		}
	}
	if c.at() == 0 {
		i.dropFile(true)
		return
	}
	if !keep {
		if err := c.partial.Release(); err != nil {
			i.log.Debug("the reservation could not be given back", "error", err)
		}
		i.dropFile(false)
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
		i.log.Error("the ledger cannot be written", "error", err)
	}
}
