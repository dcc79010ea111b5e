package receiver

import (
	"errors"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// journal is the part of the ledger that the commit path needs. It runs beside the loop and touches only constant
// fields.
type journal record

// Committing records the intents of the items that will be renamed. For a set it also records that all of its items
// have reached COMMITTING: a later failure affects one item alone.
func (j *journal) Committing(intents []transfer.Intent) error {
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		err := t.PutIntents(j.id, intents)
		if err == nil && (j.facts.replaces || ledger.HasTargets(t, j.id)) {
			err = ledger.PutMarks(t, j.id, intents)
		}
		if err != nil || !j.facts.together {
			return err
		}
		rec, err := t.Incoming(j.id)
		if err != nil || rec == nil {
			return errors.Join(err, errGone)
		}
		rec.Set.Committing = true
		return t.PutIncoming(rec)
	})
}

var errGone = errors.New("the transfer's record is gone")

// Again deletes the ledger entries of items that begin again.
func (j *journal) Again(items []uint64) error {
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		var err error
		for _, item := range items {
			err = errors.Join(err, t.DropItem(j.id, item))
		}
		return err
	})
}

// Committed records outcomes, with their audit records, in one transaction (R29).
func (j *journal) Committed(outcomes []transfer.Outcome) error {
	failpoint.Hit("receiver.before_committed")
	return j.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Incoming(j.id)
		if err != nil || rec == nil {
			return errors.Join(err, errGone)
		}
		var fresh []transfer.Outcome
		for n := range outcomes {
			o := &outcomes[n]
			if !rec.Decided.Add(o.Item) {
				continue // decided before; the first outcome stays
			}
			rec.Counts.Add(o)
			fresh = append(fresh, *o)
		}
		if err := t.PutOutcomes(j.id, fresh); err != nil {
			return err
		}
		rec.Crashes = 0
		j.r.heard(t, rec)
		if err := t.PutIncoming(rec); err != nil {
			return err
		}
		if failpoint.Planted("audit-apart") {
			go j.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return j.note(t, fresh) })
			return nil
		}
		return j.note(t, fresh)
	})
}

func (j *journal) note(t *ledger.Tx, outcomes []transfer.Outcome) error {
	return noteItems(outcomes, func(part []transfer.Outcome) error {
		return j.r.cfg.Note(t, (*record)(j).entry(audit.Items, func(a *audit.Record) { a.Items = part }))
	})
}

// noteItems splits outcomes into as many audit records as they need.
func noteItems(outcomes []transfer.Outcome, note func([]transfer.Outcome) error) error {
	for len(outcomes) > 0 {
		n := max(audit.FitItems(outcomes), 1)
		if err := note(outcomes[:n]); err != nil {
			return err
		}
		outcomes = outcomes[n:]
	}
	return nil
}
