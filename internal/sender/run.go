package sender

import (
	"context"
	"errors"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A delivery decides the meaning of events while an epoch is being sent.
//
//	event           fast delivery                        stored delivery
//	ACK             acknowledges messages, gives credit  shows progress at the destination
//	RESYNC          begins the destination's next epoch  makes this side begin the next epoch
//	BUSY, silence   ends the epoch                       the destination may be away
//	no room         there is none without credit         the transfer waits, later without a slot
//	all sent        the epoch stays open for outcomes    the transfer waits without a slot
type delivery interface {
	message(s *sending, m *wire.Message) *over
	look(s *sending) *over // after the messages
	tick(s *sending) *over // once a second
	sent(s *sending) *over // the pump has ended without an error
}

// An over ends a run; nil: it goes on.
type over struct {
	v   *DriveResult
	err error
}

// ends returns the end of a run, and failed only if there is an error.
func ends(v *DriveResult, err error) *over { return &over{v, err} }

func failed(err error) *over {
	if err == nil {
		return nil
	}
	return &over{err: err}
}

// A sending is the state of a run.
type sending struct {
	*pump

	// Of stored delivery alone.
	told   time.Time // when the destination got the last hint
	hinted bool      // it got the first hint of the run
	kept   bool      // the pump is to outlast the run
}

// run sends epoch after epoch until everything is decided or stored, or the conversation breaks. If an earlier run of
// it broke off, because the ledger could not be written, the epoch is over and run asks for another one.
func (o *Outgoing) run(ctx context.Context) (*DriveResult, error) {
	now := o.cfg.Clock.Now()
	s := sending{pump: o.store.takeWaiting(), told: now}
	var d delivery = &fast{o, now}
	if o.stored() {
		d = o.store
	}
	if s.pump == nil {
		a := o.opening
		if o.opening = nil; a == nil { // an epoch is never sent twice from its first message
			return nil, o.rec.renegotiate()
		}
		s.pump = o.startPump(a.Epoch, a.Credit, a.Resume)
	}
	defer func() {
		if !s.kept {
			s.stop()
		}
	}()

	tick := o.cfg.Clock.NewTimer(progressEvery)
	defer tick.Stop()
	for {
		ended := s.done
		for m := o.in.take(); m != nil; m = o.in.take() {
			if e := d.message(&s, m); e != nil {
				return e.v, e.err
			}
			ended = s.done
		}
		if o.rec.state() != transfer.Running {
			return nil, nil // the last outcomes are here
		}
		if o.rec.cancelled() {
			s.stop()
			return o.beginCancel()
		}
		if e := d.look(&s); e != nil {
			return e.v, e.err
		}
		select {
		case <-o.driver:
		case <-ended:
			if s.err != nil && ctx.Err() != nil {
				return nil, nil
			}
			if s.err != nil {
				return o.pumpFailed(s.err)
			}
			s.done = nil
			if e := d.sent(&s); e != nil {
				return e.v, e.err
			}
		case <-tick.C():
			if e := d.tick(&s); e != nil {
				return e.v, e.err
			}
			o.shown.show(false)
			tick.Reset(progressEvery)
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// A fast delivery needs the destination: it acknowledges all data.
type fast struct {
	o     *Outgoing
	heard time.Time // when the destination was heard last
}

func (d *fast) message(s *sending, m *wire.Message) *over {
	o, epoch := d.o, s.out.epoch
	switch {
	case m.Kind == wire.KindAck && m.Ack.Epoch == epoch:
		if why := o.checkAck(s.out, m.Ack); why != "" {
			o.peer.logImpossible(why)
			return nil
		}
		d.heard = o.cfg.Clock.Now()
		s.out.acked(m.Ack)
		return failed(o.takeAck(m.Ack))
	case m.Kind == wire.KindResync && m.Resync.Epoch > epoch:
		d.heard = o.cfg.Clock.Now()
		s.stop()
		if err := o.resynced(m.Resync); err != nil {
			return failed(err)
		}
		failpoint.Hit("sender.after_resync")
		s.pump = o.startPump(m.Resync.Epoch, m.Resync.Credit, m.Resync.Resume)
	case m.Kind == wire.KindAccept && m.Accept.Nonce == o.rec.read().Nonce && m.Accept.Epoch > epoch:
		o.log.Info("second ACCEPT from the destination; reopening the transfer", "epoch", m.Accept.Epoch)
		return ends(nil, o.rec.renegotiate())
	case m.Kind == wire.KindBusy && m.Busy.Epoch == epoch && m.Busy.Place == 0:
		o.log.Info("destination asks to reopen the transfer", "error", m.Busy.Reason)
		return ends(nil, o.rec.renegotiate())
	case m.Kind == wire.KindBusy && m.Busy.Epoch == epoch:
		s.stop()
		if err := o.rec.recovering(); err != nil {
			return failed(err)
		}
		return ends(o.wait(m.Busy.Reason, m.Busy.Place))
	case m.Kind == wire.KindCancelled:
		s.stop()
		if err := o.rec.renegotiate(); err != nil { // the moves from Running to Failed
			return failed(err)
		}
		return ends(o.fail(transfer.Errorf(transfer.KindLost, "the destination has withdrawn the transfer")))
	}
	return nil
}

func (d *fast) look(*sending) *over {
	if !d.o.in.takeRestart() {
		return nil
	}
	d.o.log.Info("destination restarted; reopening the transfer")
	return ends(nil, d.o.rec.renegotiate())
}

func (d *fast) tick(s *sending) *over {
	o := d.o
	if o.live.recordedSince(d.heard) {
		d.heard = o.cfg.Clock.Now()
	}
	if s.out.keepalive.check(s.out); s.out.silent(d.heard) {
		o.log.Info("destination silent; reopening the transfer")
		return ends(nil, o.rec.renegotiate())
	}
	if o.rec.overdue() { // epochs begin and end without progress
		s.stop()
		if err := o.rec.renegotiate(); err != nil {
			return failed(err)
		}
		return ends(o.giveUp(transfer.Errorf(transfer.KindUnreachable, "nothing gets through to %s", o.to)))
	}
	s.out.keepalive.send(s.out)
	return nil
}

func (d *fast) sent(*sending) *over { return nil } // outcomes will come

// startPump sends an epoch.
func (o *Outgoing) startPump(epoch uint32, credit int64, resume transfer.Resume) *pump {
	p := o.newPump(epoch, credit, resume)
	if !o.store.opens(p) {
		o.live.granted(credit)
	}
	startPumping(p, resume)
	return p
}

// newPump returns the pump of an epoch. It does not start it.
func (o *Outgoing) newPump(epoch uint32, credit int64, resume transfer.Resume) *pump {
	ctx, cancel := context.WithCancel(context.Background())
	rec := o.rec.read()
	chunk := rec.Progress.Settings.ChunkSize
	s := &stream{parts: o.parts, epoch: epoch, ctx: ctx, pacer: &o.pumpState.pacer, epochLane: epochLane{took: o.answer}, b: wire.NewBuilder(chunk, o.cfg.Memory), chunk: chunk, rate: rec.Request.Rate}
	s.credit.raise(credit)
	p := &pump{parts: o.parts, out: s, state: &o.pumpState, accept: o.accept, cancel: cancel, done: make(chan struct{}),
		asked: o.cfg.walks().Reader(rec), task: walk.Task{Arg: -1}, resume: map[uint64]transfer.Point{}}
	p.compressor = newCompressor(o.cfg.Encoders, rec.Request.Compress, chunk)
	for _, pt := range resume.Points {
		p.resume[pt.Item] = pt
	}

	return p
}

// pumpFailed handles the error that stopped the pump.
func (o *Outgoing) pumpFailed(err error) (*DriveResult, error) {
	var lane *laneError
	broke := errors.As(err, &lane)
	pause := waitRetry
	if broke {
		if pause = o.laneBroke(); pause == 0 {
			o.log.Info("lane broken; reopening the transfer", "error", err)
			return nil, o.rec.renegotiate()
		}
	}

	e := transfer.AsError(err)
	var over *walk.GuardError
	if errors.As(err, &over) || e.Kind == transfer.KindLost { // another attempt would find as much
		if err := o.rec.halt(); err != nil {
			return nil, err
		}
		return withdraw(o, e)
	}
	if err := o.rec.recovering(); err != nil {
		return nil, err
	}

	switch {
	case broke:
		e = transfer.Errorf(transfer.KindUnreachable, "%s cannot send to %s: %w", o.cfg.Agent, o.to, err).
			WithHint("the transfer goes on when the lane carries messages again")
	case !e.Kind.Waits():
		e = transfer.Errorf(transfer.KindBusy, "%s cannot go on: %w", o.cfg.Agent, err)
	}

	if !o.rec.overdue() {
		return o.waitFor(e, 0, pause)
	}
	if err := o.rec.halt(); err != nil {
		return nil, err
	}
	return o.giveUp(e)
}

// laneBroke counts the breaks of the lane without progress in between, and returns the pause. After the first break the
// transfer is opened again at once, as the connection may have been lost long ago. After each later one it waits twice
// as long as before, 4 s at most.
func (o *Outgoing) laneBroke() (pause time.Duration) {
	if n := o.live.broke() - 2; n >= 0 {
		pause = min(breakFirst<<min(n, 10), waitRetry)
	}
	return pause
}

// resynced records the epoch that a RESYNC issued.
func (o *Outgoing) resynced(r *wire.Resync) error {
	o.log.Info("RESYNC received", "epoch", r.Epoch, "error", r.Reason)
	if r.Direct != nil {
		a := *o.accept
		a.Direct = r.Direct
		o.accept = &a
	}
	return o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Epoch, rec.Progress.Epoch = r.Epoch, r.Epoch
		rec.Progress.Resumes++
		setNoProgress(rec, o.cfg.Clock.Now())
		return nil
	})
}

// checkAck returns the reason why an ACK is impossible: it refers to messages, credit or bytes that do not exist.
// Otherwise it returns "".
func (o *Outgoing) checkAck(s *stream, a *wire.Ack) (why string) {
	bytes, past := o.live.checkAck(a)
	switch {
	case max(a.Seq, a.Here) > s.sealed.Load():
		return "an ACK of messages that were not sent"
	case a.Credit > s.credit.used()+wire.MaxAhead:
		return "an ACK with more credit than there is"
	case bytes:
		return "an ACK of bytes that were not sent"
	case past && !o.inherited && !o.rec.decided(a.Safe.Item): // asked last: a decided item is forgotten after that
		return "an ACK with a safe point that was not sent"
	}
	return ""
}
