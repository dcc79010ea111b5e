package sender

import (
	"context"
	"time"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// wait moves to Waiting, until the transfer is tried again.
func (o *Outgoing) wait(reason *transfer.Error, place int) (*Verdict, error) {
	return o.waitFor(reason, place, waitRetry)
}

// waitFor is wait until a time that the caller says.
func (o *Outgoing) waitFor(reason *transfer.Error, place int, retry time.Duration) (*Verdict, error) {
	if o.cfg.scarce() {
		o.rest()
	}
	o.mu.Lock()
	o.live.place, o.live.nextTry = place, o.cfg.Clock.Now().Add(retry)
	o.mu.Unlock()
	err := o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = reason
		return nil
	}, transfer.Waiting)
	return &Verdict{Reason: reason, Retry: retry}, err
}

// overdue reports whether the recovery time-out is over.
func (o *Outgoing) overdue() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := o.rec.Request.RecoveryTimeout()
	return limit >= 0 && !o.stuck.IsZero() && o.cfg.Clock.Now().Sub(o.stuck) >= limit
}

// giveUp fails the transfer because the recovery time-out is over, and tells
// the destination: undecided items are unknown from here.
func (o *Outgoing) giveUp(why *transfer.Error) (*Verdict, error) {
	rec := o.Record()
	e := transfer.Errorf(transfer.KindRecovery, "the recovery time-out of %s is over", rec.Request.RecoveryTimeout())
	if why != nil {
		e.Text += ": " + why.Text
	}
	o.send(cancel(&rec))
	return o.fail(e)
}

// fail ends the transfer as FAILED with the error's code. What has arrived has
// arrived: the counts say so.
func (o *Outgoing) fail(e *transfer.Error) (*Verdict, error) {
	err := o.update(func(t *ledger.Tx, rec *ledger.Source) error {
		return o.end(t, rec, e)
	}, transfer.Failed)
	return &Verdict{Final: true}, err
}

// end fills in what the record of an ended transfer says, with its audit record.
func (o *Outgoing) end(t *ledger.Tx, rec *ledger.Source, e *transfer.Error) error {
	p := &rec.Progress
	p.Ended = o.cfg.Clock.Now()
	p.Reason, p.Code = e, rec.State.Code()
	if rec.State == transfer.Failed && e != nil {
		p.Code = e.Kind.Code()
	}
	p.Place, p.NextTry, p.Current = 0, time.Time{}, ""
	if p.FilesTotal == 1 { // its name stays with the figures
		p.Current = o.snap.current
	}
	event := audit.Completed
	switch rec.State {
	case transfer.Failed:
		event = audit.Failed
	case transfer.Cancelled:
		event = audit.Cancelled
	}
	return o.cfg.Note(t, o.record(rec, event, func(a *audit.Record) {
		if rec.State == transfer.Cancelled {
			a.Principal = rec.CancelBy
		}
		a.State, a.Code, a.Counts, a.Error, a.Meta = rec.State, p.Code, &p.Counts, e, rec.Request.Meta
		a.Lane, a.Resumes, a.BytesResent, a.BytesWire = p.Lane, p.Resumes, p.BytesResent, p.BytesWire
		if !p.Started.IsZero() {
			a.Seconds = p.Ended.Sub(p.Started).Seconds()
		}
	}))
}

// cancel is the CANCEL of a transfer: for who asked for it, or for nobody.
func cancel(rec *ledger.Source) *wire.Message {
	return &wire.Message{Kind: wire.KindCancel, Cancel: &wire.Cancel{Principal: rec.CancelBy}}
}

func (o *Outgoing) record(rec *ledger.Source, event audit.Event, fill func(*audit.Record)) audit.Record {
	q := &rec.Request
	a := audit.Record{Event: event, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source,
		Destination: q.Destination, Originator: &q.Originator, Job: q.Job, Principal: rec.Principal}
	fill(&a)
	return a
}

// MarkUnreachable moves a transfer that is not being driven to Waiting: its
// destination is known to be away. It reports true where the recovery time-out
// is over and the transfer has failed.
func (o *Outgoing) MarkUnreachable() (ended bool, err error) {
	reason := transfer.Errorf(transfer.KindUnreachable, "%s is not reachable", o.to).
		WithHint("the transfer goes on when the agent is there")
	o.mu.Lock()
	state, old := o.rec.State, o.rec.Progress.Reason
	o.live.place, o.live.nextTry = 0, o.cfg.Clock.Now().Add(waitRetry)
	o.mu.Unlock()
	if o.overdue() {
		if state == transfer.Accepted {
			if _, err := o.step(context.Background()); err != nil {
				return false, err
			}
		}
		if _, err := o.giveUp(reason); err != nil {
			return false, err
		}
		o.show(true)
		o.Dispose()
		return true, nil
	}
	if state == transfer.Waiting && old != nil && old.Kind == transfer.KindUnreachable {
		return false, nil
	}
	steps := []transfer.State{transfer.Waiting}
	if state == transfer.Accepted {
		steps = []transfer.State{transfer.Negotiating, transfer.Waiting}
	}
	err = o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		if rec.Recovering.IsZero() {
			rec.Recovering = o.cfg.Clock.Now()
		}
		rec.Progress.Reason = reason
		return nil
	}, steps...)
	o.show(true)
	return false, err
}

// rest closes what a transfer that waits can open again: the file that it was in the
// middle of, and what the walk is in. The item journal stays open as long as that is
// at nobody's cost.
func (o *Outgoing) rest() {
	o.stopReading()
	o.mu.Lock()
	open := o.journal != nil && !o.lent
	o.mu.Unlock()
	if !open {
		return
	}
	if o.cfg.borrow() {
		o.mu.Lock()
		o.lent = true
		o.mu.Unlock()
		return
	}
	o.closeJournal()
}

// stopReading ends the walk where it is, and lets go of the files that are open.
func (o *Outgoing) stopReading() {
	o.mu.Lock()
	stop, walked := o.stopWalk, o.walked
	o.stopWalk = nil
	o.mu.Unlock()
	if stop != nil {
		stop()
		<-walked
	}
	for _, r := range o.keep {
		r.close()
	}
	clear(o.keep)
}

func (o *Outgoing) closeJournal() {
	o.mu.Lock()
	j := o.journal
	if o.journal = nil; j != nil {
		o.found = j.Totals()
	}
	o.unlend()
	o.mu.Unlock()
	if j != nil {
		j.Close()
	}
}

// unlend returns what was borrowed to keep the journal open. o.mu is held.
func (o *Outgoing) unlend() {
	if o.lent {
		o.lent = false
		o.cfg.giveBack()
	}
}

// Dispose lets go of what is open, and of the item journal of a transfer that
// is over.
func (o *Outgoing) Dispose() {
	o.stopReading()
	o.closeJournal()
	if o.State().Final() {
		failpoint.Hit("sender.before_drop")
		if err := o.cfg.Ledger.DropJournal(o.ID); err != nil {
			o.log.Warn("cannot remove item journal", "error", err)
		}
	}
}
