package sender

import (
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A record keeps the ledger entry of a transfer, and since when this process has seen no progress. It is safe for
// concurrent use. Changes run one at a time, each in a ledger transaction; only another change waits for one.
type record struct {
	id      transfer.ID
	ledger  *ledger.Ledger
	note    func(*ledger.Tx, audit.Record) error
	clock   clock.Clock
	figures func() snapshot // the figures that each change writes

	programs Programs

	updating    sync.Mutex  // held for a change
	transferLog transferLog // guarded by updating
	snap        snapshot    // guarded by updating, of the change that is being made

	mu    sync.Mutex
	last  *ledger.Source // as it was written last; replaced, never changed
	stuck time.Time      // this process's time when Recovering was set or this run began
}

// setEntry takes in a ledger entry that was read or written. Its Recovering is a time of day. This process counts the
// time since then itself: a clock that jumps makes no transfer give up, nor wait for years.
func (r *record) setEntry(rec *ledger.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case rec.Recovering.IsZero():
		r.stuck = time.Time{}
	case r.stuck.IsZero() || !rec.Recovering.Equal(r.last.Recovering):
		r.stuck = r.clock.Now()
	}
	r.last = rec
}

// read returns the entry as it was written last; the caller must not change it.
func (r *record) read() *ledger.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *record) state() transfer.State { return r.read().State }

// cancelled reports whether the transfer has been asked to end.
func (r *record) cancelled() bool { return r.read().Cancel }

// halt moves a running transfer to a state from which it may fail.
func (r *record) halt() error {
	if r.state() != transfer.Running {
		return nil
	}
	return r.renegotiate()
}

// decided reports whether the outcome of an item is on record.
func (r *record) decided(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Decided.Has(n)
}

// mayBegin reports whether an item is not too far ahead of the first undecided one.
func (r *record) mayBegin(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Decided.Fits(n)
}

// overdue reports whether the recovery time-out is over.
func (r *record) overdue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.last.Request.RecoveryTimeout()
	return limit >= 0 && !r.stuck.IsZero() && r.clock.Now().Sub(r.stuck) >= limit
}

// givesUp returns the end of the recovery time-out; zero while there is progress, and if the transfer
// waits without limit.
func (r *record) givesUp() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.last.Request.RecoveryTimeout()
	switch s := r.last.State; {
	case limit < 0, r.stuck.IsZero(), s != transfer.Waiting && s != transfer.Negotiating:
		return time.Time{}
	}
	return r.stuck.Add(limit)
}

// left returns the time until the recovery time-out is over, d at most.
func (r *record) left(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.last.Request.RecoveryTimeout()
	if limit < 0 || r.stuck.IsZero() {
		return d
	}
	return max(0, min(d, r.stuck.Add(limit).Sub(r.clock.Now())))
}

// extendDeadline records how long a limit held the transfer up: the recovery time-out does not count that time.
func (r *record) extendDeadline(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stuck.IsZero() {
		r.stuck = r.stuck.Add(d)
	}
}

// update changes the entry in a transaction of its own and moves it through the given states.
func (r *record) update(change func(t *ledger.Tx, rec *ledger.Source) error, to ...transfer.State) error {
	r.updating.Lock()
	defer r.updating.Unlock()
	r.snap = r.figures() // here, because no lock may be taken inside a transaction
	var after *ledger.Source
	var state transfer.State
	var epoch uint32
	err := r.ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(r.id)
		if err != nil {
			return err
		}
		if rec == nil {
			return transfer.Errorf(transfer.KindInternal, "the record of transfer %s is gone", r.id)
		}
		state, epoch = rec.State, rec.Epoch
		if err := rec.Move(to...); err != nil {
			return err
		}
		r.snap.put(&rec.Progress)
		if change != nil {
			if err := change(t, rec); err != nil {
				return err
			}
		}
		after = rec
		return t.PutSource(rec)
	})
	if err == nil {
		r.setEntry(after)
		r.transferLog.moved(state, epoch, after)
	}
	return err
}

// begin moves to Negotiating from a state in which the transfer does not run.
func (r *record) begin() error {
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		now := r.clock.Now()
		setNoProgress(rec, now)
		if rec.Progress.Started.IsZero() {
			rec.Progress.Started = now
		}
		rec.Nonce++
		return nil
	}, transfer.Negotiating)
}

// renegotiate returns to OPEN with a new nonce.
func (r *record) renegotiate() error {
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Nonce++
		setNoProgress(rec, r.clock.Now())
		return nil
	}, transfer.Negotiating)
}

// recovering records since when there is no progress, if it is not recorded yet.
func (r *record) recovering() error {
	if !r.read().Recovering.IsZero() {
		return nil
	}
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		setNoProgress(rec, r.clock.Now())
		return nil
	})
}

// setNoProgress records in an entry that there is no progress from now on, if that is not recorded yet.
func setNoProgress(rec *ledger.Source, now time.Time) {
	if rec.Recovering.IsZero() {
		rec.Recovering = now
	}
}

// stands records that the transfer makes no progress, with the reason, and moves it.
func (r *record) stands(why *transfer.Error, to ...transfer.State) error {
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		setNoProgress(rec, r.clock.Now())
		rec.Progress.Reason = why
		return nil
	}, to...)
}

// moves records progress, and restarts the recovery time-out from now: the rest may take as long again.
func (r *record) moves() error {
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Recovering, rec.Crashes, rec.Programs.AtDest = r.clock.Now(), 0, time.Time{}
		return nil
	})
}

// progressed records progress: it ends a recovery and forgives crashes.
func (r *record) progressed() error {
	if rec := r.read(); rec.Recovering.IsZero() && rec.Crashes == 0 {
		return nil
	}
	return r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Recovering, rec.Crashes, rec.Programs.AtDest = time.Time{}, 0, time.Time{}
		return nil
	})
}

// logWait logs a wait without a state of its own.
func (r *record) logWait(reason *transfer.Error) {
	r.updating.Lock()
	defer r.updating.Unlock()
	r.transferLog.waiting(reason)
}

// end fills in the ledger entry of a transfer that has ended, with its audit record. It is part of a change.
func (r *record) end(t *ledger.Tx, rec *ledger.Source, e *transfer.Error) error {
	p := &rec.Progress
	p.Ended = r.clock.Now()
	p.Reason, p.Code = e, rec.State.Code()
	if rec.State == transfer.Failed && e != nil {
		p.Code = e.Kind.Code()
	}

	p.Place, p.NextTry, p.Current = 0, time.Time{}, ""
	if p.FilesTotal == 1 { // its name stays with the figures of a single file
		p.Current = r.snap.current
	}

	event := audit.Completed
	switch rec.State {
	case transfer.Failed:
		event = audit.Failed
	case transfer.Cancelled:
		event = audit.Cancelled
	}

	if q := &rec.Request; r.programs != nil && (q.Programs != nil || r.programs.Runs(q, transfer.PreSource) || r.programs.Runs(q, transfer.PostSource)) {
		if err := r.programs.Forget(t, &rec.Request, false); err != nil {
			return err
		}
	}
	return r.note(t, noteOf(rec, event, func(a *audit.Record) {
		if rec.State == transfer.Cancelled {
			a.Principal, a.Author = rec.Canceller.Principal, rec.Canceller.Author
		}
		a.State, a.Code, a.Counts, a.Error, a.Meta = rec.State, p.Code, &p.Counts, e, rec.Request.Meta
		a.Lane, a.Resumes, a.BytesResent, a.BytesWire = p.Lane, p.Resumes, p.BytesResent, p.BytesWire
		if !p.Started.IsZero() {
			a.Seconds = p.Ended.Sub(p.Started).Seconds()
		}
	}))
}

// noteItems writes audit records of items, as many as they need.
func (r *record) noteItems(t *ledger.Tx, rec *ledger.Source, event audit.Event, items []transfer.Outcome) error {
	for len(items) > 0 {
		n := max(audit.FitItems(items), 1)
		part := items[:n]
		if err := r.note(t, noteOf(rec, event, func(a *audit.Record) { a.Items = part })); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// noteOf returns an audit record of a transfer.
func noteOf(rec *ledger.Source, event audit.Event, fill func(*audit.Record)) audit.Record {
	q := &rec.Request
	a := audit.Record{Event: event, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source,
		Destination: q.Destination, Originator: &q.Originator, Job: q.Job, Principal: rec.Principal}
	fill(&a)
	return a
}
