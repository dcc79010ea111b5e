package sender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var errOver = errors.New("the transfer is over")

// outcomes records a batch and acknowledges it. An item counts once, whatever
// batch it comes in; the last batch ends the transfer.
func (o *Outgoing) outcomes(m *wire.Outcomes) {
	rec := o.Record()
	if rec.State.Final() {
		o.late(m)
		return
	}
	failpoint.Hit("sender.before_outcomes")
	total, err := o.itemTotal(m.Last)
	if err == nil {
		err = o.inherit()
	}
	if err != nil {
		o.doubtOrLog(err, "the outcomes cannot be checked; the destination will repeat them")
		return
	}
	believed := o.believed(m.Outcomes)
	err = o.update(func(t *ledger.Tx, rec *ledger.Source) error {
		if rec.State.Final() {
			return errOver
		}
		fresh, err := o.count(t, rec, believed)
		if err != nil {
			return err
		}
		rec.Recovering, rec.Crashes = time.Time{}, 0
		if err := o.noteItems(t, rec, audit.Items, fresh); err != nil {
			return err
		}
		if m.Last && rec.State != transfer.Cancelling {
			if rec.Decided.Below() != total {
				return transfer.Errorf(transfer.KindMalformed, "%s says that all is decided, and has told of %d items of %d", o.to, rec.Decided.Below(), total)
			}
			return o.lastOutcomes(t, rec)
		}
		return nil
	})
	if errors.Is(err, errOver) {
		o.late(m)
		return
	}
	if err != nil {
		o.doubtOrLog(err, "outcomes cannot be recorded; the destination will repeat them")
		return
	}
	failpoint.Hit("sender.after_outcomes")
	o.decidedNow(m.Outcomes)
	o.mu.Lock()
	o.live.heard, o.live.breaks = o.cfg.Clock.Now(), 0
	state := o.rec.State
	o.mu.Unlock()
	if m.Last && (state == transfer.Parked || state == transfer.Accepted) {
		return // there is no way to the end from here; unanswered, it comes again
	}
	o.send(&wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: m.Batch}})
	failpoint.Hit("sender.after_outcomes_ack")
	if state.Final() || state == transfer.Settling {
		o.cfg.Changed(o)
	}
	o.show(false)
	o.pokePump()
	o.poke()
}

// doubtOrLog says why outcomes are not recorded: the destination cannot be right, or
// this side cannot write.
func (o *Outgoing) doubtOrLog(err error, what string) {
	if transfer.KindOf(err) == transfer.KindMalformed {
		o.doubt("last outcomes that are not all there are")
		return
	}
	o.log.Error(what, "error", err)
}

// itemTotal is how many items the transfer has, which the last outcomes must
// amount to: a destination's word alone does not end a transfer.
func (o *Outgoing) itemTotal(wanted bool) (uint64, error) {
	if !wanted {
		return 0, nil
	}
	o.mu.Lock()
	j := o.journal
	o.mu.Unlock()
	var t ledger.Totals
	if j != nil {
		t = j.Totals()
	} else { // this run has not opened it yet
		var err error
		if t, err = o.cfg.Ledger.JournalTotals(o.ID); err != nil {
			return 0, err
		}
	}
	if !t.Ended {
		return 0, transfer.Errorf(transfer.KindMalformed, "%s says that all is decided, and the walk has not ended", o.to)
	}
	return uint64(t.Items), nil
}

// count adds what is new to the record, and notes which sources to delete.
func (o *Outgoing) count(t *ledger.Tx, rec *ledger.Source, outcomes []believed) (fresh []transfer.Outcome, err error) {
	for n := range outcomes {
		oc := &outcomes[n].Outcome
		if rec.Decided.Has(oc.Item) || !rec.Decided.Fits(oc.Item) || !rec.Decided.Add(oc.Item) {
			continue
		}
		fresh = append(fresh, *oc)
		p := &rec.Progress
		p.Counts.Add(oc)
		if oc.Failed() && len(p.Failures) < transfer.MaxFailures {
			p.Failures = append(p.Failures, *oc)
		}
		if outcomes[n].delete && oc.OK() && !oc.Taken && oc.Type == transfer.ItemFile {
			if err := t.PutDelete(o.ID, oc.Item, ledger.Delete{Source: oc.Source, Version: oc.Version, Form: outcomes[n].form}); err != nil {
				return nil, err
			}
		}
	}
	return fresh, nil
}

func (o *Outgoing) noteItems(t *ledger.Tx, rec *ledger.Source, event audit.Event, fresh []transfer.Outcome) error {
	for len(fresh) > 0 {
		n := max(audit.FitItems(fresh), 1)
		part := fresh[:n]
		if err := o.cfg.Note(t, o.record(rec, event, func(a *audit.Record) { a.Items = part })); err != nil {
			return err
		}
		fresh = fresh[n:]
	}
	return nil
}

// lastOutcomes moves to Settling by the ways of the table, and at once on to
// the end where there is no source to delete.
func (o *Outgoing) lastOutcomes(t *ledger.Tx, rec *ledger.Source) error {
	path := map[transfer.State][]transfer.State{
		transfer.Waiting:     {transfer.Negotiating, transfer.Running, transfer.Settling},
		transfer.Negotiating: {transfer.Running, transfer.Settling},
		transfer.Running:     {transfer.Settling},
	}[rec.State]
	for _, s := range path {
		if err := o.move(rec, s); err != nil {
			return err
		}
	}
	rec.Settled = rec.State == transfer.Settling
	if rec.State == transfer.Settling && !rec.Request.Deletes() {
		if err := o.move(rec, rec.Progress.Counts.Ending()); err != nil {
			return err
		}
		return o.end(t, rec, failureOf(rec))
	}
	return nil
}

func (o *Outgoing) move(rec *ledger.Source, to transfer.State) error {
	if !rec.State.CanMove(to) {
		return fmt.Errorf("internal error: transfer %s cannot go from %s to %s", o.ID, rec.State, to)
	}
	rec.State = to
	return nil
}

// failureOf is the error of a transfer in which items failed: the first one's.
func failureOf(rec *ledger.Source) *transfer.Error {
	p := &rec.Progress
	if p.FilesFailed == 0 || len(p.Failures) == 0 {
		return nil
	}
	e := *p.Failures[0].Err
	if p.FilesFailed > 1 {
		e.Text = fmt.Sprintf("%d items failed, the first: %s", p.FilesFailed, e.Text)
	}
	return &e
}

// Late takes outcomes of a transfer that does not run, and returns when they are
// recorded.
func (o *Outgoing) Late(m *wire.Message) {
	if m.From != o.to {
		o.cfg.Quiet.Dropped(string(m.From), "the sender is not this transfer's peer", "kind", m.Kind, "transfer", o.ID)
		return
	}
	o.outcomes(m.Outcomes)
}

// late puts outcomes that come after the verdict into the audit; the verdict
// and the sources stay.
func (o *Outgoing) late(m *wire.Outcomes) {
	rec := o.Record()
	ack := &wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: m.Batch}}
	if rec.Settled {
		o.send(ack) // all of them are recorded; only the answer was lost
		return
	}
	err := o.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return o.cfg.Note(t, o.record(&rec, audit.Warning, func(a *audit.Record) {
			a.State = rec.State
			a.Text = fmt.Sprintf("%d outcomes came after the transfer had ended", len(m.Outcomes))
			if n := audit.FitItems(m.Outcomes); n > 0 {
				a.Items = m.Outcomes[:n]
			}
		}))
	})
	if err != nil {
		o.log.Error("cannot record late outcomes", "error", err)
		return
	}
	o.send(ack)
}

// settle deletes the sources of what has arrived, then ends the transfer. A
// deletion that fails is a warning on a successful item.
func (o *Outgoing) settle(ctx context.Context) (*Verdict, error) {
	failpoint.Hit("sender.settling")
	for {
		items, dels, err := o.cfg.Ledger.Deletes(o.ID, 64)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			break
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if reason, err := o.deleteSome(items, dels); err != nil {
			return nil, err
		} else if reason != nil {
			return o.waitSettling(reason)
		}
	}
	rec := o.Record()
	err := o.update(func(t *ledger.Tx, rec *ledger.Source) error { return o.end(t, rec, failureOf(rec)) },
		rec.Progress.Counts.Ending())
	failpoint.Hit("sender.after_settled")
	return &Verdict{Final: true}, err
}

// waitSettling waits for a root beneath which sources are to be deleted.
func (o *Outgoing) waitSettling(reason *transfer.Error) (*Verdict, error) {
	o.updMu.Lock()
	o.told.waiting(reason)
	o.updMu.Unlock()
	err := o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = reason
		if rec.Recovering.IsZero() {
			rec.Recovering = o.cfg.Clock.Now()
		}
		return nil
	})
	return &Verdict{Reason: reason, Retry: waitRetry}, err
}

// deleteSome notes where the sources go aside, in one transaction for all, and
// then deletes them (R28). reason is why some must wait, which ends with the
// recovery time-out.
func (o *Outgoing) deleteSome(items []uint64, dels []ledger.Delete) (reason *transfer.Error, err error) {
	deleter, ok := o.cfg.Place.(place.Deleter)
	if !ok {
		return nil, transfer.Errorf(transfer.KindInternal, "internal error: sources are to be deleted in a place that cannot do so")
	}
	fresh := make([]bool, len(items))
	err = o.cfg.Ledger.Update(func(t *ledger.Tx) error {
		for n := range items {
			if fresh[n] = dels[n].Aside == "" || fresh[n]; !fresh[n] {
				continue
			}
			dels[n].Aside = deleter.Aside(o.ID, items[n])
			if err := t.PutDelete(o.ID, items[n], dels[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("delete.after_ledger")
	warnings, waits := make([]*transfer.Error, len(items)), make([]bool, len(items))
	for n, d := range dels {
		err = deleter.Delete(d.Source, d.Version, d.Aside, !fresh[n])
		if waits[n] = transfer.KindOf(err).Waits() && !o.overdue(); waits[n] {
			reason = transfer.AsError(err)
		} else if err != nil {
			warnings[n] = transfer.AsError(err)
			o.log.Warn("source not deleted", "path", d.Source, "error", err)
		} else if d.Form {
			if err := deleter.DropForm(d.Source); err != nil {
				o.log.Warn("cannot delete the sidecar of a deleted source", "path", d.Source, "error", err)
			}
		}
	}
	failpoint.Hit("delete.before_done")
	return reason, o.update(func(t *ledger.Tx, rec *ledger.Source) error {
		var gone []transfer.Outcome
		for n := range items {
			switch {
			case waits[n]:
				continue
			case warnings[n] == nil:
				gone = append(gone, transfer.Outcome{Item: items[n], Type: transfer.ItemFile, Path: dels[n].Source, Source: dels[n].Source, Version: dels[n].Version})
			default:
				rec.Progress.Warnings++
				if err := o.cfg.Note(t, o.record(rec, audit.Warning, func(a *audit.Record) {
					a.Text, a.Error = "the source "+dels[n].Source.String()+" is not deleted", warnings[n]
				})); err != nil {
					return err
				}
			}
			if err := t.DropDelete(o.ID, items[n]); err != nil {
				return err
			}
		}
		return o.noteItems(t, rec, audit.Deleted, gone)
	})
}
