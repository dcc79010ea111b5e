package entry

import (
	"errors"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A Journal writes the entries of the items of one transfer. It has constants only, so that work beside the transfer's
// goroutine may use it. It is a place.Journal.
type Journal struct {
	Durable bool // files and their entries survive a power cut

	all        *Entries
	id         transfer.ID
	from       transfer.AgentName
	job        string
	principal  string
	originator transfer.Originator
	together   bool
	replaces   bool // files at the destination
}

// record returns a new audit record of the transfer.
func (j *Journal) record(event audit.Event, fill func(*audit.Record)) audit.Record {
	a := audit.Record{Event: event, Role: audit.RoleDestination, Transfer: j.id,
		Source: j.from, Destination: j.all.Agent, Job: j.job, Principal: j.principal}
	o := j.originator
	a.Originator = &o
	fill(&a)
	return a
}

// Points records resume points of items, in one transaction.
func (j *Journal) Points(points []*ledger.Checkpoint) error {
	return j.all.Ledger.Update(func(t *ledger.Tx) error {
		for _, pt := range points {
			if err := t.PutItem(j.id, pt.Item, ledger.Item{Point: pt}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Committing records the intents of the items that will be renamed. For a set it also records that all of its items
// have reached COMMITTING: a later failure affects one item alone.
func (j *Journal) Committing(intents []transfer.Intent) error {
	return j.all.Ledger.Update(func(t *ledger.Tx) error {
		err := t.PutIntents(j.id, intents)
		if err == nil && (j.replaces || ledger.HasTargets(t, j.id)) {
			err = ledger.PutFileIDs(t, j.id, intents)
		}
		if err != nil || !j.together {
			return err
		}
		in, err := t.Incoming(j.id)
		if err != nil || in == nil {
			return errors.Join(err, errGone)
		}
		in.Set.Committing = true
		return t.PutIncoming(in)
	})
}

var errGone = errors.New("the transfer's record is gone")

// Again deletes the entries of items that begin again.
func (j *Journal) Again(items []uint64) error {
	return j.all.Ledger.Update(func(t *ledger.Tx) error {
		var err error
		for _, item := range items {
			err = errors.Join(err, t.DropItem(j.id, item))
		}
		return err
	})
}

// Committed records outcomes, with their audit records, in one transaction (R29).
func (j *Journal) Committed(outcomes []transfer.Outcome) error {
	failpoint.Hit("receiver.before_committed")
	return j.all.Ledger.Update(func(t *ledger.Tx) error {
		in, err := t.Incoming(j.id)
		if err != nil || in == nil {
			return errors.Join(err, errGone)
		}
		var fresh []transfer.Outcome
		for n := range outcomes {
			o := &outcomes[n]
			if !in.Decided.Add(o.Item) {
				continue // decided before; the first outcome stays
			}
			in.Counts.Add(o)
			fresh = append(fresh, *o)
		}
		if err := t.PutOutcomes(j.id, fresh); err != nil {
			return err
		}
		in.Crashes = 0
		j.all.heard(t, in)
		if err := t.PutIncoming(in); err != nil {
			return err
		}
		return j.note(t, fresh)
	})
}

func (j *Journal) note(t *ledger.Tx, outcomes []transfer.Outcome) error {
	return noteItems(outcomes, func(part []transfer.Outcome) error {
		return j.all.Note(t, j.record(audit.Items, func(a *audit.Record) { a.Items = part }))
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
