package sender

import (
	"context"
	"math"
	"slices"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31) has the pump and the run of fast delivery, and a lane of its own. It differs where the
// destination may be away. The source opens against the queue manager's store: it issues the epoch and puts OPEN and
// the chunk messages there. Once the store has them all, the transfer waits without a slot until outcomes come. The
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

// A StoredDelivery is the delivery of a transfer through the store: its epochs there, and the questions to its
// destination about them.
type StoredDelivery struct {
	parts
	in        *inbox
	outcomes  *recorder
	inherited bool // an earlier run had sent some items
	next      driver
	with      opener

	head    []byte    // the OPEN of an epoch that is in the ledger and has not begun
	store   StoreName // the store of that epoch
	waiting *pump     // waits for room, without a slot
}

// An opener makes the OPENs and the epochs of a transfer.
type opener interface {
	openMessage(rec *ledger.Source, a *walk.Reader, goes walk.CommonDest) (*wire.Message, error)
	beginEpoch(a *wire.Accept, change func(t *ledger.Tx, rec *ledger.Source) error) (*DriveResult, error)
}

// Stored returns the stored delivery of a transfer.
func Stored(o *Outgoing) *StoredDelivery { return o.store }

// late handles the destination's messages for a transfer that waits.
func (o *StoredDelivery) late(m *wire.Message) {
	if !o.stored() {
		return
	}
	switch rec := o.rec.read(); {
	case o.decisive(rec, m):
		o.in.deliver(m) // the next driver of the transfer reads it
	case accepts(rec, m):
		if err := o.accepted(m.Accept); err != nil {
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

// accepts reports whether a message accepts the present epoch. It may answer the OPEN in the store, which is older than
// the last one.
func accepts(rec *ledger.Source, m *wire.Message) bool {
	return m.Kind == wire.KindAccept && m.Accept.Epoch == rec.Epoch && m.Accept.Nonce <= rec.Nonce
}

// decisive reports whether a message ends the epoch, or the transfer. A REFUSE may answer the OPEN in the store, too.
func (o *StoredDelivery) decisive(rec *ledger.Source, m *wire.Message) bool {
	return m.Kind == wire.KindResync && m.Resync.Epoch == rec.Epoch || m.Kind == wire.KindRefuse && m.Refuse.Nonce <= rec.Nonce || m.Kind == wire.KindCancelled
}

// ended ends the transfer after a decisive message that is no RESYNC. by names the destination.
func (o *StoredDelivery) ended(m *wire.Message, by string) (*DriveResult, error) {
	if err := o.rec.halt(); err != nil {
		return nil, err
	}
	if m.Kind == wire.KindRefuse {
		return o.next.refused(m.Refuse.Error)
	}
	return o.next.fail(transfer.Errorf(transfer.KindLost, "%s has withdrawn the transfer", by))
}

// Wants reports whether a message that came while the transfer waited is a reason to drive it at once.
func (o *StoredDelivery) Wants(m *wire.Message) bool {
	return o.stored() && o.decisive(o.rec.read(), m)
}

// askAgain returns after how long a destination that has not taken everything is asked again.
func (o *StoredDelivery) askAgain() time.Duration { return o.rec.left(sentRetry) }

// awaited returns the reason for the wait of a transfer that is all in the store. why is the destination's reason; nil:
// it gave none.
func (o *StoredDelivery) awaited(why *transfer.Error) *transfer.Error {
	if why == nil {
		why = o.outcomes.unrecorded()
	}
	if why == nil {
		return transfer.Errorf(transfer.KindUnreachable, "sent: everything is stored at the queue manager, and %s has yet to take it", o.to).
			WithHint("nothing is left to do here; it ends when the agent has been there")
	}
	return transfer.Errorf(why.Kind, "sent: everything is stored at the queue manager; %s", why.Text).WithHint(why.Hint)
}

// negotiate asks for the status of the epoch in the store, and begins the next one if it is needed.
func (o *StoredDelivery) negotiate(ctx context.Context) (*DriveResult, error) {
	if o.cfg.Store == nil {
		return o.next.fail(transfer.Errorf(transfer.KindUsage, "%s has no stored delivery", o.cfg.Agent))
	}
	if o.rec.cancelled() {
		return o.next.beginCancel()
	}
	if o.waiting != nil {
		if name, err := o.cfg.Store.Store(ctx, o.to); err != nil || name.Mark == o.store.Mark && name.At == o.store.At {
			return nil, o.rec.update(nil, transfer.Running)
		}
		o.stopWaiting() // the destination has moved: messages still to be stored there are of no use
	}

	failpoint.Hit("sender.before_open")
	rec := o.rec.read()
	if o.rec.overdue() {
		return o.next.giveUp(rec.Progress.Reason)
	}
	if rec.Epoch == 0 {
		if err := o.cfg.Store.Reaches(ctx, o.to); err != nil {
			return o.next.fail(transfer.AsError(err))
		}
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
		said, err := o.ask(ctx, rec, name.Mark)
		if err != nil || said.verdict != nil || o.rec.state() != transfer.Negotiating || ctx.Err() != nil {
			return said.verdict, err
		}
		switch {
		case said.resume != nil:
			resume = said.resume
		case rec.LastStored > 0:
			return o.next.waitFor(o.awaited(said.why), 0, o.askAgain())
		case said.why != nil:
			return o.next.wait(said.why, 0)
		}
	}
	return o.beginEpoch(ctx, name, resume)
}

// noStore returns a reason to wait for a queue manager that has no store at present.
func (o *StoredDelivery) noStore(err error) *transfer.Error {
	e := transfer.AsError(err)
	if e.Kind.Waits() {
		return e
	}
	return transfer.Errorf(transfer.KindBusy, "%s cannot use the store of its queue manager: %w", o.cfg.Agent, err).
		WithHint("the transfer goes on when the queue manager is there")
}

// A storedStatus is the destination's answer about the epoch in the store; without any field, the destination gave
// none.
type storedStatus struct {
	verdict *DriveResult     // the transfer has ended
	resume  *transfer.Resume // the points where the next epoch is to resume
	why     *transfer.Error  // it has the epoch, or waits
}

// ask asks the destination for the status of the epoch.
func (o *StoredDelivery) ask(ctx context.Context, rec *ledger.Source, mark string) (s storedStatus, err error) {
	open, err := o.openMessage(rec, &wire.StoredState{Store: mark, Epoch: rec.Epoch, Last: rec.LastStored, Ledger: rec.StoredFor, Again: rec.LastStored == 0})
	if err != nil {
		return s, err
	}

	end := o.cfg.Clock.Now().Add(askStored + 2*o.peer.extraWait(nil))
	timer := o.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		if m := o.in.take(); m != nil {
			done, s, err := o.answered(rec, m)
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

// answered handles an answer; done reports that the message is one.
func (o *StoredDelivery) answered(rec *ledger.Source, m *wire.Message) (done bool, s storedStatus, err error) {
	switch {
	case accepts(rec, m):
		if err := o.accepted(m.Accept); err != nil {
			return true, s, err
		}
		s.why = transfer.Errorf(transfer.KindBusy, "%s takes it from there", o.to)
		return rec.LastStored > 0 && m.Accept.Nonce == rec.Nonce, s, nil
	case m.Kind == wire.KindBusy && m.Busy.Nonce == rec.Nonce:
		s.why = m.Busy.Reason
		if m.Busy.Program {
			_, err = o.rec.programRuns(o.cfg.Clock.Now())
		}
		return true, s, err
	case !o.decisive(rec, m):
		return false, s, nil
	case m.Kind == wire.KindResync:
		o.log.Info("RESYNC received", "epoch", m.Resync.Epoch, "error", m.Resync.Reason)
		s.resume = &m.Resync.Resume
		return true, s, nil
	}
	s.verdict, err = o.ended(m, string(o.to))
	return true, s, err
}

// accepted records the ledger of the destination that has accepted, once.
func (o *StoredDelivery) accepted(a *wire.Accept) error {
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

// openMessage returns the OPEN of an epoch, for the store or for the destination.
func (o *StoredDelivery) openMessage(rec *ledger.Source, stored *wire.StoredState) (*wire.Message, error) {
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
	m.Open.Request.Settings = o.settings(rec)
	m.Open.Stored = stored
	m.From, m.Transfer = o.cfg.Agent, o.ID
	return m, nil
}

// settings returns the settings of a transfer without negotiation.
func (o *StoredDelivery) settings(rec *ledger.Source) transfer.Settings {
	return flow.Negotiate(rec.Request.Settings.Or(o.cfg.Settings), min(o.cfg.MaxChunk, wire.MaxStoredChunk))
}

// beginEpoch begins the next epoch: it purges the store's messages of earlier ones, then records the new one in the
// ledger.
func (o *StoredDelivery) beginEpoch(ctx context.Context, name StoreName, resume *transfer.Resume) (*DriveResult, error) {
	rec := o.rec.read()
	epoch := rec.Epoch + 1
	storedFor := rec.StoredFor
	if rec.Epoch == 0 {
		storedFor = name.Ledger
	}
	open, err := o.openMessage(rec, &wire.StoredState{Store: name.Mark, Epoch: epoch, Ledger: storedFor})
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
	if rec.Epoch > 0 && rec.Store() != name.At { // the destination has moved, and no agent reads there any more
		o.cfg.Store.Release(rec.Store(), o.to, o.ID, epoch)
	} else if rec.Epoch > 0 {
		if err := o.cfg.Store.Purge(ctx, name.At, o.to, o.ID, epoch); err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			return o.next.wait(o.noStore(err), 0)
		}
	}
	failpoint.Hit("sender.after_purge")

	a := &wire.Accept{Epoch: epoch, Settings: o.settings(rec), Lane: transfer.LaneQueue, LaneReason: laneStored, Credit: unlimited, Resume: *resume}
	v, err := o.with.beginEpoch(a, func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.LastStored, rec.StoredFor = 0, storedFor
		if rec.Store() != name.At {
			rec.Stores = append(slices.DeleteFunc(slices.Clone(rec.Stores), func(at string) bool { return at == name.At }), name.At)
		}
		return nil
	})
	if v == nil && err == nil {
		o.head, o.store = data, name
	}
	return v, err
}

// opens makes OPEN the first message of an epoch that goes into the store. It reports false for any other epoch.
func (o *StoredDelivery) opens(p *pump) bool {
	if !o.stored() {
		return false
	}
	p.accept, p.out.head = &wire.Accept{}, o.head
	o.head = nil
	return true
}

// message handles the destination's messages about an epoch that is not all in the store yet.
func (o *StoredDelivery) message(_ *sending, m *wire.Message) *over {
	rec := o.rec.read()
	switch {
	case m.Kind == wire.KindAck && m.Ack.Epoch == rec.Epoch:
		if bytes, past := o.live.checkAck(m.Ack); bytes || past && !o.inherited {
			o.peer.logImpossible("an ACK of data that was not sent")
			return nil
		}
		return failed(o.takeAck(m.Ack))
	case m.Kind == wire.KindAccept && m.Accept.Epoch == rec.Epoch:
		return failed(o.accepted(m.Accept))
	case !o.decisive(rec, m):
		return nil
	case m.Kind == wire.KindResync:
		return ends(nil, o.rec.renegotiate()) // which asks again, and gets the same answer
	}
	return ends(o.ended(m, "the destination"))
}

// look tells the destination, if it is connected, once the store has the first message.
func (o *StoredDelivery) look(s *sending) *over {
	if s.hinted || !s.out.opened.Load() {
		return nil
	}
	s.hinted = true
	return failed(o.hint())
}

// tick watches whether the store has room, and repeats the hint to the destination.
func (o *StoredDelivery) tick(s *sending) *over {
	now := o.cfg.Clock.Now()
	why, since := waitsForRoom(s.out)
	full := why != nil && now.Sub(since) >= fullAfter
	var err error
	switch {
	case full && o.rec.overdue():
		s.stop()
		if err := o.rec.halt(); err != nil {
			return failed(err)
		}
		return ends(o.next.giveUp(why))
	case full && o.cfg.Store.BeginWait():
		s.kept, o.waiting = true, s.pump
		return ends(o.waitForRoom(why))
	case full || why == nil:
		err = o.showRoom(why)
	}
	if err == nil && why == nil {
		err = o.rec.progressed()
	}
	if err == nil && now.Sub(s.told) >= sentRetry {
		s.told = now
		err = o.hint()
	}
	return failed(err)
}

// showRoom shows why a transfer that has kept its slot stores no messages. Later it shows that the transfer has
// resumed.
func (o *StoredDelivery) showRoom(why *transfer.Error) error {
	switch shown := o.rec.read().Progress.Reason; {
	case (why == nil) == (shown == nil):
		return nil
	case why != nil:
		return o.rec.stands(why)
	}
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = nil
		return nil
	})
}

// hint sends OPEN to a destination that is connected, as a hint that the store has messages for it.
func (o *StoredDelivery) hint() error {
	rec := o.rec.read()
	open, err := o.openMessage(rec, &wire.StoredState{Store: o.store.Mark, Epoch: rec.Epoch, Ledger: rec.StoredFor})
	if err == nil {
		o.peer.tell(open)
	}
	return err
}

// waitForRoom returns the slot; the pump stays where it is.
func (o *StoredDelivery) waitForRoom(why *transfer.Error) (*DriveResult, error) {
	if !why.Kind.Waits() {
		why = o.noStore(why)
	}
	o.live.setWaiting(0, o.cfg.Clock.Now().Add(waitRetry))
	return &DriveResult{Reason: why, Retry: waitRetry}, o.rec.stands(why, transfer.Waiting)
}

// sent records that the store has all of the epoch, and returns the slot.
func (o *StoredDelivery) sent(s *sending) *over {
	failpoint.Hit("sender.before_shelved")
	reason, now := o.awaited(nil), o.cfg.Clock.Now()
	o.next.stopReading()
	o.items.Suspend()
	o.live.setWaiting(0, now.Add(sentRetry))
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.LastStored = s.out.sealed.Load()
		rec.Recovering, rec.Crashes = now, 0
		rec.Progress.Reason = reason
		return nil
	}, transfer.Waiting)
	failpoint.Hit("sender.after_shelved")
	return ends(&DriveResult{Reason: reason, Retry: time.Second}, err) // it asks once, in case the destination is connected
}

// takeWaiting returns the pump that waits for room, for a run of its epoch with a slot; nil: none waits.
func (o *StoredDelivery) takeWaiting() *pump {
	p := o.waiting
	if o.waiting = nil; p != nil {
		o.cfg.Store.EndWait()
	}
	return p
}

// stopWaiting ends a pump that waits for room without a slot.
func (o *StoredDelivery) stopWaiting() {
	if p := o.takeWaiting(); p != nil {
		p.stop()
	}
}

// leave ends the transfer's use of the store. The driver calls it, or another goroutine if there is no driver.
func (o *StoredDelivery) leave() {
	if !o.stored() || o.cfg.Store == nil {
		return
	}
	o.stopWaiting()
	if rec := o.rec.read(); rec.State.Final() || rec.Cancel {
		for _, at := range append(rec.Stores, "") {
			o.cfg.Store.Release(at, o.to, o.ID, math.MaxUint32)
		}
	}
}

// far reports whether messages are stored at another queue manager: a destination there may take them while the source
// can reach neither.
func (o *StoredDelivery) far() bool { return o.stored() && o.rec.read().Store() != "" }

// endsAtOnce reports whether a cancel needs no answer of another agent.
func (o *StoredDelivery) endsAtOnce(rec *ledger.Source) bool {
	return rec.State == transfer.Parked || rec.Dest == "" && !o.far()
}

// withdrawn removes the messages of a cancelled transfer at another queue manager. It reports whether no agent can take
// them any more: they are removed, and the destination has never answered.
func (o *StoredDelivery) withdrawn(ctx context.Context) bool {
	rec := o.rec.read()
	return o.far() && rec.Dest == "" && o.cfg.Store.Purge(ctx, rec.Store(), o.to, o.ID, math.MaxUint32) == nil
}
