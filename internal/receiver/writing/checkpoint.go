package writing

import (
	"errors"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// checkpointTime is the longest time from the arrival of data to its checkpoint.
const checkpointTime = 5 * time.Second

// A checkpoint keeps how far the written data is safe.
type checkpoint struct {
	safe    *wire.Safe            // the last safe point
	running chan CheckpointResult // result of the running one; nil: none runs
	due     time.Time             // latest start of the next one; zero: nothing is to be made safe
}

// A checked file is one of a checkpoint.
type checked struct {
	file *file
	pt   ledger.Checkpoint
}

// A CheckpointResult is the result of a checkpoint. An error is from making the file at index n safe, or from recording
// all of them.
type CheckpointResult struct {
	files []checked
	n     int
	err   error
}

// startCheckpoint makes the written data durable in the background: first the data, then the ledger entry that refers
// to it (INV-6). At most one checkpoint is outstanding. It begins at half an interval: together with the data that
// arrives meanwhile, a crash costs one interval.
func (f *finisher) startCheckpoint() {
	f.cp.due = zeroTime
	if f.cp.running != nil {
		return
	}

	files := f.checked(f.files.unsafe())
	if len(files) == 0 {
		return
	}

	done := make(chan CheckpointResult, 1)
	f.cp.running = done

	go func() {
		c := CheckpointResult{files: files}
		c.err = guarded(func() (err error) {
			c.n, err = f.writeCheckpoint(files)
			return err
		})
		done <- c
	}()
}

// checked prepares a checkpoint of files.
func (f *finisher) checked(files []*file) (all []checked) {
	for _, c := range files {
		pt, err := c.point(f.agent.Entries.Boot, f.entry.Journal().Durable)
		if err != nil {
			f.entry.Log.Error("cannot prepare checkpoint", "item", c.item, "error", err)
			continue
		}
		if f.ep.Stored {
			pt.Begin = c.beginning()
		}
		f.entry.Items.NotePoint(c.item)
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
func (f *finisher) writeCheckpoint(files []checked) (n int, err error) {
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
	err = f.entry.Journal().Points(points)
	failpoint.Hit("checkpoint.after_ledger")
	if err != nil {
		return 0, recordError{err}
	}
	return 0, nil
}

// checkpointed takes the result of a checkpoint. A failed sync is final for the temporary: the item starts again in a
// new one. If only the ledger failed, the files are as good as before: the transfer waits, and resumes from the last
// points in the ledger.
func (f *finisher) checkpointed(c CheckpointResult) {
	f.cp.running = nil
	for n := range c.files {
		c.files[n].file.checking = false
	}
	if c.err == nil {
		f.safeNow(c.files)
		return
	}
	if bad := c.files[c.n].file; f.files.has(bad) {
		f.checkpointFailed(bad, c.err)
	}
}

// safeNow records the safe points of a finished checkpoint.
func (f *finisher) safeNow(files []checked) {
	for n := range files {
		c, at := files[n].file, files[n].pt.Source
		f.com.unsafe -= at - c.safe
		c.safe = at
		if m := f.com.bad[c.item]; at > m.safe || c.begin.Version != m.version { // an item that begins again and comes as far as before has made no progress
			f.com.bad[c.item] = itemErrors{safe: at, version: c.begin.Version}
		}
		f.cp.safe = &wire.Safe{Item: c.item, Offset: at}
	}
	f.com.failures = 0
	f.com.progressed()
	f.events.ReportDue()
}

// checkpointFailed handles a checkpoint that failed at a file.
func (f *finisher) checkpointFailed(c *file, err error) {
	if unrecorded := (recordError{}); errors.As(err, &unrecorded) {
		f.entry.Log.Error("cannot record checkpoint", "item", c.item, "error", err)
		f.ep.Stop = f.entry.Unwritable(unrecorded.error)
		return
	}

	if kind := transfer.KindOf(err); kind.Waits() && kind != transfer.KindNoSpace {
		f.ep.Stop = transfer.AsError(err) // the root is away; the safe data is as good as before
		return
	}

	if again := (*place.AgainError)(nil); errors.As(err, &again) {
		f.entry.Log.Warn("restarting item", "item", c.item, "error", err)
		f.ep.Again = "an item begins again: " + again.Items[0].Err.Text
		f.restart(c)
		return
	}

	f.entry.Log.Error("checkpoint failed; restarting item", "item", c.item, "error", err)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		f.com.short = Shortage{max(c.begin.Size-c.safe, 1), f.to.resolution(c.begin.To, f.to.path(c.begin))}
		f.ep.Stop = transfer.AsError(err)
	}

	f.com.syncFailed(err)
	f.restart(c)
}

// restart drops the resume point of a file, then the file itself, so that the item starts again.
func (f *finisher) restart(c *file) {
	if err := redo(f.entry, c.item); err != errRedo {
		f.entry.Log.Error("cannot write the ledger", "error", err)
	}
	delete(f.com.bad, c.item) // the restart is not for damage on the way
	f.drop(c, true)
}

// awaitCheckpoint waits for the outstanding checkpoint.
func (f *finisher) awaitCheckpoint() {
	if f.cp.running != nil {
		f.checkpointed(<-f.cp.running)
	}
}

// keepFrom is the least number of unsafe bytes for which a file that waits for its digests gets a checkpoint when an
// epoch ends. The source sends less than that again.
const keepFrom = 1 << 20

// settleOpen brings the files that are being written, or wait for their digests, to a safe point. keep says that the
// transfer continues at once, so that they stay open.
func (f *finisher) settleOpen(keep bool) {
	f.awaitCheckpoint()
	for _, c := range append([]*file(nil), f.files.held...) {
		if c.torn() || c.safe == 0 && (c.offset() == 0 || c.complete == nil && c.offset() < keepFrom) { // it resumes from its last safe point, as in a new process
			f.drop(c, c.safe == 0)
		}
	}

	if c := f.files.cur; c != nil && c.torn() {
		f.drop(c, c.safe == 0)
	}

	for _, batch := range batches(f.files.unsafe()) {
		files := f.checked(batch)
		if len(files) == 0 {
			continue
		}
		n, err := f.writeCheckpoint(files)
		f.checkpointed(CheckpointResult{files, n, err})
	}

	if c := f.files.cur; c != nil && c.offset() == 0 {
		f.drop(c, true)
	}

	if keep {
		f.hold()
		for _, c := range f.files.held {
			c.earlier = true
		}
		return
	}

	for _, c := range f.files.all() {
		f.drop(c, false)
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
