package sender

import (
	"context"
	"errors"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// run sends in one epoch after another until everything is decided, or the
// conversation breaks. Where it was broken off before, by a ledger that could
// not be written, the epoch is over and another one is asked for.
func (o *Outgoing) run(ctx context.Context) (*Verdict, error) {
	a := o.takeOpening()
	if a == nil {
		return nil, o.renegotiate()
	}
	p := o.startPump(a.Epoch, a.Credit, a.Resume)
	defer func() { p.stop() }()
	heard := o.cfg.Clock.Now()
	tick := o.cfg.Clock.NewTimer(progressEvery)
	defer tick.Stop()
	for {
		ended := p.done
		for m := o.take(); m != nil; m = o.take() {
			now := o.cfg.Clock.Now()
			switch {
			case m.Kind == wire.KindAck && m.Ack.Epoch == p.epoch:
				if why := o.impossible(p, m.Ack); why != "" {
					o.doubt(why)
					continue
				}
				heard = now
				p.acked(m.Ack)
				if err := o.acked(m.Ack); err != nil {
					return nil, err
				}
			case m.Kind == wire.KindResync && m.Resync.Epoch > p.epoch:
				heard = now
				p.stop()
				if err := o.resynced(m.Resync); err != nil {
					return nil, err
				}
				failpoint.Hit("sender.after_resync")
				p = o.startPump(m.Resync.Epoch, m.Resync.Credit, m.Resync.Resume)
			case m.Kind == wire.KindAccept && m.Accept.Nonce == o.Record().Nonce && m.Accept.Epoch > p.epoch:
				o.log.Info("second ACCEPT from the destination; reopening the transfer", "epoch", m.Accept.Epoch)
				return nil, o.renegotiate()
			case m.Kind == wire.KindBusy && m.Busy.Epoch == p.epoch && m.Busy.Place == 0:
				o.log.Info("destination asks to reopen the transfer", "error", m.Busy.Reason)
				return nil, o.renegotiate()
			case m.Kind == wire.KindBusy && m.Busy.Epoch == p.epoch:
				p.stop()
				if err := o.recovering(); err != nil {
					return nil, err
				}
				return o.wait(m.Busy.Reason, m.Busy.Place)
			case m.Kind == wire.KindCancelled:
				p.stop()
				if err := o.renegotiate(); err != nil { // the way from Running to Failed
					return nil, err
				}
				return o.fail(transfer.Errorf(transfer.KindLost, "the destination has withdrawn the transfer"))
			}
			ended = p.done
		}
		if o.State() != transfer.Running {
			return nil, nil // the last outcomes are here
		}
		if o.cancelWanted() {
			p.stop()
			return o.beginCancel()
		}
		if o.takeNudge() {
			o.log.Info("destination restarted; reopening the transfer")
			return nil, o.renegotiate()
		}
		select {
		case <-o.notify:
		case <-ended:
			if err := p.err; err != nil {
				return o.pumpFailed(err)
			}
			p.done = nil // everything is sent; outcomes will come
		case <-tick.C():
			if o.heardSince(heard) {
				heard = o.cfg.Clock.Now()
			}
			if p.silent(heard) {
				o.log.Info("destination silent; reopening the transfer")
				return nil, o.renegotiate()
			}
			if o.overdue() { // epochs come and go, and nothing gets through
				p.stop()
				if err := o.renegotiate(); err != nil {
					return nil, err
				}
				return o.giveUp(transfer.Errorf(transfer.KindUnreachable, "nothing gets through to %s", o.to))
			}
			o.show(false)
			tick.Reset(progressEvery)
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// heardSince reports whether outcomes, which do not pass through the inbox,
// have come since t.
func (o *Outgoing) heardSince(t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live.heard.After(t)
}

// pumpFailed sorts out why sending stopped.
func (o *Outgoing) pumpFailed(err error) (*Verdict, error) {
	var lane *laneError
	broke := errors.As(err, &lane)
	pause := waitRetry
	if broke {
		if pause = o.laneBroke(); pause == 0 {
			o.log.Info("lane broken; reopening the transfer", "error", err)
			return nil, o.renegotiate()
		}
	}
	e := transfer.AsError(err)
	var over *GuardError
	if errors.As(err, &over) { // trying again would find as much
		if err := o.halt(); err != nil {
			return nil, err
		}
		rec := o.Record()
		o.send(cancel(&rec))
		return o.fail(e)
	}
	if err := o.recovering(); err != nil {
		return nil, err
	}
	switch {
	case broke:
		e = transfer.Errorf(transfer.KindUnreachable, "%s cannot send to %s: %w", o.cfg.Agent, o.to, err).
			WithHint("the transfer goes on when the lane carries messages again")
	case !e.Kind.Waits():
		e = transfer.Errorf(transfer.KindBusy, "%s cannot go on: %w", o.cfg.Agent, err)
	}
	if !o.overdue() {
		return o.waitFor(e, 0, pause)
	}
	if err := o.halt(); err != nil {
		return nil, err
	}
	return o.giveUp(e)
}

// halt brings a transfer that is running to where it may fail.
func (o *Outgoing) halt() error {
	if o.State() != transfer.Running {
		return nil
	}
	return o.renegotiate()
}

// laneBroke counts how often the lane has broken with no progress in between.
// After the first time the transfer is opened again at once, as the connection may
// have been lost long ago; after each later one it waits twice as long as after the
// one before, 4 s at most.
func (o *Outgoing) laneBroke() (pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live.breaks++
	if n := o.live.breaks - 2; n >= 0 {
		pause = min(breakFirst<<min(n, 10), waitRetry)
	}
	return pause
}

// recovering notes since when nothing moves, where it is not noted yet.
func (o *Outgoing) recovering() error {
	if rec := o.Record(); !rec.Recovering.IsZero() {
		return nil
	}
	return o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Recovering = o.cfg.Clock.Now()
		return nil
	})
}

// renegotiate goes back to OPEN with a new nonce.
func (o *Outgoing) renegotiate() error {
	return o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Nonce++
		if rec.Recovering.IsZero() {
			rec.Recovering = o.cfg.Clock.Now()
		}
		return nil
	}, transfer.Negotiating)
}

// acked takes in what the destination holds. A new safe point is progress: it
// ends a recovery and forgives crashes. Bytes alone are none, they may have to
// be sent again for ever.
func (o *Outgoing) acked(a *wire.Ack) error {
	o.mu.Lock()
	o.live.held, o.live.ahead = a.Bytes, a.Ahead
	safe := a.Safe != nil && *a.Safe != o.live.safe
	if safe {
		o.live.safe, o.live.breaks = *a.Safe, 0
	}
	rec := o.rec
	o.mu.Unlock()
	if f, ok := o.cfg.Place.(place.Forgetter); ok && safe {
		f.Forget(a.Safe.Offset)
	}
	if safe && (!rec.Recovering.IsZero() || rec.Crashes > 0) {
		return o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
			rec.Recovering, rec.Crashes = time.Time{}, 0
			return nil
		})
	}
	return nil
}

// resynced records the epoch that a RESYNC issued.
func (o *Outgoing) resynced(r *wire.Resync) error {
	o.log.Info("RESYNC received", "epoch", r.Epoch, "error", r.Reason)
	if r.Direct != nil {
		o.mu.Lock()
		a := *o.accept
		a.Direct = r.Direct
		o.accept = &a
		o.mu.Unlock()
	}
	return o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Epoch, rec.Progress.Epoch = r.Epoch, r.Epoch
		rec.Progress.Resumes++
		if rec.Recovering.IsZero() {
			rec.Recovering = o.cfg.Clock.Now()
		}
		return nil
	})
}
