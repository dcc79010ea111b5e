package receiver

import (
	"errors"
	"runtime/debug"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// An ending is an item that is complete, or has failed, and is to be decided.
// It holds one of the agent's places for undecided items.
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
func (e *ending) discard() { e.letGo(false) }

// leave releases an item that is not decided. Its safe bytes stay for the next epoch (R16).
func (e *ending) leave() { e.letGo(true) }

func (e *ending) letGo(keep bool) {
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

// committed is the result of a group's commit.
type committed struct {
	group    []ending
	outcomes []transfer.Outcome
	err      error // why the rest of the group is not decided
}

// A shortage is the space that was missing for a write; zero: none was missing.
type shortage struct {
	bytes int64
	at    transfer.Resolution
}

// Mishaps of an item are its bad hashes, offsets and compressed chunks since its furthest safe point.
type mishaps struct {
	count   int
	safe    int64            // the furthest safe point
	version transfer.Version // of the item
}

// A committer decides items: a group of them gathers while the one before is committed.
type committer struct {
	*record
	ep       *epoch
	grp      group
	offers   offering
	news     bool               // the source has yet to hear of a decision or a safe point
	unsafe   int64              // data bytes that a crash would lose, of files that are being written and of groups
	failures int                // failed syncs since the last safe point
	bad      map[uint64]mishaps // of items, since something was committed
	touched  map[uint64]int     // how often other processes have touched an undecided item's temporary
	short    shortage
}

// handOver starts the commit of the group in the background. At most one commit runs; the next group gathers meanwhile.
func (cm *committer) handOver() {
	cm.grp.due = zeroTime
	if cm.entry.Gathers() && !cm.grp.whole {
		return
	}
	if cm.grp.running != nil || len(cm.grp.items) == 0 {
		if !cm.grp.idle() && len(cm.grp.items) > 0 {
			cm.grp.due = cm.r.cfg.Clock.Now().Add(groupWait)
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
		done <- committed{group, outcomes, err}
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
		outcomes, err = landing.Commit(cm.r.ctx, pend)
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
			cm.log.Warn("cannot release temporary file", "item", e.pending.Outcome.Item, "error", err)
		}
	}
}

// committed takes the result of a group's commit.
func (cm *committer) committed(c committed) {
	cm.unsafe -= cm.grp.over(c)
	for range c.group {
		cm.givePlace()
	}
	if err := cm.entry.Load(); err != nil {
		cm.log.Error("cannot read the ledger", "error", err)
	}

	cm.offers.waiting = append(cm.offers.waiting, c.outcomes...)
	for n := range c.outcomes {
		cm.entry.Items.Unpointed(c.outcomes[n].Item)
		delete(cm.touched, c.outcomes[n].Item)
	}

	if c.err != nil {
		cm.commitFailed(c)
	}

	if len(c.outcomes) > 0 {
		clear(cm.bad)
		cm.failures = 0
		cm.r.acquit(cm.id)
		cm.news = true
	}
}

// commitFailed releases the items that a group did not decide. The source sends them again, from their safe points, or
// from their start after a failed sync. Items that had reached COMMITTING are decided by inode and digest before the
// next epoch.
func (cm *committer) commitFailed(c committed) {
	keep, err := cm.entry.UndecidedIntents()
	if err != nil {
		cm.log.Error("cannot read the ledger", "error", err)
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
		cm.log.Error("cannot sync group; resending", "error", c.err)
		cm.syncFailed(c.err)
	case cm.r.ctx.Err() != nil:
	default:
		cm.log.Error("cannot commit group", "error", c.err)
		e := transfer.AsError(c.err)
		if !e.Kind.Waits() {
			e = transfer.Errorf(transfer.KindBusy, "%s cannot commit: %w", cm.r.cfg.Agent, c.err)
		}
		if e.Kind == transfer.KindNoSpace {
			cm.short = shortage{bytes: 1, at: cm.to.resolution(c.group[0].pending.Outcome.To, c.group[0].pending.Outcome.Path)}
			for n := range c.group {
				cm.short.bytes += c.group[n].pending.Outcome.Size
			}
		}
		cm.ep.stop = e
	}
}

// maxMeddled is how often other processes must touch an item's temporary until the item fails; before that it begins
// again.
const maxMeddled = 5

// beginAgain requests items again after a change to their directory or temporary. An item fails when its temporary is
// touched again and again.
func (cm *committer) beginAgain(c committed, again *place.AgainError) {
	cm.log.Warn("restarting items", "items", len(again.Items), "error", again)
	cm.ep.again = "items begin again: " + again.Items[0].Err.Text
	for _, a := range again.Items {
		if !cm.meddled(a) {
			continue
		}
		for n := range c.group {
			if o := c.group[n].pending.Outcome; o.Item == a.Item {
				o.Err = a.Err
				if err := cm.failAlone(o); err != nil {
					cm.log.Error("cannot write the ledger", "error", err)
				}
			}
		}
	}

	cm.news = true
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
		if err := (ofSet{cm.record}).noteBroken(transfer.SetFailed(o.Path, o.Err)); err != nil {
			return err
		}
	}
	return cm.decide(o)
}

// decide records the outcome of one item and offers it.
func (cm *committer) decide(o transfer.Outcome) error {
	if err := cm.entry.Journal().Committed([]transfer.Outcome{o}); err != nil {
		return err
	}
	cm.offers.waiting, cm.news = append(cm.offers.waiting, o), true
	return cm.entry.Load()
}
