package sender

import (
	"context"
	"math"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31). The source opens against the queue manager's store: it issues the epoch and puts OPEN and the
// chunk messages there. Once the store has them all, the transfer waits without a slot until outcomes come. The
// destination takes messages meanwhile without a report to the source. Only if it finds a gap, it says where the next
// epoch is to begin.
//
//	Negotiating  an epoch is in the store, in part or whole: the destination is asked for its status
//	             → Running with a new epoch, or Waiting where all of the epoch is in the store
//	Running      messages go into the store
//	             → Waiting when all are there, or while the store has no room
//
// The epoch that is in the ledger is purged before the next one is written there: a purge names all epochs below one,
// and never meets the one that begins.

const (
	askStored = 3 * time.Second // for the destination's answer about the epoch in the store
	sentRetry = time.Minute     // until a destination that has not taken everything is asked again
	fullAfter = 2 * time.Second // then a transfer that finds no room in the store holds no slot
	unlimited = int64(1) << 60  // credit: the store refuses messages that it has no room for
)

// A shelving is the state of a transfer's epoch in the store.
type shelving struct {
	resume *transfer.Resume // of an epoch that is in the ledger and has not begun
	head   []byte           // its OPEN
	store  StoreName        // the store of that epoch
	parked *pump            // waits for room, without a slot
}

// A Stowing puts a transfer with stored delivery into the store, and asks its destination for the status there.
type Stowing struct {
	parts
	in        *inbox
	outcomes  *recorder
	inherited bool // an earlier run had sent some items
	next      driver
	with      negotiator

	shelving shelving
}

// A negotiator makes the messages and pumps of a transfer.
type negotiator interface {
	openMessage(rec *ledger.Source, a *walk.Reader, goes walk.CommonDest) (*wire.Message, error)
	newPump(epoch uint32, credit int64, resume transfer.Resume) *pump
}

// Stow returns the Stowing of a transfer.
func Stow(o *Outgoing) *Stowing { return o.stow }

// Shelved reports whether all messages of the transfer are in the store.
func (o *Stowing) Shelved() bool { return o.rec.read().Shelved > 0 && o.stored() }

// hearStored handles the destination's messages for a transfer that waits.
func (o *Stowing) hearStored(m *wire.Message) {
	if !o.stored() {
		return
	}
	switch rec := o.rec.read(); {
	case o.decisive(rec, m):
		o.in.deliver(m) // the next driver of the transfer reads it
	case m.Kind == wire.KindAccept && m.Accept.Epoch == rec.Epoch && m.Accept.Nonce <= rec.Nonce:
		if err := o.acceptedStored(m.Accept); err != nil {
			o.log.Error("cannot write the ledger", "error", err)
		}
	case m.Kind == wire.KindAck && m.Ack.Epoch == rec.Epoch:
		if bytes, past := o.live.checkAck(m.Ack); (bytes || past) && !o.inherited {
			o.peer.logImpossible("an ACK of data that was not sent")
			return
		}
		if o.live.acked(m.Ack) {
			if err := o.rec.moves(); err != nil {
				o.log.Error("cannot write the ledger", "error", err)
			}
		}
		o.shown.show(false)
	}
}

// decisive reports whether a message ends the epoch, or the transfer. A REFUSE may answer the OPEN in the store, which
// is older than the last one.
func (o *Stowing) decisive(rec *ledger.Source, m *wire.Message) bool {
	return m.Kind == wire.KindResync && m.Resync.Epoch == rec.Epoch || m.Kind == wire.KindRefuse && m.Refuse.Nonce <= rec.Nonce || m.Kind == wire.KindCancelled
}

// Wants reports whether a message that came while the transfer waited is a reason to drive it at once.
func (o *Stowing) Wants(m *wire.Message) bool {
	return o.stored() && o.decisive(o.rec.read(), m)
}

// AskAgain returns after how long a destination that has not taken everything is asked again.
func (o *Stowing) AskAgain() time.Duration { return o.rec.left(sentRetry) }

// StillShelved shows that a transfer without a driver waits for a destination that is away. It reports true if the
// recovery time-out is over and the transfer has failed.
func (o *Stowing) StillShelved() (ended bool, err error) {
	rec := o.rec.read()
	if !o.rec.overdue() && rec.Progress.Reason != nil && rec.Progress.Reason.Kind == transfer.KindUnreachable {
		o.live.setWaiting(0, o.cfg.Clock.Now().Add(o.AskAgain()))
		return false, nil
	}
	if o.rec.overdue() {
		if _, err := o.next.giveUp(rec.Progress.Reason); err != nil {
			return false, err
		}
		o.shown.show(true)
		o.next.Dispose()
		return true, nil
	}
	err = o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		setNoProgress(rec, o.cfg.Clock.Now())
		rec.Progress.Reason = o.awaited(nil)
		return nil
	})
	o.shown.show(true)
	return false, err
}

// moves records progress, and restarts the recovery time-out from now: the rest may take as long again.
func (r *record) moves() error {
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Recovering, rec.Crashes = r.clock.Now(), 0
		return nil
	})
}

// awaited returns the reason for the wait of a transfer that is all in the store. why is the destination's reason; nil:
// it gave none.
func (o *Stowing) awaited(why *transfer.Error) *transfer.Error {
	if why == nil {
		why = o.outcomes.unrecorded()
	}
	if why == nil {
		return transfer.Errorf(transfer.KindUnreachable, "sent: everything is stored at the queue manager, and %s has yet to take it", o.to).
			WithHint("nothing is left to do here; it ends when the agent has been there")
	}
	return transfer.Errorf(why.Kind, "sent: everything is stored at the queue manager; %s", why.Text).WithHint(why.Hint)
}

// negotiateStored asks for the status of the epoch in the store, and begins the next one if it is needed.
func (o *Stowing) negotiateStored(ctx context.Context) (*DriveResult, error) {
	if o.cfg.Store == nil {
		return o.next.fail(transfer.Errorf(transfer.KindUsage, "%s has no stored delivery", o.cfg.Agent))
	}
	if o.rec.cancelled() {
		return o.next.beginCancel()
	}
	if o.shelving.parked != nil {
		if name, err := o.cfg.Store.Store(ctx, o.to); err != nil || name.Mark == o.shelving.store.Mark && name.At == o.shelving.store.At {
			return nil, o.rec.update(nil, transfer.Running)
		}
		o.unpark() // the destination has moved: messages still to be stored there are of no use
	}

	failpoint.Hit("sender.before_open")
	rec := o.rec.read()
	if o.rec.overdue() {
		return o.next.giveUp(rec.Progress.Reason)
	}
	name, err := o.cfg.Store.Store(ctx, o.to)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return o.next.wait(o.noStore(err), 0)
	}

	resume := &transfer.Resume{Decided: rec.Decided}
	if rec.Epoch > 0 {
		said, err := o.askStored(ctx, rec, name.Mark)
		if err != nil || said.verdict != nil || o.rec.state() != transfer.Negotiating || ctx.Err() != nil {
			return said.verdict, err
		}
		switch {
		case said.resume != nil:
			resume = said.resume
		case rec.Shelved > 0:
			return o.next.waitFor(o.awaited(said.why), 0, o.AskAgain())
		case said.why != nil:
			return o.next.wait(said.why, 0)
		}
	}
	return o.beginShelving(ctx, name, resume)
}

// noStore returns a reason to wait for a queue manager that has no store at present.
func (o *Stowing) noStore(err error) *transfer.Error {
	e := transfer.AsError(err)
	if e.Kind.Waits() {
		return e
	}
	return transfer.Errorf(transfer.KindBusy, "%s cannot use the store of its queue manager: %w", o.cfg.Agent, err).
		WithHint("the transfer goes on when the queue manager is there")
}

// A standing is the destination's answer about the epoch in the store; without any field, the destination gave none.
type standing struct {
	verdict *DriveResult     // the transfer has ended
	resume  *transfer.Resume // the points where the next epoch is to resume
	why     *transfer.Error  // it has the epoch, or waits
}

// askStored asks the destination for the status of the epoch.
func (o *Stowing) askStored(ctx context.Context, rec *ledger.Source, mark string) (s standing, err error) {
	open, err := o.openStored(rec, &wire.Shelved{Store: mark, Epoch: rec.Epoch, Last: rec.Shelved, Ledger: rec.StoredFor, Again: rec.Shelved == 0})
	if err != nil {
		return s, err
	}

	end := o.cfg.Clock.Now().Add(askStored + 2*o.peer.extraWait(nil))
	timer := o.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		if m := o.in.take(); m != nil {
			done, s, err := o.heardStored(rec, m)
			if done || err != nil {
				return s, err
			}
			continue
		}
		if o.rec.cancelled() {
			s.verdict, err = o.next.beginCancel()
			return s, err
		}
		if o.in.takeRestart() {
			timer.Reset(0)
		}
		select {
		case <-timer.C():
			if !o.cfg.Clock.Now().Before(end) {
				return s, nil
			}
			o.peer.tell(open)
			failpoint.Hit("sender.after_open")
			timer.Reset(repeatFirst + o.peer.extraWait(nil))
		case <-o.driver:
		case <-ctx.Done():
			return s, nil
		}
		if o.rec.state() != transfer.Negotiating {
			return s, nil // the last outcomes came in the meantime
		}
	}
}

// heardStored handles an answer; done reports that the message is one.
func (o *Stowing) heardStored(rec *ledger.Source, m *wire.Message) (done bool, s standing, err error) {
	switch {
	case m.Kind == wire.KindAccept && m.Accept.Nonce <= rec.Nonce && m.Accept.Epoch == rec.Epoch:
		if err := o.acceptedStored(m.Accept); err != nil {
			return true, s, err
		}
		s.why = transfer.Errorf(transfer.KindBusy, "%s takes it from there", o.to)
		return rec.Shelved > 0 && m.Accept.Nonce == rec.Nonce, s, nil
	case m.Kind == wire.KindResync && m.Resync.Epoch == rec.Epoch:
		o.log.Info("RESYNC received", "epoch", m.Resync.Epoch, "error", m.Resync.Reason)
		s.resume = &m.Resync.Resume
		return true, s, nil
	case m.Kind == wire.KindBusy && m.Busy.Nonce == rec.Nonce:
		s.why = m.Busy.Reason
		if m.Busy.Program {
			err = o.rec.programRuns(o.cfg.Clock.Now())
		}
		return true, s, err
	case m.Kind == wire.KindRefuse && m.Refuse.Nonce <= rec.Nonce:
		s.verdict, err = o.next.refused(m.Refuse.Error)
		return true, s, err
	case m.Kind == wire.KindCancelled:
		s.verdict, err = o.next.fail(transfer.Errorf(transfer.KindLost, "%s has withdrawn the transfer", o.to))
		return true, s, err
	}
	return false, s, nil
}

// acceptedStored records the ledger of the destination that has accepted, once.
func (o *Stowing) acceptedStored(a *wire.Accept) error {
	o.in.accepted(a.Instance)
	if o.rec.read().Dest != "" {
		return nil
	}
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Dest = a.Dest
		if rec.Resolution == nil && a.Resolution.Base != "" {
			rec.Resolution = &a.Resolution
		}
		return nil
	})
}

// openStored returns the OPEN of an epoch, for the store or for the destination.
func (o *Stowing) openStored(rec *ledger.Source, stored *wire.Shelved) (*wire.Message, error) {
	a := o.cfg.walks().Reader(rec)
	goes, err := o.cfg.walks().CommonDest(a)
	if err != nil {
		return nil, err
	}
	m, err := o.with.openMessage(rec, a, goes)
	if err != nil {
		return nil, err
	}
	if m.Open.Targets != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "stored delivery sends everything to one DEST with the same options")
	}
	m.Open.Request.Dest, m.Open.Several = goes.Dest, goes.Several
	m.Open.Request.Settings = o.settingsStored(rec)
	m.Open.Stored = stored
	m.From, m.Transfer = o.cfg.Agent, o.ID
	return m, nil
}

// settingsStored returns the settings of a transfer without negotiation.
func (o *Stowing) settingsStored(rec *ledger.Source) transfer.Settings {
	return flow.Negotiate(rec.Request.Settings.Or(o.cfg.Settings), min(o.cfg.MaxChunk, wire.MaxStoredChunk))
}

// beginShelving begins the next epoch: it purges the store's messages of earlier ones, then records the new one in the
// ledger.
func (o *Stowing) beginShelving(ctx context.Context, name StoreName, resume *transfer.Resume) (*DriveResult, error) {
	rec := o.rec.read()
	epoch := rec.Epoch + 1
	storedFor := rec.StoredFor
	if rec.Epoch == 0 {
		storedFor = name.Ledger
	}
	open, err := o.openStored(rec, &wire.Shelved{Store: name.Mark, Epoch: epoch, Ledger: storedFor})
	var data []byte
	if err == nil {
		data, err = open.Encode()
	}
	if err == nil && len(data) > wire.MaxStored {
		err = transfer.Errorf(transfer.KindTooLarge, "the request has %d bytes beside its items, too many for stored delivery; the limit is %d", len(data), wire.MaxStored)
	}
	if err != nil {
		if kind := transfer.KindOf(err); kind == transfer.KindUsage || kind == transfer.KindTooLarge {
			return o.next.fail(transfer.AsError(err))
		}
		return nil, err
	}
	if rec.Epoch > 0 && rec.Shelf() != name.At { // the destination has moved, and no agent reads there any more
		o.cfg.Store.Left(rec.Shelf(), o.to, o.ID, epoch)
	} else if rec.Epoch > 0 {
		if err := o.cfg.Store.Purge(ctx, name.At, o.to, o.ID, epoch); err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			return o.next.wait(o.noStore(err), 0)
		}
	}
	failpoint.Hit("sender.after_purge")
	if err := o.items.Open(rec, resume.End()); err != nil {
		return o.next.pumpFailed(err)
	}

	settings := o.settingsStored(rec)
	err = o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		first := rec.Epoch == 0
		rec.Epoch, rec.Shelved, rec.StoredFor, rec.Journal = epoch, 0, storedFor, true
		if rec.Shelf() != name.At {
			rec.Shelves = append(slices.DeleteFunc(slices.Clone(rec.Shelves), func(at string) bool { return at == name.At }), name.At)
		}
		p := &rec.Progress
		p.Epoch, p.Settings, p.Lane, p.LaneReason, p.Reason = epoch, settings, transfer.LaneQueue, laneStored, nil
		if !first {
			p.Resumes++
			return nil
		}
		return o.cfg.Note(t, noteOf(rec, audit.Started, func(r *audit.Record) {
			r.Lane, r.Request = transfer.LaneQueue, audit.FactsOf(&rec.Request)
			r.Request.Settings = settings
		}))
	}, transfer.Running)
	if err != nil {
		return nil, err
	}

	failpoint.Hit("sender.after_accept")
	o.items.Start(o.rec.read())
	o.live.accepted()
	o.shelving.resume, o.shelving.head, o.shelving.store = resume, data, name
	return nil, nil
}

// shelve puts the epoch into the store.
func (o *Stowing) shelve(ctx context.Context) (*DriveResult, error) {
	p, s := o.shelving.parked, &o.shelving
	if s.parked = nil; p != nil {
		o.cfg.Store.Unpark()
	} else {
		resume, head := s.resume, s.head
		if s.resume, s.head = nil, nil; resume == nil { // an epoch is never sent twice from its first message
			return nil, o.rec.renegotiate()
		}
		p = o.with.newPump(o.rec.read().Epoch, unlimited, *resume)
		p.accept, p.out.head, p.out.opened = &wire.Accept{}, head, make(chan struct{})
		startPumping(p, *resume)
	}

	stop := true
	defer func() {
		if stop {
			p.stop()
		}
	}()
	tick := o.cfg.Clock.NewTimer(progressEvery)
	defer tick.Stop()
	opened, hinted := p.out.opened, o.cfg.Clock.Now()
	for {
		for m := o.in.take(); m != nil; m = o.in.take() {
			if over, v, err := o.saidWhileShelving(m); over || err != nil {
				return v, err
			}
		}
		if o.rec.state() != transfer.Running {
			return nil, nil // the last outcomes are here
		}
		if o.rec.cancelled() {
			p.stop()
			return o.next.beginCancel()
		}
		select {
		case <-o.driver:
		case <-opened:
			opened = nil
			if err := o.hint(); err != nil {
				return nil, err
			}
		case <-p.done:
			if p.err != nil {
				if ctx.Err() != nil {
					return nil, nil
				}
				return o.next.pumpFailed(p.err)
			}
			return o.shelved(p)
		case <-tick.C():
			why, since := waitsForStore(p.out)
			if why != nil && o.cfg.Clock.Now().Sub(since) >= fullAfter {
				if o.rec.overdue() {
					p.stop()
					if err := o.rec.halt(); err != nil {
						return nil, err
					}
					return o.next.giveUp(why)
				}
				if o.cfg.Store.Park() {
					stop, s.parked = false, p
					return o.waitForRoom(why)
				}
			}
			if err := o.showRoom(why, since); err != nil {
				return nil, err
			}
			if why == nil {
				if err := o.rec.progressed(); err != nil {
					return nil, err
				}
			}
			if now := o.cfg.Clock.Now(); now.Sub(hinted) >= sentRetry {
				hinted = now
				if err := o.hint(); err != nil {
					return nil, err
				}
			}
			o.shown.show(false)
			tick.Reset(progressEvery)
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// showRoom shows why a transfer that has kept its slot stores no messages. Later it shows that the transfer has
// resumed.
func (o *Stowing) showRoom(why *transfer.Error, since time.Time) error {
	if why != nil && o.cfg.Clock.Now().Sub(since) < fullAfter {
		return nil
	}
	if shown := o.rec.read().Progress.Reason; (why == nil) == (shown == nil) {
		return nil
	}
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		if rec.Progress.Reason = why; why != nil {
			setNoProgress(rec, o.cfg.Clock.Now())
		}
		return nil
	})
}

// hint sends OPEN to a destination that is connected, as a hint that the store has messages for it.
func (o *Stowing) hint() error {
	rec := o.rec.read()
	open, err := o.openStored(rec, &wire.Shelved{Store: o.shelving.store.Mark, Epoch: rec.Epoch, Ledger: rec.StoredFor})
	if err == nil {
		o.peer.tell(open)
	}
	return err
}

// waitForRoom returns the slot; the pump stays where it is.
func (o *Stowing) waitForRoom(why *transfer.Error) (*DriveResult, error) {
	if !why.Kind.Waits() {
		why = o.noStore(why)
	}
	o.live.setWaiting(0, o.cfg.Clock.Now().Add(waitRetry))
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		setNoProgress(rec, o.cfg.Clock.Now())
		rec.Progress.Reason = why
		return nil
	}, transfer.Waiting)
	return &DriveResult{Reason: why, Retry: waitRetry}, err
}

// saidWhileShelving handles the destination's messages about an epoch that is not all in the store yet. over reports
// that the epoch, or the transfer, is over.
func (o *Stowing) saidWhileShelving(m *wire.Message) (over bool, v *DriveResult, err error) {
	rec := o.rec.read()
	switch {
	case m.Kind == wire.KindAck && m.Ack.Epoch == rec.Epoch:
		if bytes, past := o.live.checkAck(m.Ack); bytes || past && !o.inherited {
			o.peer.logImpossible("an ACK of data that was not sent")
			return false, nil, nil
		}
		return false, nil, o.takeAck(m.Ack)
	case m.Kind == wire.KindAccept && m.Accept.Epoch == rec.Epoch:
		return false, nil, o.acceptedStored(m.Accept)
	case m.Kind == wire.KindResync && m.Resync.Epoch == rec.Epoch:
		return true, nil, o.rec.renegotiate() // which asks again, and gets the same answer
	case m.Kind == wire.KindRefuse && m.Refuse.Nonce <= rec.Nonce:
		if err := o.rec.halt(); err != nil {
			return true, nil, err
		}
		v, err = o.next.refused(m.Refuse.Error)
		return true, v, err
	case m.Kind == wire.KindCancelled:
		if err := o.rec.halt(); err != nil {
			return true, nil, err
		}
		v, err = o.next.fail(transfer.Errorf(transfer.KindLost, "the destination has withdrawn the transfer"))
		return true, v, err
	}
	return false, nil, nil
}

// shelved records that the store has all of the epoch, and returns the slot.
func (o *Stowing) shelved(p *pump) (*DriveResult, error) {
	failpoint.Hit("sender.before_shelved")
	reason, now := o.awaited(nil), o.cfg.Clock.Now()
	o.next.stopReading()
	o.items.Suspend()
	o.live.setWaiting(0, now.Add(sentRetry))
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Shelved = p.out.sealed.Load()
		rec.Recovering, rec.Crashes = now, 0
		rec.Progress.Reason = reason
		return nil
	}, transfer.Waiting)
	failpoint.Hit("sender.after_shelved")
	return &DriveResult{Reason: reason, Retry: time.Second}, err // it asks once, in case the destination is connected
}

// unshelve ends the transfer's use of the store. The driver calls it, or another goroutine if there is no driver.
func (o *Stowing) unshelve() {
	if !o.stored() || o.cfg.Store == nil {
		return
	}
	o.unpark()
	if rec := o.rec.read(); rec.State.Final() || rec.Cancel {
		for _, at := range append(rec.Shelves, "") {
			o.cfg.Store.Left(at, o.to, o.ID, math.MaxUint32)
		}
	}
}

// far reports whether messages are stored at another queue manager: a destination there may take them while the source
// can reach neither.
func (o *Stowing) far() bool { return o.stored() && o.rec.read().Shelf() != "" }

// endsAtOnce reports whether a cancel needs no answer of another agent.
func (o *Stowing) endsAtOnce(rec *ledger.Source) bool {
	return rec.State == transfer.Parked || rec.Dest == "" && !o.far()
}

// withdrawn removes the messages of a cancelled transfer at another queue manager. It reports whether no agent can take
// them any more: they are removed, and the destination has never answered.
func (o *Stowing) withdrawn(ctx context.Context) bool {
	rec := o.rec.read()
	return o.far() && rec.Dest == "" && o.cfg.Store.Purge(ctx, rec.Shelf(), o.to, o.ID, math.MaxUint32) == nil
}

// unpark ends a pump that waits for room without a slot.
func (o *Stowing) unpark() {
	if p := o.shelving.parked; p != nil {
		o.shelving.parked = nil
		p.stop()
		o.cfg.Store.Unpark()
	}
}
