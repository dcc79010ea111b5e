package receiver

import (
	"errors"
	"runtime/debug"
	"time"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// An ending is an item that is complete, or has failed, and is to be decided.
// It holds one of the agent's places for undecided items.
type ending struct {
	pending place.Pending
	left    place.Part // of an item that fails: its temporary, which goes once that is on record
	stale   *stale     // of an item that fails before it has begun in this epoch: what an earlier one left
	size    int64      // bytes beyond the last safe point
	safe    int64      // the last safe point
}

// A stale is the temporary that an earlier epoch has left of an item.
type stale struct {
	at   place.Landing
	name transfer.Path
}

// discard lets go of an item and of its temporary.
func (e *ending) discard() { e.letGo(false) }

// leave lets go of an item that is not decided; what is safe of it stays for
// the next epoch (R16).
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

// committed is the end of a group.
type committed struct {
	group    []ending
	outcomes []transfer.Outcome
	err      error // why the rest of the group is not decided
}

// handOver gives the group to the background for committing. One is under way
// at most; the next one gathers meanwhile.
func (i *incoming) handOver() {
	i.grp.due = zeroTime
	if i.grp.running != nil || len(i.grp.items) == 0 {
		if !i.grp.idle() && len(i.grp.items) > 0 {
			i.grp.due = i.r.cfg.Clock.Now().Add(groupWait)
		}
		return
	}
	group, done := i.grp.take()
	landing := i.to.landed
	go func() {
		var outcomes []transfer.Outcome
		err := guarded(func() (err error) {
			outcomes, err = i.commitGroup(landing, group)
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

// drain commits everything that is complete and waits for it.
func (i *incoming) drain() {
	for !i.grp.idle() {
		i.handOver()
		i.committed(<-i.grp.running)
	}
}

// commitGroup decides the items of a group, beside the loop: those that have failed,
// and the others by way of the commit path.
func (i *incoming) commitGroup(landing place.Landing, group []ending) (outcomes []transfer.Outcome, err error) {
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
		outcomes, err = landing.Commit(i.r.ctx, pend)
	}
	if len(failed) > 0 && err == nil {
		if err = (*journal)(i).Committed(failed); err == nil {
			outcomes = append(outcomes, failed...)
			i.sweepFailed(group)
		}
	}
	return outcomes, err
}

// sweepFailed removes the temporaries of items that have failed. What a crash or an
// error leaves, the end of the transfer removes.
func (i *incoming) sweepFailed(group []ending) {
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
			i.log.Warn("cannot release temporary file", "item", e.pending.Outcome.Item, "error", err)
		}
	}
}

// committed takes in a group's end.
func (i *incoming) committed(c committed) {
	i.cp.unsafe -= i.grp.over(c)
	for range c.group {
		<-i.r.open
	}
	if err := i.load(); err != nil {
		i.log.Error("cannot read the ledger", "error", err)
	}
	i.offers.waiting = append(i.offers.waiting, c.outcomes...)
	for n := range c.outcomes {
		delete(i.pointed, c.outcomes[n].Item)
		delete(i.touched, c.outcomes[n].Item)
	}
	if c.err != nil {
		i.commitFailed(c)
	}
	if len(c.outcomes) > 0 {
		clear(i.bad)
		i.cp.failures = 0
		i.r.acquit(i.id)
		if len(i.grp.items) == 0 && i.ep.live && i.finishIfDecided() {
			return
		}
		i.offerNew()
		i.ack()
	}
}

// commitFailed lets go of what a group did not decide. It is sent again, from
// its safe points, or from its start where a sync failed; what had come as far
// as COMMITTING is decided by inode and digest before the next epoch.
func (i *incoming) commitFailed(c committed) {
	keep, err := i.undecidedIntents()
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
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
		i.beginAgain(c, again)
		if pending := (*place.PendingError)(nil); !errors.As(c.err, &pending) {
			return
		}
	}
	switch {
	case unsynced && !transfer.KindOf(c.err).Waits():
		i.log.Error("cannot sync group; resending", "error", c.err)
		i.syncFailed(c.err)
	case i.r.ctx.Err() != nil:
	default:
		i.log.Error("cannot commit group", "error", c.err)
		e := transfer.AsError(c.err)
		if !e.Kind.Waits() {
			e = transfer.Errorf(transfer.KindBusy, "%s cannot commit: %w", i.r.cfg.Agent, c.err)
		}
		if e.Kind == transfer.KindNoSpace {
			i.short = shortage{bytes: 1, at: c.group[0].pending.Outcome.Path}
			for n := range c.group {
				i.short.bytes += c.group[n].pending.Outcome.Size
			}
		}
		i.ep.stop = e
	}
}

// maxMeddled is how often an item begins again because others have touched its
// temporary; then it fails.
const maxMeddled = 5

// beginAgain asks for items once more whose directory or temporary is not what it
// was. One whose temporary is touched again and again fails.
func (i *incoming) beginAgain(c committed, again *place.AgainError) {
	i.log.Warn("restarting items", "items", len(again.Items), "error", again)
	i.ep.again = "items begin again: " + again.Items[0].Err.Text
	for _, a := range again.Items {
		if !i.meddled(a) {
			continue
		}
		for n := range c.group {
			if o := c.group[n].pending.Outcome; o.Item == a.Item {
				o.Err = a.Err
				if err := i.decide(o); err != nil {
					i.log.Error("cannot write the ledger", "error", err)
				}
			}
		}
	}
	i.offerNew()
}

// meddled counts what others do to an item's temporary and reports whether that is
// too much.
func (i *incoming) meddled(a place.Again) bool {
	if a.Err.Kind == transfer.KindMoved {
		return false
	}
	if i.touched[a.Item]++; i.touched[a.Item] < maxMeddled {
		return false
	}
	delete(i.touched, a.Item)
	return true
}

// decide records the outcome of one item and offers it.
func (i *incoming) decide(o transfer.Outcome) error {
	if err := (*journal)(i).Committed([]transfer.Outcome{o}); err != nil {
		return err
	}
	i.offers.waiting = append(i.offers.waiting, o)
	return i.load()
}

// journal is the ledger as the commit path needs it. It runs beside the loop
// and touches only what never changes.
type journal incoming

// Committing records what is about to be renamed.
func (j *journal) Committing(intents []transfer.Intent) error {
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.PutIntents(j.id, intents) })
}

// Again makes the ledger forget what it has of items that begin again.
func (j *journal) Again(items []uint64) error {
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		var err error
		for _, item := range items {
			err = errors.Join(err, t.DropItem(j.id, item))
		}
		return err
	})
}

// Committed records outcomes, with the audit records of them, in one
// transaction (R29).
func (j *journal) Committed(outcomes []transfer.Outcome) error {
	failpoint.Hit("receiver.before_committed")
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Incoming(j.id)
		if err != nil || rec == nil {
			return errors.Join(err, errors.New("the transfer's record is gone"))
		}
		var fresh []transfer.Outcome
		for n := range outcomes {
			o := &outcomes[n]
			if !rec.Decided.Add(o.Item) {
				continue // decided before; the first word stands
			}
			rec.Counts.Add(o)
			fresh = append(fresh, *o)
		}
		if err := t.PutOutcomes(j.id, fresh); err != nil {
			return err
		}
		rec.Crashes = 0
		j.r.heard(t, rec)
		if err := t.PutIncoming(rec); err != nil {
			return err
		}
		if failpoint.Planted("audit-apart") {
			go j.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return j.note(t, fresh) })
			return nil
		}
		return j.note(t, fresh)
	})
}

func (j *journal) note(t *ledger.Tx, outcomes []transfer.Outcome) error {
	return noteItems(outcomes, func(part []transfer.Outcome) error {
		return j.r.cfg.Note(t, (*incoming)(j).record(audit.Items, func(a *audit.Record) { a.Items = part }))
	})
}

// noteItems cuts outcomes into as many audit records as they need.
func noteItems(outcomes []transfer.Outcome, note func([]transfer.Outcome) error) error {
	for len(outcomes) > 0 {
		n := max(audit.FitItems(outcomes), 1)
		if err := note(outcomes[:n]); err != nil {
			return err
		}
		outcomes = outcomes[n:]
	}
	return nil
}

// settleCommitting decides items that were left in COMMITTING, by a crash or
// by a directory that could not be synced (R21, R22). It reports false, and has
// told the source to wait, where that is not possible yet.
func (i *incoming) settleCommitting() bool {
	intents, err := i.intents()
	for n := 0; err == nil && n < len(intents); n++ {
		err = i.settleIntent(intents[n])
	}
	if err == nil {
		return true
	}
	i.log.Error("cannot recover items in COMMITTING yet", "error", err)
	reason := transfer.AsError(err)
	if !reason.Kind.Waits() {
		reason = transfer.Errorf(transfer.KindBusy, "%s cannot decide items that it was committing: %w", i.r.cfg.Agent, err)
	}
	i.endEpoch(reason) // what admit has begun
	return false
}

// intents are the items that are in COMMITTING and undecided.
func (i *incoming) intents() (out []transfer.Intent, err error) {
	err = i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(i.id, func(item uint64, it *ledger.Item) error {
			if it.Intent != nil && !i.rec.Decided.Has(item) {
				out = append(out, *it.Intent)
			}
			return nil
		})
	})
	return out, err
}

// undecidedIntents are their numbers: a temporary of theirs must not be
// removed, or its absence would read as "taken by a consumer".
func (i *incoming) undecidedIntents() (map[uint64]bool, error) {
	keep := map[uint64]bool{}
	intents, err := i.intents()
	for n := range intents {
		keep[intents[n].Outcome.Item] = true
	}
	return keep, err
}

func (i *incoming) settleIntent(in transfer.Intent) error {
	d, err := i.to.at(in.Outcome.To)
	if err != nil {
		return err
	}
	verdict, outcome, err := d.landing.Recover(in, i.r.cfg.Boot)
	failpoint.Hit("recover.decided")
	if err != nil {
		return err
	}
	i.log.Info("recovered item in COMMITTING", "item", in.Outcome.Item, "path", in.Outcome.Path, "verdict", verdict)
	if verdict == place.Redo {
		err := i.forgetPoint(in.Outcome.Item)
		if err == errRedo {
			return nil
		}
		return err
	}
	return i.decide(outcome)
}

// revive makes the actor of a transfer that the ledger has, at start.
func (r *Receiver) revive(rec *ledger.Incoming) error {
	i := r.newActor(rec.Request.ID, rec.Request.Source)
	if err := i.adopt(rec); err != nil {
		return err
	}
	if r.cfg.Ledger.Unclean() && rec.Live {
		if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
			rec.Crashes++
			rec.Live = false
			return nil
		}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(i)
	return nil
}

// adopt takes a record of the ledger in, with what belongs to it: outcomes that
// the source may not have are offered again.
func (i *incoming) adopt(rec *ledger.Incoming) error {
	i.know(rec)
	if rec.State.Final() {
		return nil
	}
	i.land()
	i.offers.waiting, i.adopted = nil, true
	return i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		i.contact.before = silentFor(t, rec)
		return t.Items(i.id, func(_ uint64, it *ledger.Item) error {
			if it.Outcome != nil {
				i.offers.waiting = append(i.offers.waiting, *it.Outcome)
			}
			return nil
		})
	})
}

// silentFor is for how long a record's source had not been heard of when the run before
// this one ended, in the agent's running time.
func silentFor(t *ledger.Tx, rec *ledger.Incoming) time.Duration {
	if rec.Heard == 0 {
		return 0
	}
	return max(0, t.Running()-rec.Heard-time.Minute) // both are counted in minutes
}
