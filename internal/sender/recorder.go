package sender

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var errOver = errors.New("the transfer is over")

// maxBatches is how many batches of outcomes may wait to be recorded. A destination that keeps to the protocol has one
// in flight. A batch without room is dropped, and comes again.
const maxBatches = 4

// A recorder writes outcomes to the ledger in the order of their arrival, also for a transfer without a driver. It is
// safe for concurrent use.
type recorder struct {
	parts
	moved func() // outcomes have ended the transfer, or all but the deletion of its sources

	mu      sync.Mutex
	batches []*wire.Outcomes // that are to be recorded, oldest first
	busy    bool             // a goroutine records batches
	fault   *transfer.Error  // why the last batch could not be recorded; nil: it was
}

// queue adds a batch to the batches to be recorded. It drops the batch if maxBatches wait.
func (r *recorder) queue(m *wire.Outcomes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.batches) == maxBatches {
		return
	}
	r.batches = append(r.batches, m)
	if !r.busy {
		r.busy = true
		go r.recordAll()
	}
}

// recordAll records the waiting batches until none is left.
func (r *recorder) recordAll() {
	for m := r.next(); m != nil; m = r.next() {
		r.record(m)
	}
}

// next takes a batch; with none the calling goroutine must end.
func (r *recorder) next() *wire.Outcomes {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.batches) == 0 {
		r.busy = false
		return nil
	}
	m := r.batches[0]
	r.batches = r.batches[1:]
	return m
}

// record records a batch and acknowledges it. An item counts once, even if several batches have it; the last batch ends
// the transfer.
func (r *recorder) record(m *wire.Outcomes) {
	if r.rec.state().Final() {
		r.late(m)
		return
	}

	failpoint.Hit("sender.before_outcomes")
	var total uint64 // the destination's message alone does not end a transfer
	var err error
	cancelling := r.rec.state() == transfer.Cancelling
	if m.Last && !cancelling { // the destination has reported all outcomes
		total, err = r.items.Total()
	}
	if err == nil {
		err = r.addEarlierItems(m.Outcomes)
	}
	var all []checkedOutcome
	var doubtful bool
	if err == nil {
		all, doubtful, err = r.checkOutcomes(m.Outcomes)
	}
	if kind := transfer.KindOf(err); err != nil && (kind == transfer.KindLost || cancelling && !kind.Waits()) {
		r.lose(m, transfer.AsError(err))
		return
	}
	if err != nil {
		r.reportUnrecorded(err, "the outcomes cannot be checked; the destination will repeat them")
		return
	}

	err = r.rec.update(func(t *ledger.Tx, rec *ledger.Source) error { return r.writeBatch(t, rec, m, all, total) })
	if errors.Is(err, errOver) {
		r.late(m)
		return
	}
	if err != nil {
		r.reportUnrecorded(err, "outcomes cannot be recorded; the destination will repeat them")
		return
	}

	failpoint.Hit("sender.after_outcomes")
	r.note(nil)
	r.forget(m.Outcomes)
	r.live.recorded(r.cfg.Clock.Now())
	state := r.rec.state()
	if m.Last && (state == transfer.Parked || state == transfer.Accepted) {
		return // no move from here ends the transfer; unanswered, the batch comes again
	}

	if !doubtful { // a doubtful outcome may be accepted when it comes again
		r.ack(m)
	}
	failpoint.Hit("sender.after_outcomes_ack")
	if state.Final() || state == transfer.Settling {
		r.moved()
	}

	r.shown.show(false)
	r.wake()
}

func (r *recorder) ack(m *wire.Outcomes) {
	r.peer.tell(&wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: m.Batch}})
}

// reportUnrecorded reports why outcomes are not recorded: the destination cannot be right, or this side cannot write.
func (r *recorder) reportUnrecorded(err error, what string) {
	if transfer.KindOf(err) == transfer.KindMalformed {
		r.peer.logImpossible("last outcomes that are not all there are")
		return
	}
	r.note(err)
	r.log.Error(what, "error", err)
}

// note records why a batch could not be recorded; nil: it was.
func (r *recorder) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault = nil; err != nil {
		r.fault = transfer.Errorf(transfer.KindBusy, "%s cannot record the outcomes that %s reports: %w", r.cfg.Agent, r.to, err)
	}
}

// unrecorded returns the reason why the last batch of outcomes could not be recorded; nil: it was. The batch comes
// again.
func (r *recorder) unrecorded() *transfer.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// lose ends a transfer with a damaged item journal: the outcomes cannot be checked against the journal, so undecided
// items are unknown (R35). The outcomes go into the audit, and their sources stay.
func (r *recorder) lose(m *wire.Outcomes, why *transfer.Error) {
	err := r.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		switch rec.State {
		case transfer.Negotiating, transfer.Waiting:
		case transfer.Running:
			if err := rec.Move(transfer.Negotiating); err != nil {
				return err
			}
		default:
			return errOver
		}
		if err := rec.Move(transfer.Failed); err != nil {
			return err
		}
		return r.rec.end(t, rec, why)
	})
	switch state := r.rec.state(); {
	case err == nil:
		r.peer.tell(cancel(r.rec.read()))
		r.late(m)
		r.moved()
		r.wake()
	case !errors.Is(err, errOver):
		r.reportUnrecorded(err, "the end of a transfer cannot be recorded; the destination will repeat its outcomes")
	case state.Final():
		r.late(m)
	case state == transfer.Cancelling:
		r.recordUncounted(m, "%d outcomes cannot be held against the item journal, which is damaged or cannot be read")
	default: // parked, for example: they come again
	}
}

// itemsToRead returns how many items, from below on, are needed to check the outcomes: from transfer.MaxUndecided to
// four times as many.
func itemsToRead(below uint64, outcomes []transfer.Outcome) int {
	far := below
	for n := range outcomes {
		far = max(far, outcomes[n].Item+1)
	}
	return int(min(max(far-below, transfer.MaxUndecided), 4*transfer.MaxUndecided))
}

// addEarlierItems takes in the items that earlier runs may have begun: once, before the first outcomes of a run are
// checked. With stored delivery it takes in the items of the outcomes, which may be far beyond the first undecided item
// here: the destination reads on while its outcomes are in flight.
func (r *recorder) addEarlierItems(outcomes []transfer.Outcome) error {
	if !r.sent.needsEarlier() {
		return nil
	}

	rec := r.rec.read()
	below, most := rec.Decided.Below(), transfer.MaxUndecided
	if r.sent.all {
		most = itemsToRead(below, outcomes)
	}
	items, err := r.items.From(below, most)
	if err != nil {
		return err
	}

	a, tasks := r.cfg.walks().Reader(rec), make([]walk.Task, len(items))
	for k := range items {
		switch {
		case items[k].Type != transfer.ItemFile:
			continue
		case k > 0 && items[k-1].Arg == items[k].Arg && items[k-1].Type == transfer.ItemFile:
			tasks[k] = tasks[k-1]
		default:
			if tasks[k], err = a.Task(items[k].Arg); err != nil {
				return err
			}
		}
	}

	r.sent.addEarlier(below, items, tasks)
	return nil
}

// checkOutcomes returns the outcomes that are not on record and are possible: it checks each against the sent items,
// and gives it the journal's path. doubtful reports that there are others. An outcome that contradicts the journal of
// an earlier run is an error of KindLost.
func (r *recorder) checkOutcomes(outcomes []transfer.Outcome) (all []checkedOutcome, doubtful bool, err error) {
	for _, oc := range outcomes {
		if r.rec.decided(oc.Item) {
			continue
		}
		is, why := r.sent.check(oc)
		switch {
		case why == "":
			all = append(all, is)
			continue
		case is.before && r.items.Made:
			err = ledger.DamagedJournal(r.cfg.Ledger, r.ID, "the destination reports item %d as %s, %s", oc.Item, oc.Source, why)
		case why == notBegun:
			err = r.items.Check(oc.Item)
		}
		if err != nil {
			return nil, true, err
		}
		r.peer.logImpossible(why)
		doubtful = true
	}
	return all, doubtful, nil
}

// forget drops the state of decided items.
func (r *recorder) forget(outcomes []transfer.Outcome) {
	for n := range outcomes {
		if item := outcomes[n].Item; r.rec.decided(item) {
			r.live.forget(item)
			r.sent.forget(item)
		}
	}
}

// writeBatch writes a batch into the ledger entry, and moves the transfer on with the last one.
func (r *recorder) writeBatch(t *ledger.Tx, rec *ledger.Source, m *wire.Outcomes, believed []checkedOutcome, total uint64) error {
	if rec.State.Final() {
		return errOver
	}

	fresh, err := r.count(t, rec, believed)
	if err != nil {
		return err
	}

	rec.Recovering, rec.Crashes, rec.Programs.AtDest = time.Time{}, 0, time.Time{}
	if err := r.rec.noteItems(t, rec, audit.Items, fresh); err != nil {
		return err
	}

	if !m.Last || rec.State == transfer.Cancelling {
		return nil
	}

	if rec.Decided.Below() != total {
		return transfer.Errorf(transfer.KindMalformed, "%s says that all is decided, and has told of %d items of %d", r.to, rec.Decided.Below(), total)
	}
	if e := m.Program; rec.Request.Programs.At(transfer.PostDest) != nil || e != nil && e.Kind == transfer.KindExit {
		rec.Programs.Fail(e)
	}
	return r.beginSettling(t, rec)
}

// count adds new outcomes to the ledger entry, and records the sources to delete. For an exit at the end it records the
// items that have arrived.
func (r *recorder) count(t *ledger.Tx, rec *ledger.Source, outcomes []checkedOutcome) (fresh []transfer.Outcome, err error) {
	exit := r.cfg.runs(&rec.Request, transfer.PostSource)
	for n := range outcomes {
		oc := &outcomes[n].Outcome
		if rec.Decided.Has(oc.Item) || !rec.Decided.Fits(oc.Item) || !rec.Decided.Add(oc.Item) {
			continue
		}
		fresh = append(fresh, *oc)
		p := &rec.Progress
		p.Counts.Add(oc)
		if rec.Request.Tally != "" && oc.Taken.Certain() {
			p.Counts.Sum(oc)
		}
		if exit && oc.OK() && oc.Taken.Certain() {
			rec.Programs.Arrived.Add(oc.Item)
		}
		if oc.Failed() && len(p.Failures) < transfer.MaxFailures {
			p.Failures = append(p.Failures, *oc)
		}
		if outcomes[n].delete && oc.OK() && oc.Type == transfer.ItemFile {
			if err := r.recordDelete(t, rec, &outcomes[n]); err != nil {
				return nil, err
			}
		}
	}
	return fresh, nil
}

// recordDelete records that a source is to be deleted or archived. If there is no proof that its file had its final
// name, the source stays, with a warning.
func (r *recorder) recordDelete(t *ledger.Tx, rec *ledger.Source, b *checkedOutcome) error {
	d := ledger.Delete{Source: b.Source, Picked: b.Picked, Version: b.Version, Form: b.form, Archive: b.to}
	if b.Taken.Certain() {
		return t.PutDelete(r.ID, b.Item, d)
	}

	why := transfer.Errorf(transfer.KindMoved, "%s was gone from %s after an interruption; nothing proves that it had arrived", b.Path, r.to)
	if b.Taken == transfer.TakenReplaced {
		why = transfer.Errorf(transfer.KindMoved, "%s was replaced by another file at %s before its arrival was on record", b.Path, r.to)
	}
	rec.Progress.Warnings++
	return r.cfg.Note(t, noteOf(rec, audit.Warning, func(a *audit.Record) {
		a.Text = "the source " + b.Source.String() + " is not " + done(&d)
		a.Error = why.WithHint("look for it where files are taken to; then delete the source, or send it again")
	}))
}

// beginSettling moves to Settling by the table of states. Without a source to delete or a program to run, it moves on
// to the end at once.
func (r *recorder) beginSettling(t *ledger.Tx, rec *ledger.Source) error {
	err := rec.Move(map[transfer.State][]transfer.State{
		transfer.Waiting:     {transfer.Negotiating, transfer.Running, transfer.Settling},
		transfer.Negotiating: {transfer.Running, transfer.Settling},
		transfer.Running:     {transfer.Settling},
	}[rec.State]...)
	if err != nil {
		return err
	}

	if rec.State == transfer.Settling && !rec.Settled {
		if err := r.keepJobSources(t, rec); err != nil {
			return err
		}
	}
	rec.Settled = rec.State == transfer.Settling
	if err := r.allOrNone(t, rec); err != nil {
		return err
	}
	if rec.State != transfer.Settling || rec.Request.Removes() || r.cfg.runs(&rec.Request, transfer.PostSource) {
		return nil
	}
	if err := rec.Move(endingOf(rec)); err != nil {
		return err
	}
	return r.rec.end(t, rec, failureOf(rec))
}

// keepJobSources keeps the sources of a job, unless the same files and content have arrived at its other destinations.
func (r *recorder) keepJobSources(t *ledger.Tx, rec *ledger.Source) error {
	want, p := rec.Request.Tally, &rec.Progress
	if want == "" || want == p.Tally || want == transfer.TallyCount && !rec.Request.Removes() {
		return nil
	}
	kept, err := ledger.DropDeletes(t, rec.Request.ID)
	if err != nil {
		return err
	}
	p.Warnings += kept
	return r.cfg.Note(t, noteOf(rec, audit.Warning, func(a *audit.Record) {
		a.Text = "the sources are not deleted: other files, or other content, have arrived than at the job's other destinations"
	}))
}

// allOrNone decides, before the first source is deleted, to delete none if the request wants all or none of them
// removed and one cannot be: an item has failed, or a program at the destination, or a source has to stay. Skipped
// items are no failures; their sources stay in any case.
func (r *recorder) allOrNone(t *ledger.Tx, rec *ledger.Source) error {
	stays := rec.Progress.Warnings > 0
	if rec.State != transfer.Settling || !rec.Request.AllSources || endingOf(rec) == transfer.Successful && !stays {
		return nil
	}
	kept, err := ledger.DropDeletes(t, r.ID)
	if err != nil || kept == 0 {
		return err
	}
	rec.Progress.Warnings += kept
	return r.cfg.Note(t, noteOf(rec, audit.Warning, func(a *audit.Record) {
		a.Text, a.Error = "all sources were to be deleted or archived, or none", failureOf(rec)
		if a.Error == nil {
			a.Error = transfer.Errorf(transfer.KindMoved, "nothing proves that all files have arrived")
		}
		a.Error = transfer.Errorf(a.Error.Kind, "no source is deleted or archived, %d that arrived among them: %w", kept, a.Error)
	}))
}

// late puts outcomes that come after the end into the audit; the final state and the sources stay.
func (r *recorder) late(m *wire.Outcomes) {
	rec := r.rec.read()
	if rec.Settled {
		r.ack(m) // all of them are recorded; only the answer was lost
		return
	}

	r.recordUncounted(m, "%d outcomes came after the transfer had ended")
}

// recordUncounted puts outcomes that are not counted into the audit, with their number in its text, and acknowledges
// them.
func (r *recorder) recordUncounted(m *wire.Outcomes, text string) {
	rec := r.rec.read()
	err := r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return r.cfg.Note(t, noteOf(rec, audit.Warning, func(a *audit.Record) {
			a.State = rec.State
			a.Text = fmt.Sprintf(text, len(m.Outcomes))
			if n := audit.FitItems(m.Outcomes); n > 0 {
				a.Items = m.Outcomes[:n]
			}
		}))
	})
	if err != nil {
		r.log.Error("cannot record late outcomes", "error", err)
		return
	}

	r.ack(m)
}
