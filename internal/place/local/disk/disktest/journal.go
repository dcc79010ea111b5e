package disktest

import (
	"path"
	"sync"

	"ferry/internal/transfer"
)

// A Journal is a ledger in memory. Its calls count together with the disk's, so that it fails in its turn.
type Journal struct {
	mu       sync.Mutex
	fault    *Fault
	Intents  map[uint64]transfer.Intent
	Outcomes map[uint64]transfer.Outcome
	Marks    map[transfer.FileID]transfer.Outcome // by the item's last intent
}

// NewJournal returns an empty Journal. Its calls count with those of f, if f is not nil.
func NewJournal(f *Fault) *Journal {
	return &Journal{fault: f, Intents: map[uint64]transfer.Intent{}, Outcomes: map[uint64]transfer.Outcome{}, Marks: map[transfer.FileID]transfer.Outcome{}}
}

func (j *Journal) Committing(ins []transfer.Intent) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, in := range ins { // it may be recorded although it fails: the worse case
		j.Intents[in.Outcome.Item] = in
		if in.FileID != nil {
			j.Marks[*in.FileID] = in.Outcome
		}
	}
	if j.fault != nil {
		return j.fault.Step("committing", nil)
	}
	return nil
}

// Marked implements Marked of a place.LandConfig.
func (j *Journal) Marked(item uint64, m transfer.FileID) (dir transfer.Path, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if o, ok := j.Marks[m]; ok && o.Item != item {
		dir = transfer.Path(path.Dir(string(o.Path)))
	}
	return dir, nil
}

func (j *Journal) Committed(outs []transfer.Outcome) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault != nil {
		if err := j.fault.Step("committed", nil); err != nil {
			return err
		}
	}
	for _, o := range outs {
		delete(j.Intents, o.Item)
		j.Outcomes[o.Item] = o
	}
	return nil
}

func (j *Journal) Again(items []uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault != nil {
		if err := j.fault.Step("again", nil); err != nil {
			return err
		}
	}
	for _, item := range items {
		delete(j.Intents, item)
	}
	return nil
}
