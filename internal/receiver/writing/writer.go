// Package writing writes the files of incoming transfers: frames become files, files become groups, and a group is
// committed in one go. It works on a place.Landing, and records the results in the ledger entry of the transfer. It
// knows no messages: it takes frames, and reports results as Events and in the Epoch.
//
//	Writer     takes frames: begins and resumes files, and writes their bytes
//	finisher   brings files to a safe point, into a group, or to their failure
//	committer  commits groups in the background while the next one gathers
package writing

import (
	"sync/atomic"
	"time"

	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/receiver/entry"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Writer writes the data of an epoch's frames. Only the goroutine of its transfer uses it, except for Suspects.
type Writer struct {
	agent *Agent
	entry *entry.Entry
	ep    *Epoch
	to    *Destinations
	com   *committer
	fin   *finisher
	open  opener

	suspects atomic.Pointer[conversion.Pair] // of the current text, while nothing of it has changed
	absent   *conversion.Pair                // byte pair known to be absent from the current message; nil: unknown
}

// New returns the Writer of a transfer. poke wakes the goroutine of the transfer, and wake is the channel of that.
func New(a *Agent, e *entry.Entry, to *Destinations, ep *Epoch, events Events, poke func(), wake <-chan struct{}) *Writer {
	com := &committer{agent: a, entry: e, ep: ep, to: to, itemSlots: &transferSlots{agent: a, id: e.ID, from: e.From}, events: events,
		grp: group{ended: map[uint64]bool{}}, bad: map[uint64]itemErrors{}, touched: map[uint64]int{}}
	fin := &finisher{agent: a, entry: e, ep: ep, to: to, com: com, events: events, digests: digest.NewBacklog(poke), wake: wake}
	return &Writer{agent: a, entry: e, ep: ep, to: to, com: com, fin: fin, open: opener{e, fin.digests}}
}

// Write takes one frame. absent is a byte pair known to be absent from its message; nil: unknown. Write reports false
// if the epoch is to end: the source sends the message again.
func (w *Writer) Write(f *wire.Frame, absent *conversion.Pair) bool {
	w.absent = absent
	if w.ep.Stored && (f.Type == wire.FrameBegin || f.Type == wire.FrameFail) {
		w.awaitTurn(f.Item)
	}
	if err := w.frame(f); err != nil {
		w.fin.frameFailed(f.Item, err)
		return false
	}
	return !w.fin.ending()
}

// Damaged takes a message with a bad hash or content.
func (w *Writer) Damaged(err error) { w.fin.countBad(err) }

// Suspects returns the byte pair that messages are to be searched for; nil: none. Any goroutine may call it.
func (w *Writer) Suspects() *conversion.Pair { return w.suspects.Load() }

// NewEpoch begins the frames of an epoch.
func (w *Writer) NewEpoch() { w.fin.total = nil }

// AfterMessage starts checkpoints and commits as the sizes demand.
func (w *Writer) AfterMessage() {
	now, half := w.agent.now(), flow.Checkpoint(w.entry.In.Settings)/2
	if unsafe := w.fin.files.unsafeBytes(); unsafe >= half {
		w.fin.startCheckpoint()
	} else if unsafe > 0 && w.fin.cp.due.IsZero() {
		w.fin.cp.due = now.Add(checkpointTime)
	}

	if len(w.com.grp.items) >= w.agent.groupItems() || w.com.grp.size >= half {
		w.com.handOver()
	} else if len(w.com.grp.items) > 0 && w.com.grp.due.IsZero() {
		w.com.grp.due = now.Add(groupWait)
	}
}

// Due starts the work with a time that has come.
func (w *Writer) Due(now time.Time) {
	if due := w.com.grp.due; !due.IsZero() && !now.Before(due) {
		w.com.handOver()
	}
	if due := w.fin.cp.due; !due.IsZero() && !now.Before(due) {
		w.fin.startCheckpoint()
	}
}

// DueTimes returns the times of that work; zero: none.
func (w *Writer) DueTimes() (commit, checkpoint time.Time) { return w.com.grp.due, w.fin.cp.due }

// Idle hands over complete items without waiting for more. It reports whether no item is written, gathers or is being
// committed.
func (w *Writer) Idle() bool {
	if w.com.grp.running != nil || w.fin.files.cur != nil {
		return false
	}
	if len(w.com.grp.items) > 0 {
		w.com.handOver()
		return false
	}
	return true
}

// SettleSums handles every file with complete digests.
func (w *Writer) SettleSums() { w.fin.settleSums() }

// Drain commits all complete items and waits for the commit. Items of a set stay while an item of the set is missing.
func (w *Writer) Drain() { w.com.drain() }

// Settle brings the files that are being written, or wait for their digests, to a safe point. keep says that the
// transfer continues at once, so that they stay open.
func (w *Writer) Settle(keep bool) { w.fin.settleOpen(keep) }

// SettleCommitting decides items that were left in COMMITTING, by a crash or by a directory that could not be synced
// (R21, R22).
func (w *Writer) SettleCommitting() error { return w.com.settleCommitting() }

// Close closes all files and releases all item slots. Items that are not decided keep their safe bytes.
func (w *Writer) Close() {
	for _, c := range w.fin.files.all() {
		w.fin.drop(c, false)
	}

	w.fin.cp.due = zeroTime
	for _, e := range w.com.grp.drop() {
		e.leave()
		w.com.itemSlots.give()
	}
	w.com.itemSlots.drop()

	w.com.unsafe = 0
	w.to.close() // a waiting transfer keeps no directories open
}

// Running returns the channels of background work that runs; nil: none does. TakeCommit and TakeCheckpoint take the
// results.
func (w *Writer) Running() (commit <-chan CommitResult, checkpoint <-chan CheckpointResult) {
	return w.com.grp.running, w.fin.cp.running
}

// TakeCommit takes the result of a commit.
func (w *Writer) TakeCommit(c CommitResult) { w.com.committed(c) }

// TakeCheckpoint takes the result of a checkpoint.
func (w *Writer) TakeCheckpoint(c CheckpointResult) { w.fin.checkpointed(c) }

// Wait waits for the background work before the end of the Writer. The result of a checkpoint is dropped.
func (w *Writer) Wait() {
	if w.com.grp.running != nil {
		w.com.committed(<-w.com.grp.running)
	}

	if w.fin.cp.running != nil {
		<-w.fin.cp.running
		w.fin.cp.running = nil
	}
}

// Commits reports whether a group is being committed.
func (w *Writer) Commits() bool { return w.com.grp.running != nil }

// Gathers reports whether complete items wait for their commit.
func (w *Writer) Gathers() bool { return len(w.com.grp.items) > 0 }

// AllDecided returns the number of the transfer's items if every one is decided.
func (w *Writer) AllDecided() (total uint64, all bool) {
	in := w.entry.In
	known := in.HasTotal || w.fin.total != nil
	total = in.Total
	if w.fin.total != nil {
		total = *w.fin.total
	}

	// The ledger may have the last group's outcomes before the committer has them: a batch of outcomes marked as the
	// last one would lack them.
	return total, known && in.Decided.Below() == total && w.com.grp.running == nil
}

// Safe returns the last safe point; nil: none.
func (w *Writer) Safe() *wire.Safe { return w.fin.cp.safe }

// Current returns the item that is being written, and its number of bytes.
func (w *Writer) Current() (item uint64, offset int64, ok bool) {
	c := w.fin.files.cur
	if c == nil {
		return 0, 0, false
	}
	return c.item, c.offset(), true
}

// Resumed reports whether an item's digest goes on in this process.
func (w *Writer) Resumed(item uint64) bool {
	c := w.fin.files.heldOf(item)
	return c != nil && !c.run.Rebased()
}

// SafeTo reports whether a process with the ledger alone can resume an item at an offset, or beyond.
func (w *Writer) SafeTo(item uint64, offset int64) bool {
	c := w.fin.files.of(item)
	if c == nil && offset > 0 { // the epoch has just ended
		pt, err := w.entry.Items.Point(item)
		return err == nil && pt != nil && pt.Source >= offset && !pt.NoReadBack && len(pt.Begin) > 0
	}
	return c != nil && offset > 0 && c.selfContained(offset)
}

// Short returns the space that was missing for the last write that failed; zero: none was.
func (w *Writer) Short() Shortage { return w.com.short }

// LacksItemSlots returns a reason to wait if the transfer is a set without slots for its items; nil: it is none.
func (w *Writer) LacksItemSlots() *transfer.Error {
	in, room := w.entry.In, w.com.itemSlots
	if in != nil && in.Gathers() && room.items > 0 && !room.reserved && !room.reserve(false) {
		return room.missing()
	}
	return nil
}
