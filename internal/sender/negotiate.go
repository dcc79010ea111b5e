package sender

import (
	"context"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// negotiate repeats OPEN until it is answered. Without an answer the transfer waits.
func (o *Outgoing) negotiate(ctx context.Context) (*DriveResult, error) {
	failpoint.Hit("sender.before_open")
	rec := o.rec.read()
	a, goes := o.cfg.walks().Reader(rec), walk.CommonDest{}
	if rec.Dest == "" {
		var err error
		if goes, err = o.cfg.walks().CommonDest(a); err != nil {
			return nil, err
		}
	}

	open, err := o.openMessage(rec, a, goes)
	if err != nil {
		return nil, err
	}

	start := o.cfg.Clock.Now()
	pause := repeatFirst
	timer := o.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	var unsent error // why the last OPEN did not leave this host
	for {
		if m := o.in.take(); m != nil {
			done, v, err := o.answered(rec, open.Open, m)
			if done {
				o.answer = o.cfg.Clock.Now().Sub(start)
				return v, err
			}
			if now := o.rec.read(); now.Targets != rec.Targets {
				if rec = now; rec.State != transfer.Negotiating {
					return nil, nil
				}
				if open, err = o.openMessage(rec, a, goes); err != nil {
					return nil, err
				}
				start, pause = o.cfg.Clock.Now(), repeatFirst
				timer.Reset(0)
			}
			continue
		}
		if o.rec.cancelled() {
			return o.beginCancel()
		}
		if o.in.takeRestart() {
			timer.Reset(0)
		}
		select {
		case <-timer.C():
			if pause > repeatFirst && o.rec.overdue() { // after its first attempts
				return o.giveUp(rec.Progress.Reason)
			}
			if o.cfg.Clock.Now().Sub(start) >= noAnswer+2*o.peer.extraWait(unsent) {
				return o.wait(o.silence(unsent), 0)
			}
			unsent = o.peer.tell(open)
			failpoint.Hit("sender.after_open")
			timer.Reset(pause + o.peer.extraWait(unsent))
			pause = min(2*pause, repeatMost)
		case <-o.driver:
		case <-ctx.Done():
			return nil, nil
		}
		if o.rec.state() != transfer.Negotiating {
			return nil, nil // the last outcomes came in the meantime
		}
	}
}

// silence returns the reason to wait after an unanswered OPEN.
func (o *Outgoing) silence(unsent error) *transfer.Error {
	if unsent != nil {
		return transfer.Errorf(transfer.KindUnreachable, "%s cannot ask %s: %w", o.cfg.Agent, o.to, unsent).
			WithHint("the transfer goes on when the queue manager is there")
	}
	if why := o.outcomes.unrecorded(); why != nil {
		return why
	}
	return transfer.Errorf(transfer.KindUnreachable, "%s does not answer", o.to).
		WithHint("the transfer goes on when the agent is there")
}

// openMessage returns the OPEN of the present nonce. Until the destination has accepted it, it names all targets except
// those that were resolved since the last OPEN.
func (o *Outgoing) openMessage(rec *ledger.Source, a *walk.Reader, goes walk.CommonDest) (*wire.Message, error) {
	q := rec.Request
	open := &wire.Open{Nonce: rec.Nonce, Source: o.cfg.Ledger.IncarnationText(), Dest: rec.Dest, Epoch: rec.Epoch, MaxChunk: o.cfg.MaxChunk,
		Pardon: rec.Pardon, Recorded: rec.Decided.Count(), Principal: rec.Principal, Direct: o.offer(&q)}
	if rec.Dest == "" {
		q.Dest, open.Several = goes.Dest, goes.Several
		var err error
		if open.Targets, err = o.cfg.walks().Targets(a, rec.Targets); err != nil {
			return nil, err
		}
	}

	if q.Durable() { // the items decide, and the destination gets them later
		q.Durability = transfer.DurabilityFull
	}

	q.Items, q.Rest, q.Triggers, q.Programs = nil, nil, nil, q.Programs.OfDest()
	if q.Retry != nil {
		q.Retry = &transfer.Retry{Of: q.Retry.Of, Resolved: q.Retry.Resolved}
	}

	q.Settings = q.Settings.Or(o.cfg.Settings)
	open.Request = q
	return &wire.Message{Kind: wire.KindOpen, Open: open}, nil
}

// offer returns the way to this agent on the direct lane; nil if the request excludes the lane.
func (o *Outgoing) offer(q *transfer.Request) *wire.Direct {
	if q.Lane == transfer.LaneQueue {
		return nil
	}
	return o.cfg.Lanes.Offer(o.to, o.ID)
}

// answered takes a message while OPEN is unanswered; done ends the negotiation.
func (o *Outgoing) answered(rec *ledger.Source, open *wire.Open, m *wire.Message) (done bool, v *DriveResult, err error) {
	switch {
	case m.Kind == wire.KindAccept && m.Accept.Nonce == rec.Nonce && m.Accept.Epoch > rec.Epoch:
		if m.Accept.Epoch-rec.Epoch > maxMissed {
			o.peer.logImpossible("an ACCEPT of an epoch that is too far ahead")
			return false, nil, nil
		}
		if said := m.Accept; rec.Dest == "" && (!walk.ResolvedAs(open.Targets, said.Resolved) || open.Targets != nil && (open.Targets.More || len(said.Resolved) < len(open.Targets.List)) ||
			!open.Request.Dest.IsZero() && said.Resolution.Base == "") {
			o.peer.logImpossible("an ACCEPT of other destinations than were asked for")
			return false, nil, nil
		}
		v, err = o.accepted(m.Accept)
		return true, v, err
	case m.Kind == wire.KindResolved && m.Resolved.Nonce == rec.Nonce && open.Targets != nil && m.Resolved.After == open.Targets.After:
		if len(m.Resolved.List) > 0 && !walk.ResolvedAs(open.Targets, m.Resolved.List) {
			o.peer.logImpossible("a RESOLVED of other destinations than were asked for")
			return false, nil, nil
		}
		err = o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
			if len(m.Resolved.List) > 0 {
				rec.Recovering = o.cfg.Clock.Now() // there is progress
			}
			rec.Targets = m.Resolved.Known // less than before if the destination has forgotten them
			return t.Requests().PutResolved(o.ID, m.Resolved.List)
		})
		return err != nil, nil, err
	case m.Kind == wire.KindBusy && m.Busy.Nonce == rec.Nonce:
		counts := true
		if m.Busy.Program {
			if counts, err = o.rec.programRuns(o.cfg.Clock.Now()); err != nil {
				return true, nil, err
			}
		}
		if counts && o.rec.overdue() {
			v, err = o.giveUp(m.Busy.Reason)
			return true, v, err
		}
		v, err = o.wait(m.Busy.Reason, m.Busy.Place)
		return true, v, err
	case m.Kind == wire.KindRefuse && m.Refuse.Nonce == rec.Nonce:
		v, err = o.refused(m.Refuse.Error)
		return true, v, err
	case m.Kind == wire.KindCancelled:
		v, err = o.fail(transfer.Errorf(transfer.KindLost, "%s has withdrawn the transfer", rec.Request.Destination))
		return true, v, err
	}
	return false, nil, nil // from an earlier negotiation
}

// refused ends the transfer. After the loss of a ledger, undecided items are unknown and never offered again under this
// ID (R35).
func (o *Outgoing) refused(e *transfer.Error) (*DriveResult, error) {
	if e.Kind == transfer.KindParked {
		err := o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
			rec.Progress.Reason = e
			return o.cfg.Note(t, noteOf(rec, audit.Parked, func(a *audit.Record) { a.Error, a.State = e, rec.State }))
		}, transfer.Parked)
		return &DriveResult{Reason: e}, err
	}
	if e.Kind == transfer.KindLost {
		e.Hint = "look at the destination, then submit the missing files as a new transfer"
	}
	return o.fail(e)
}

// accepted begins the epoch of an ACCEPT. A DriveResult gives the reason why the epoch is not begun.
func (o *Outgoing) accepted(a *wire.Accept) (*DriveResult, error) {
	v, err := o.beginEpoch(a, func(t *ledger.Tx, rec *ledger.Source) error {
		first := rec.Dest == ""
		rec.Dest = a.Dest
		if rec.Resolution == nil && a.Resolution.Base != "" {
			rec.Resolution = &a.Resolution
		}
		if first {
			return walk.PutResolved(t, rec, a.Resolved)
		}
		return nil
	})
	if v == nil && err == nil {
		o.in.accepted(a.Instance)
		o.accept = a
	}
	return v, err
}

// beginEpoch records the epoch of an ACCEPT and begins the walk at the first time. change completes the ledger entry. A
// DriveResult gives the reason why the epoch is not begun.
func (o *Outgoing) beginEpoch(a *wire.Accept, change func(t *ledger.Tx, rec *ledger.Source) error) (*DriveResult, error) {
	if err := o.items.Open(o.rec.read(), a.Resume.End()); err != nil { // for example a damaged one
		return o.pumpFailed(err)
	}

	err := o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		first := rec.Epoch == 0
		if err := change(t, rec); err != nil {
			return err
		}
		rec.Epoch, rec.Journal = a.Epoch, true
		p := &rec.Progress
		p.Epoch, p.Settings, p.Lane, p.LaneReason, p.Reason = a.Epoch, a.Settings, a.Lane, a.LaneReason, nil
		if !first {
			p.Resumes++
			return nil
		}
		targets, err := walk.Resolved(t, o.ID)
		if err != nil {
			return err
		}
		return o.cfg.Note(t, noteOf(rec, audit.Started, func(r *audit.Record) {
			r.Lane, r.Request = a.Lane, audit.FactsOf(&rec.Request)
			r.Request.Settings, r.Request.Resolved = a.Settings, rec.Resolution
			r.Request.SetTargets(targets)
		}))
	}, transfer.Running)
	if err != nil {
		return nil, err
	}

	failpoint.Hit("sender.after_accept")
	o.items.Start(o.rec.read())
	o.live.accepted()
	o.opening = a
	return nil, nil
}

// beginCancel withdraws the transfer. A destination that never accepted has nothing to take back; it gets one CANCEL,
// in case its answer was lost.
func (o *Outgoing) beginCancel() (*DriveResult, error) {
	o.store.leave()
	rec := o.rec.read()
	if o.store.endsAtOnce(rec) {
		if rec.Nonce > 0 {
			o.peer.tell(cancel(rec))
		}
		return o.endCancelled()
	}
	return nil, o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Cancel = true
		setNoProgress(rec, o.cfg.Clock.Now())
		return nil
	}, transfer.Cancelling)
}

// CancelNow cancels a transfer without a driver, if it can end at once: it was never accepted, or is parked. It reports
// false if a driver must take the transfer to its end.
func (o *Outgoing) CancelNow() (bool, error) {
	if !o.store.endsAtOnce(o.rec.read()) {
		return false, nil
	}
	_, err := o.beginCancel()
	if err == nil {
		o.shown.show(true)
		o.Dispose()
	}
	return err == nil, err
}

func (o *Outgoing) endCancelled() (*DriveResult, error) {
	err := o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		return o.rec.end(t, rec, transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled"))
	}, transfer.Cancelled)
	failpoint.Hit("sender.after_cancelled")
	return &DriveResult{Final: true}, err
}

// cancelling repeats CANCEL until the destination has answered or the deadline
// has passed.
func (o *Outgoing) cancelling(ctx context.Context) (*DriveResult, error) {
	failpoint.Hit("sender.cancelling")
	rec := o.rec.read()
	message := cancel(rec)
	pause := repeatFirst
	timer := o.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		if m := o.in.take(); m != nil {
			if m.Kind == wire.KindCancelled {
				return o.endCancelled()
			}
			continue
		}
		select {
		case <-timer.C():
			if o.rec.overdue() {
				return o.endCancelled()
			}
			o.peer.tell(message)
			if o.store.withdrawn(ctx) {
				return o.endCancelled()
			}
			timer.Reset(pause)
			pause = min(2*pause, repeatMost)
		case <-o.driver:
		case <-ctx.Done():
			return nil, nil
		}
	}
}
