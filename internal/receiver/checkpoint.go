package receiver

import (
	"errors"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var zeroTime time.Time

// A checkpoint keeps how far the written data is safe.
type checkpoint struct {
	safe    *wire.Safe        // the last safe point
	running chan checkpointed // result of the running one; nil: none runs
	due     time.Time         // latest start of the next one; zero: nothing is to be made safe
}

// A checked file is one of a checkpoint.
type checked struct {
	file *file
	pt   ledger.Checkpoint
}

// checkpointed is the result of a checkpoint. An error is from making the file at index n safe, or from recording all
// of them.
type checkpointed struct {
	files []checked
	n     int
	err   error
}

// startCheckpoint makes the written data durable in the background: first the data, then the ledger entry that refers
// to it (INV-6). At most one checkpoint is outstanding. It begins at half an interval: together with the data that
// arrives meanwhile, a crash costs one interval.
func (w *writer) startCheckpoint() {
	w.cp.due = zeroTime
	if w.cp.running != nil {
		return
	}

	files := w.checked(w.files.unsafe())
	if len(files) == 0 {
		return
	}

	done := make(chan checkpointed, 1)
	w.cp.running = done
	if failpoint.Planted("safe-before-ledger") {
		last := &files[len(files)-1].pt
		w.cp.safe = &wire.Safe{Item: last.Item, Offset: last.Source}
		w.com.news = true
	}

	go func() {
		c := checkpointed{files: files}
		c.err = guarded(func() (err error) {
			c.n, err = w.writeCheckpoint(files)
			return err
		})
		done <- c
	}()
}

// checked prepares a checkpoint of files.
func (w *writer) checked(files []*file) (all []checked) {
	for _, c := range files {
		pt, err := c.point(w.r.cfg.Boot, w.entry.Journal().Durable)
		if err != nil {
			w.log.Error("cannot prepare checkpoint", "item", c.item, "error", err)
			continue
		}
		pt.Begin = w.beginOf(c)
		w.entry.Items.Pointed(c.item)
		c.checking = true
		all = append(all, checked{c, pt})
	}
	return all
}

// A recordError reports that the data is safe on the disk, but the ledger could not record it.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// writeCheckpoint syncs the files and records their points. It runs beside the loop and does not touch the loop's
// state. n is the index of the file that the error is about.
func (w *writer) writeCheckpoint(files []checked) (n int, err error) {
	for n := range files {
		if err := files[n].file.partial.Sync(); err != nil {
			return n, err
		}
	}

	failpoint.Hit("checkpoint.after_sync")
	points := make([]*ledger.Checkpoint, len(files))
	for n := range files {
		points[n] = &files[n].pt
	}
	err = w.entry.Journal().Points(points)
	failpoint.Hit("checkpoint.after_ledger")
	if err != nil {
		return 0, recordError{err}
	}
	return 0, nil
}

// checkpointed takes the result of a checkpoint. A failed sync is final for the temporary: the item starts again in a
// new one. If only the ledger failed, the files are as good as before: the transfer waits, and resumes from the last
// points in the ledger.
func (w *writer) checkpointed(c checkpointed) {
	w.cp.running = nil
	for n := range c.files {
		c.files[n].file.checking = false
	}
	if c.err == nil {
		w.safeNow(c.files)
		return
	}
	if bad := c.files[c.n].file; w.files.has(bad) {
		w.unchecked(bad, c.err)
	}
}

// safeNow records the safe points of a finished checkpoint.
func (w *writer) safeNow(files []checked) {
	for n := range files {
		c, at := files[n].file, files[n].pt.Source
		w.com.unsafe -= at - c.safe
		c.safe = at
		if m := w.com.bad[c.item]; at > m.safe || c.begin.Version != m.version { // an item that begins again and comes as far as before has made no progress
			w.com.bad[c.item] = mishaps{safe: at, version: c.begin.Version}
		}
		w.cp.safe = &wire.Safe{Item: c.item, Offset: at}
	}
	w.com.failures = 0
	w.com.progressed()
	w.com.news = true
}

// unchecked handles a checkpoint that failed at a file.
func (w *writer) unchecked(c *file, err error) {
	if unrecorded := (recordError{}); errors.As(err, &unrecorded) {
		w.log.Error("cannot record checkpoint", "item", c.item, "error", err)
		w.ep.stop = w.entry.Unwritable(unrecorded.error)
		return
	}

	if kind := transfer.KindOf(err); kind.Waits() && kind != transfer.KindNoSpace {
		w.ep.stop = transfer.AsError(err) // the root is away; the safe data is as good as before
		return
	}

	if again := (*place.AgainError)(nil); errors.As(err, &again) {
		w.log.Warn("restarting item", "item", c.item, "error", err)
		w.ep.again = "an item begins again: " + again.Items[0].Err.Text
		w.restart(c)
		return
	}

	w.log.Error("checkpoint failed; restarting item", "item", c.item, "error", err)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		w.com.short = shortage{max(c.begin.Size-c.safe, 1), w.to.resolution(c.begin.To, w.to.path(c.begin))}
		w.ep.stop = transfer.AsError(err)
	}

	w.com.syncFailed(err)
	w.restart(c)
}

// restart drops the resume point of a file, then the file itself, so that the item starts again.
func (w *writer) restart(c *file) {
	if err := w.forgetPoint(c.item); err != errRedo {
		w.log.Error("cannot write the ledger", "error", err)
	}
	delete(w.com.bad, c.item) // the restart is not for damage on the way
	w.drop(c, true)
}

// maxFailures is how many syncs may fail in a row before the transfer waits
// with the reason instead of being sent again at once.
const maxFailures = 3

// syncFailed requests a new epoch, so that the source sends the unsynced data again.
func (cm *committer) syncFailed(err error) {
	if cm.failures++; cm.failures >= maxFailures && cm.ep.stop == nil {
		cm.failures = 0
		cm.ep.stop = transfer.Errorf(transfer.KindBusy, "%s cannot make files durable: %w", cm.r.cfg.Agent, err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	cm.ep.again = "a sync failed"
}

// awaitCheckpoint waits for the outstanding checkpoint.
func (w *writer) awaitCheckpoint() {
	if w.cp.running != nil {
		w.checkpointed(<-w.cp.running)
	}
}

// keepFrom is the least number of unsafe bytes for which a file that waits for its digests gets a checkpoint when an
// epoch ends. The source sends less than that again.
const keepFrom = 1 << 20

// settleOpen brings the files that are being written, or wait for their digests, to a safe point. keep says that the
// transfer continues at once, so that they stay open.
func (w *writer) settleOpen(keep bool) {
	w.awaitCheckpoint()
	for _, c := range append([]*file(nil), w.files.held...) {
		if c.torn() || c.safe == 0 && (c.offset() == 0 || c.complete == nil && c.offset() < keepFrom) { // it resumes from its last safe point, as in a new process
			w.drop(c, c.safe == 0)
		}
	}

	if c := w.files.cur; c != nil && c.torn() {
		w.drop(c, c.safe == 0)
	}

	for _, batch := range batches(w.files.unsafe()) {
		files := w.checked(batch)
		if len(files) == 0 {
			continue
		}
		n, err := w.writeCheckpoint(files)
		w.checkpointed(checkpointed{files, n, err})
	}

	if c := w.files.cur; c != nil && c.offset() == 0 {
		w.drop(c, true)
	}

	if keep {
		w.hold()
		for _, c := range w.files.held {
			c.earlier = true
		}
		return
	}

	for _, c := range w.files.all() {
		w.drop(c, false)
	}
}

// batches groups the files for checkpoints: the complete files of a set together, which may be many, and each other
// file by itself.
func batches(files []*file) (all [][]*file) {
	var complete []*file
	for _, c := range files {
		if c.complete != nil {
			complete = append(complete, c)
		} else {
			all = append(all, []*file{c})
		}
	}
	if len(complete) > 0 {
		all = append(all, complete)
	}
	return all
}

// progressed resets the count of crashes: the transfer does not crash the agent. It writes the ledger only if the count
// is not 0.
func (cm *committer) progressed() {
	if cm.entry.In.Crashes == 0 {
		return
	}
	cm.r.acquit(cm.id)
	if err := cm.entry.Progressed(); err != nil {
		cm.log.Error("cannot write the ledger", "error", err)
	}
}
