package sender

import (
	"context"
	"math"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31) has the pump and the run of fast delivery, and a lane of its own. It differs where the
// destination may be away. The source opens against the queue manager's store: it issues the epoch and puts OPEN and the
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
	openMessage(rec *ledger.Source, a *walk.Reader, goes walk.Course) (*wire.Message, error)
	beginEpoch(a *wire.Accept, change func(t *ledger.Tx, rec *ledger.Source) error) (*Verdict, error)
}

// Stored returns the stored delivery of a transfer.
func Stored(o *Outgoing) *StoredDelivery { return o.store }

// Complete reports whether all messages of the transfer are in the store.
func (o *StoredDelivery) Complete() bool { return o.rec.read().Shelved > 0 && o.stored() }

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
		if bytes, past := o.live.cannotBe(m.Ack); (bytes || past) && !o.inherited {
			o.peer.doubt("an ACK of data that was not sent")
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
func (o *StoredDelivery) ended(m *wire.Message, by string) (*Verdict, error) {
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

// AskAgain returns after how long a destination that has not taken everything is asked again.
func (o *StoredDelivery) AskAgain() time.Duration { return o.rec.left(sentRetry) }

// AwaitDestination shows that a transfer without a driver waits for a destination that is away. It reports true if the
// recovery time-out is over and the transfer has failed.
func (o *StoredDelivery) AwaitDestination() (ended bool, err error) {
	rec := o.rec.read()
	if !o.rec.overdue() && rec.Progress.Reason != nil && rec.Progress.Reason.Kind == transfer.KindUnreachable {
		o.live.waits(0, o.cfg.Clock.Now().Add(o.AskAgain()))
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
	err = o.stands(o.awaited(nil))
	o.shown.show(true)
	return false, err
}

// stands records that the transfer makes no progress, with the reason, and moves it.
func (o *StoredDelivery) stands(why *transfer.Error, to ...transfer.State) error {
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		standStill(rec, o.cfg.Clock.Now())
		rec.Progress.Reason = why
		return nil
	}, to...)
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
func (o *StoredDelivery) negotiate(ctx context.Context) (*Verdict, error) {
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
		case rec.Shelved > 0:
			return o.next.waitFor(o.awaited(said.why), 0, o.AskAgain())
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

// A storedStatus is the destination's answer about the epoch in the store; without any field, the destination gave none.
type storedStatus struct {
	verdict *Verdict         // the transfer has ended
	resume  *transfer.Resume // the points where the next epoch is to resume
	why     *transfer.Error  // it has the epoch, or waits
}

// ask asks the destination for the status of the epoch.
func (o *StoredDelivery) ask(ctx context.Context, rec *ledger.Source, mark string) (s storedStatus, err error) {
	open, err := o.openMessage(rec, &wire.Shelved{Store: mark, Epoch: rec.Epoch, Last: rec.Shelved, Ledger: rec.StoredFor, Again: rec.Shelved == 0})
	if err != nil {
		return s, err
	}

	end := o.cfg.Clock.Now().Add(askStored + 2*o.peer.slack(nil))
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
		if o.in.takeNudge() {
			timer.Reset(0)
		}
		select {
		case <-timer.C():
			if !o.cfg.Clock.Now().Before(end) {
				return s, nil
			}
			o.peer.tell(open)
			failpoint.Hit("sender.after_open")
			timer.Reset(repeatFirst + o.peer.slack(nil))
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
		return rec.Shelved > 0 && m.Accept.Nonce == rec.Nonce, s, nil
	case m.Kind == wire.KindBusy && m.Busy.Nonce == rec.Nonce:
		s.why = m.Busy.Reason
		if m.Busy.Program {
			err = o.rec.programRuns(o.cfg.Clock.Now())
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
func (o *StoredDelivery) openMessage(rec *ledger.Source, stored *wire.Shelved) (*wire.Message, error) {
	a := o.cfg.walks().Reader(rec)
	goes, err := o.cfg.walks().Course(a)
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

// leave ends the transfer's use of the store. The driver calls it, or another goroutine if there is no driver.
func (o *StoredDelivery) leave() {
	if !o.stored() || o.cfg.Store == nil {
		return
	}
	o.stopWaiting()
	if rec := o.rec.read(); rec.State.Final() || rec.Cancel {
		for _, at := range append(rec.Shelves, "") {
			o.cfg.Store.Release(at, o.to, o.ID, math.MaxUint32)
		}
	}
}

// far reports whether messages are stored at another queue manager: a destination there may take them while the source
// can reach neither.
func (o *StoredDelivery) far() bool { return o.stored() && o.rec.read().Shelf() != "" }

// endsAtOnce reports whether a cancel needs no answer of another agent.
func (o *StoredDelivery) endsAtOnce(rec *ledger.Source) bool {
	return rec.State == transfer.Parked || rec.Dest == "" && !o.far()
}

// withdrawn removes the messages of a cancelled transfer at another queue manager. It reports whether no agent can take
// them any more: they are removed, and the destination has never answered.
func (o *StoredDelivery) withdrawn(ctx context.Context) bool {
	rec := o.rec.read()
	return o.far() && rec.Dest == "" && o.cfg.Store.Purge(ctx, rec.Shelf(), o.to, o.ID, math.MaxUint32) == nil
}
