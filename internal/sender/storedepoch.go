package sender

import (
	"context"
	"slices"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The delivery of an epoch into the store.

const (
	fullAfter = 2 * time.Second // then a transfer that finds no room in the store holds no slot
	unlimited = int64(1) << 60  // credit: the store refuses messages that it has no room for
)

// settings returns the settings of a transfer without negotiation.
func (o *StoredDelivery) settings(rec *ledger.Source) transfer.Settings {
	return flow.Negotiate(rec.Request.Settings.Or(o.cfg.Settings), min(o.cfg.MaxChunk, wire.MaxStoredChunk))
}

// beginEpoch begins the next epoch: it purges the store's messages of earlier ones, then records the new one in the
// ledger.
func (o *StoredDelivery) beginEpoch(ctx context.Context, name StoreName, resume *transfer.Resume) (*Verdict, error) {
	rec := o.rec.read()
	epoch := rec.Epoch + 1
	storedFor := rec.StoredFor
	if rec.Epoch == 0 {
		storedFor = name.Ledger
	}
	open, err := o.openMessage(rec, &wire.Shelved{Store: name.Mark, Epoch: epoch, Ledger: storedFor})
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
		o.cfg.Store.Release(rec.Shelf(), o.to, o.ID, epoch)
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
		rec.Shelved, rec.StoredFor = 0, storedFor
		if rec.Shelf() != name.At {
			rec.Shelves = append(slices.DeleteFunc(slices.Clone(rec.Shelves), func(at string) bool { return at == name.At }), name.At)
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
func (o *StoredDelivery) message(_ *sending, m *wire.Message) (over bool, v *Verdict, err error) {
	rec := o.rec.read()
	switch {
	case m.Kind == wire.KindAck && m.Ack.Epoch == rec.Epoch:
		if bytes, past := o.live.cannotBe(m.Ack); bytes || past && !o.inherited {
			o.peer.doubt("an ACK of data that was not sent")
			return false, nil, nil
		}
		return false, nil, o.takeAck(m.Ack)
	case m.Kind == wire.KindAccept && m.Accept.Epoch == rec.Epoch:
		return false, nil, o.accepted(m.Accept)
	case !o.decisive(rec, m):
		return false, nil, nil
	case m.Kind == wire.KindResync:
		return true, nil, o.rec.renegotiate() // which asks again, and gets the same answer
	}
	v, err = o.ended(m, "the destination")
	return true, v, err
}

// look tells the destination, if it is connected, once the store has the first message.
func (o *StoredDelivery) look(s *sending) (over bool, err error) {
	if s.hinted || !s.out.opened.Load() {
		return false, nil
	}
	s.hinted = true
	return false, o.hint()
}

// tick watches whether the store has room, and repeats the hint to the destination.
func (o *StoredDelivery) tick(s *sending) (over bool, v *Verdict, err error) {
	now := o.cfg.Clock.Now()
	why, since := waitsForRoom(s.out)
	full := why != nil && now.Sub(since) >= fullAfter
	switch {
	case full && o.rec.overdue():
		s.stop()
		if err := o.rec.halt(); err != nil {
			return true, nil, err
		}
		v, err = o.next.giveUp(why)
		return true, v, err
	case full && o.cfg.Store.BeginWait():
		s.kept, o.waiting = true, s.pump
		v, err = o.waitForRoom(why)
		return true, v, err
	case full || why == nil:
		if err := o.showRoom(why); err != nil {
			return true, nil, err
		}
	}
	if why == nil {
		if err := o.rec.progressed(); err != nil {
			return true, nil, err
		}
	}
	if now.Sub(s.last) >= sentRetry {
		s.last = now
		err = o.hint()
	}
	return false, nil, err
}

// showRoom shows why a transfer that has kept its slot stores no messages. Later it shows that the transfer has
// resumed.
func (o *StoredDelivery) showRoom(why *transfer.Error) error {
	switch shown := o.rec.read().Progress.Reason; {
	case (why == nil) == (shown == nil):
		return nil
	case why != nil:
		return o.stands(why)
	}
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = nil
		return nil
	})
}

// hint sends OPEN to a destination that is connected, as a hint that the store has messages for it.
func (o *StoredDelivery) hint() error {
	rec := o.rec.read()
	open, err := o.openMessage(rec, &wire.Shelved{Store: o.store.Mark, Epoch: rec.Epoch, Ledger: rec.StoredFor})
	if err == nil {
		o.peer.tell(open)
	}
	return err
}

// waitForRoom returns the slot; the pump stays where it is.
func (o *StoredDelivery) waitForRoom(why *transfer.Error) (*Verdict, error) {
	if !why.Kind.Waits() {
		why = o.noStore(why)
	}
	o.live.waits(0, o.cfg.Clock.Now().Add(waitRetry))
	return &Verdict{Reason: why, Retry: waitRetry}, o.stands(why, transfer.Waiting)
}

// sent records that the store has all of the epoch, and returns the slot.
func (o *StoredDelivery) sent(s *sending) (over bool, v *Verdict, err error) {
	failpoint.Hit("sender.before_shelved")
	reason, now := o.awaited(nil), o.cfg.Clock.Now()
	o.next.stopReading()
	o.items.Rest()
	o.live.waits(0, now.Add(sentRetry))
	err = o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Shelved = s.out.sealed.Load()
		rec.Recovering, rec.Crashes = now, 0
		rec.Progress.Reason = reason
		return nil
	}, transfer.Waiting)
	failpoint.Hit("sender.after_shelved")
	return true, &Verdict{Reason: reason, Retry: time.Second}, err // it asks once, in case the destination is connected
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
