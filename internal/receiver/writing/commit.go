package writing

import (
	"errors"
	"runtime/debug"
	"time"

	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// An ending is an item that is complete, or has failed, and is to be decided.
// It holds one of the agent's item slots.
type ending struct {
	pending place.Pending
	left    place.Part // of an item that fails: its temporary, removed once the failure is on record
	stale   *stale     // of an item that fails before it begins in this epoch: its temporary of an earlier epoch
	size    int64      // bytes beyond the last safe point
	safe    int64      // the last safe point
}

// A stale is the temporary that an earlier epoch has left of an item.
type stale struct {
	at   place.Landing
	name transfer.Path
}

// discard releases an item and removes its temporary.
func (e *ending) discard() { e.release(false) }

// leave releases an item that is not decided. Its safe bytes stay for the next epoch (R16).
func (e *ending) leave() { e.release(true) }

func (e *ending) release(keep bool) {
	p := e.pending.Part
	if p == nil {
		p = e.left
	}
	switch {
	case p == nil:
	case keep && e.safe > 0:
		p.Close()
	default:
		p.Discard()
	}
}

// A CommitResult is the result of a group's commit.
type CommitResult struct {
	group    []ending
	outcomes []transfer.Outcome
	err      error // why the rest of the group is not decided
}

// A Shortage is the space that was missing for a write; zero: none was missing.
type Shortage struct {
	Bytes int64
	At    transfer.Resolution
}

// itemErrors are the bad hashes, offsets and compressed chunks of an item since its furthest safe point.
type itemErrors struct {
	count   int
	safe    int64            // the furthest safe point
	version transfer.Version // of the item
}

// A committer decides items: a group of them gathers while the one before is committed.
type committer struct {
	agent     *Agent
	entry     *entry.Entry
	ep        *Epoch
	to        *Destinations
	itemSlots *transferSlots
	events    Events

	grp      group
	unsafe   int64                 // data bytes that a crash would lose, of files that are being written and of groups
	failures int                   // failed syncs since the last safe point
	bad      map[uint64]itemErrors // of items, since something was committed
	touched  map[uint64]int        // how often other processes have touched an undecided item's temporary
	short    Shortage
}

// groupWait is the longest that a small file waits for others.
const groupWait = 20 * time.Millisecond

// handOver starts the commit of the group in the background. At most one commit runs; the next group gathers meanwhile.
func (cm *committer) handOver() {
	cm.grp.due = zeroTime
	if cm.entry.Gathers() && !cm.grp.whole {
		return
	}
	if cm.grp.running != nil || len(cm.grp.items) == 0 {
		if !cm.grp.idle() && len(cm.grp.items) > 0 {
			cm.grp.due = cm.agent.now().Add(groupWait)
		}
		return
	}

	group, done := cm.grp.take()
	landing := cm.to.landed
	go func() {
		var outcomes []transfer.Outcome
		err := guarded(func() (err error) {
			outcomes, err = cm.commitGroup(landing, group)
			return err
		})
		done <- CommitResult{group, outcomes, err}
	}()
}

// guarded turns a panic of background work into an error: a defect in one
// transfer must not take the agent down with it.
func guarded(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = transfer.Errorf(transfer.KindInternal, "crashed: %v\n%s", p, debug.Stack())
		}
	}()
	return work()
}

// drain commits all complete items and waits for the commit. Items of a set stay while an item of the set is missing.
func (cm *committer) drain() {
	for !cm.grp.idle() {
		if cm.handOver(); cm.grp.running == nil {
			return
		}
		cm.committed(<-cm.grp.running)
	}
}

// commitGroup decides the items of a group, beside the loop: first the complete items by the commit path, then the
// failed ones.
func (cm *committer) commitGroup(landing place.Landing, group []ending) (outcomes []transfer.Outcome, err error) {
	var failed []transfer.Outcome
	var pend []place.Pending
	for n := range group {
		if e := &group[n]; e.pending.Outcome.Err != nil {
			failed = append(failed, e.pending.Outcome)
		} else {
			pend = append(pend, e.pending)
		}
	}

	if len(pend) > 0 {
		outcomes, err = landing.Commit(cm.agent.Ctx, pend)
	}

	if len(failed) > 0 && err == nil {
		if err = cm.entry.Journal().Committed(failed); err == nil {
			outcomes = append(outcomes, failed...)
			cm.sweepFailed(group)
		}
	}
	return outcomes, err
}

// sweepFailed removes the temporaries of items that have failed. After a crash or an error, the end of the transfer
// removes the rest.
func (cm *committer) sweepFailed(group []ending) {
	for n := range group {
		e := &group[n]
		var err error
		switch {
		case e.left != nil:
			err = e.left.Discard()
		case e.stale != nil:
			err = e.stale.at.Drop(e.pending.Outcome.Item, e.stale.name)
		}
		if err != nil {
			cm.entry.Log.Warn("cannot release temporary file", "item", e.pending.Outcome.Item, "error", err)
		}
	}
}

// committed takes the result of a group's commit.
func (cm *committer) committed(c CommitResult) {
	cm.unsafe -= cm.grp.over(c)
	for range c.group {
		cm.itemSlots.give()
	}
	if err := cm.entry.Load(); err != nil {
		cm.entry.Log.Error("cannot read the ledger", "error", err)
	}

	cm.events.Decided(c.outcomes)
	for n := range c.outcomes {
		cm.entry.Items.ForgetPoint(c.outcomes[n].Item)
		delete(cm.touched, c.outcomes[n].Item)
	}

	if c.err != nil {
		cm.commitFailed(c)
	}

	if len(c.outcomes) > 0 {
		clear(cm.bad)
		cm.failures = 0
		cm.agent.ClearSuspect(cm.entry.ID)
	}
}

// commitFailed releases the items that a group did not decide. The source sends them again, from their safe points, or
// from their start after a failed sync. Items that had reached COMMITTING are decided by inode and digest before the
// next epoch.
func (cm *committer) commitFailed(c CommitResult) {
	keep, err := cm.entry.UndecidedIntents()
	if err != nil {
		cm.entry.Log.Error("cannot read the ledger", "error", err)
	}

	for _, o := range c.outcomes {
		keep[o.Item] = true
	}

	unsynced := errors.As(c.err, new(*place.SyncError))
	for n := range c.group {
		e := &c.group[n]
		switch {
		case err != nil || keep[e.pending.Outcome.Item]:
		case unsynced:
			e.discard()
		default:
			e.leave()
		}
	}

	var again *place.AgainError
	if errors.As(c.err, &again) {
		cm.beginAgain(c, again)
		if pending := (*place.PendingError)(nil); !errors.As(c.err, &pending) {
			return
		}
	}

	switch {
	case unsynced && !transfer.KindOf(c.err).Waits():
		cm.entry.Log.Error("cannot sync group; resending", "error", c.err)
		cm.syncFailed(c.err)
	case cm.agent.Ctx.Err() != nil:
	default:
		cm.entry.Log.Error("cannot commit group", "error", c.err)
		e := transfer.AsError(c.err)
		if !e.Kind.Waits() {
			e = transfer.Errorf(transfer.KindBusy, "%s cannot commit: %w", cm.agent.Entries.Agent, c.err)
		}
		if e.Kind == transfer.KindNoSpace {
			cm.short = Shortage{Bytes: 1, At: cm.to.resolution(c.group[0].pending.Outcome.To, c.group[0].pending.Outcome.Path)}
			for n := range c.group {
				cm.short.Bytes += c.group[n].pending.Outcome.Size
			}
		}
		cm.ep.Stop = e
	}
}

// maxMeddled is how often other processes must touch an item's temporary until the item fails; before that it begins
// again.
const maxMeddled = 5

// beginAgain requests items again after a change to their directory or temporary. An item fails when its temporary is
// touched again and again.
func (cm *committer) beginAgain(c CommitResult, again *place.AgainError) {
	cm.entry.Log.Warn("restarting items", "items", len(again.Items), "error", again)
	cm.ep.Again = "items begin again: " + again.Items[0].Err.Text
	for _, a := range again.Items {
		if !cm.meddled(a) {
			continue
		}
		for n := range c.group {
			if o := c.group[n].pending.Outcome; o.Item == a.Item {
				o.Err = a.Err
				if err := cm.failAlone(o); err != nil {
					cm.entry.Log.Error("cannot write the ledger", "error", err)
				}
			}
		}
	}

	cm.events.ReportDue()
}

// meddled counts the times that other processes touch an item's temporary. It reports whether the count has reached
// maxMeddled. A directory that has moved does not count.
func (cm *committer) meddled(a place.Again) bool {
	if a.Err.Kind == transfer.KindMoved {
		return false
	}
	if cm.touched[a.Item]++; cm.touched[a.Item] < maxMeddled {
		return false
	}
	delete(cm.touched, a.Item)
	return true
}

// failAlone decides an item that fails outside a group. If its set still gathers, failAlone first records that the set
// has failed.
func (cm *committer) failAlone(o transfer.Outcome) error {
	if cm.entry.Gathers() {
		if err := cm.failSet(transfer.SetFailed(o.Path, o.Err)); err != nil {
			return err
		}
	}
	return cm.decide(o)
}

// failSet records that no item of the set gets its name, with the reason.
func (cm *committer) failSet(why *transfer.Error) error {
	if err := cm.entry.FailSet(why); err != nil {
		return cm.entry.Unwritable(err)
	}
	cm.entry.Log.Warn("no file of the transfer gets its name: they were to arrive together", "error", why)
	return nil
}

// decide records the outcome of one item and offers it.
func (cm *committer) decide(o transfer.Outcome) error {
	if err := cm.entry.Journal().Committed([]transfer.Outcome{o}); err != nil {
		return err
	}
	cm.events.Decided([]transfer.Outcome{o})
	return cm.entry.Load()
}

// maxFailures is how many syncs may fail in a row before the transfer waits
// with the reason instead of being sent again at once.
const maxFailures = 3

// syncFailed requests a new epoch, so that the source sends the unsynced data again.
func (cm *committer) syncFailed(err error) {
	if cm.failures++; cm.failures >= maxFailures && cm.ep.Stop == nil {
		cm.failures = 0
		cm.ep.Stop = transfer.Errorf(transfer.KindBusy, "%s cannot make files durable: %w", cm.agent.Entries.Agent, err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	cm.ep.Again = "a sync failed"
}

// progressed resets the count of crashes: the transfer does not crash the agent. It writes the ledger only if the count
// is not 0.
func (cm *committer) progressed() {
	if cm.entry.In.Crashes == 0 {
		return
	}
	cm.agent.ClearSuspect(cm.entry.ID)
	if err := cm.entry.Progressed(); err != nil {
		cm.entry.Log.Error("cannot write the ledger", "error", err)
	}
}

// settleCommitting decides items that were left in COMMITTING, by a crash or by a directory that could not be synced
// (R21, R22).
func (cm *committer) settleCommitting() error {
	intents, err := cm.entry.Intents()
	for n := 0; err == nil && n < len(intents); n++ {
		err = cm.settleIntent(intents[n])
	}
	return err
}

func (cm *committer) settleIntent(in transfer.Intent) error {
	d, err := cm.to.at(in.Outcome.To)
	if err != nil {
		return err
	}

	verdict, outcome, err := d.landing.Recover(in, cm.agent.Entries.Boot)
	failpoint.Hit("recover.decided")
	if err != nil {
		return err
	}

	cm.entry.Log.Info("recovered item in COMMITTING", "item", in.Outcome.Item, "path", in.Outcome.Path, "verdict", verdict)
	if verdict == place.Redo {
		err := redo(cm.entry, in.Outcome.Item)
		if err == errRedo {
			return nil
		}
		return err
	}
	return cm.decide(outcome)
}
