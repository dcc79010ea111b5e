package entry

import (
	"errors"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// Items are the ledger entries of the items of one transfer: resume points, intents, and outcomes that the source may
// not have.
type Items struct {
	all          *Entries
	id           transfer.ID
	mayHavePoint map[uint64]bool // items that may have a resume point in the ledger
}

// Any reports whether there are entries.
func (s *Items) Any() bool {
	has := false
	err := s.all.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(s.id, func(uint64, *ledger.Item) error {
			has = true
			return nil
		})
	})
	return has || err != nil
}

// AnyPoint reports whether there is a partial file to resume.
func (s *Items) AnyPoint() (has bool) {
	err := s.all.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(s.id, func(_ uint64, it *ledger.Item) error {
			has = has || it.Point != nil
			return nil
		})
	})
	return has && err == nil
}

// Point returns the resume point of an item; nil: none.
func (s *Items) Point(item uint64) (pt *ledger.Checkpoint, err error) {
	err = s.all.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(s.id, item)
		if it != nil {
			pt = it.Point
		}
		return err
	})
	return pt, err
}

// NotePoint records that an item may get a resume point. ForgetPoint records that it has none.
func (s *Items) NotePoint(item uint64) { s.mayHavePoint[item] = true }

// ForgetPoint is the opposite of NotePoint.
func (s *Items) ForgetPoint(item uint64) { delete(s.mayHavePoint, item) }

// DropPoint drops a resume point, if there is one, before its temporary is replaced (INV-6).
func (s *Items) DropPoint(item uint64) error {
	if !s.mayHavePoint[item] {
		return nil
	}
	if pt, err := s.Point(item); err != nil || pt == nil {
		return err
	}
	return s.Drop(item)
}

// Drop drops the entry of an item, so that the item begins again.
func (s *Items) Drop(item uint64) error {
	return s.all.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(s.id, item) })
}

// DropPoints drops all resume points.
func (s *Items) DropPoints() error {
	return s.all.Ledger.Update(func(t *ledger.Tx) error {
		var points []uint64
		err := t.Items(s.id, func(item uint64, it *ledger.Item) error {
			if it.Point != nil {
				points = append(points, item)
			}
			return nil
		})
		for _, item := range points {
			err = errors.Join(err, t.DropItem(s.id, item))
		}
		return err
	})
}

// resume puts the resume points of items into resume; see Entry.Resume.
func (s *Items) resume(t *ledger.Tx, resume *transfer.Resume, resumed func(item uint64) bool) error {
	return t.Items(s.id, func(item uint64, it *ledger.Item) error {
		p := it.Point
		if p != nil {
			s.mayHavePoint[item] = true // it does no harm if the transaction fails
		}
		if p != nil && (p.Durable || p.Boot == s.all.Boot) {
			at := p.Point
			if resumed(item) {
				at.NoReadBack = false
			}
			resume.Points = append(resume.Points, at)
		}
		return nil
	})
}

// outcomes returns the outcomes that the source may not have.
func (s *Items) outcomes(t *ledger.Tx) (all []transfer.Outcome, err error) {
	err = t.Items(s.id, func(_ uint64, it *ledger.Item) error {
		if it.Outcome != nil {
			all = append(all, *it.Outcome)
		}
		return nil
	})
	return all, err
}

// Undecided returns outcomes, with an error, for the items that have safe points.
func (s *Items) Undecided(why *transfer.Error) (all []transfer.Outcome, err error) {
	err = s.all.Ledger.View(func(t *ledger.Tx) error {
		all = nil
		return t.Items(s.id, func(item uint64, it *ledger.Item) error {
			if it.Point != nil && it.Outcome == nil {
				all = append(all, transfer.Outcome{Item: item, Type: transfer.ItemFile, Path: it.Point.Name, Err: why})
			}
			return nil
		})
	})
	return all, err
}

// Intents returns the intents of undecided items in COMMITTING.
func (e *Entry) Intents() (out []transfer.Intent, err error) {
	err = e.all.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(e.ID, func(item uint64, it *ledger.Item) error {
			if it.Intent != nil && !e.In.Decided.Has(item) {
				out = append(out, *it.Intent)
			}
			return nil
		})
	})
	return out, err
}

// UndecidedIntents returns the numbers of those items. Their temporaries must not be removed, or the absence would read
// as "taken by a consumer".
func (e *Entry) UndecidedIntents() (map[uint64]bool, error) {
	keep := map[uint64]bool{}
	intents, err := e.Intents()
	for n := range intents {
		keep[intents[n].Outcome.Item] = true
	}
	return keep, err
}
