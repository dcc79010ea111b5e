package sender

import (
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// endExit are programs with an exit at the end of each transfer.
type endExit struct{ Programs }

func (endExit) Runs(_ *transfer.Request, at transfer.CallPoint) bool {
	return at == transfer.PostSource
}

// An exit at the end is told of the items that have certainly arrived, and of no others.
func TestArrivedItemsAreKnownToAnExit(t *testing.T) {
	skipped, failed := transfer.Errorf(transfer.KindSkipped, "it exists"), transfer.Errorf(transfer.KindNoSpace, "the disk is full")
	all := []transfer.Outcome{{Item: 0}, {Item: 1, Err: skipped}, {Item: 2, Err: failed}, {Item: 3, Taken: transfer.TakenProved}, {Item: 4, Taken: transfer.TakenPresumed},
		{Item: 5, Err: transfer.Errorf(transfer.KindReplaced, "it is another version")}, {Item: 6}}
	for _, exit := range []bool{true, false} {
		m := newMade(t, faulty.NewMemoryFiles())
		if m.cfg.Programs = nil; exit {
			m.cfg.Programs = endExit{}
		}
		var checked []checkedOutcome
		for _, oc := range all {
			oc.Type = transfer.ItemFile
			checked = append(checked, checkedOutcome{Outcome: oc})
		}
		if err := m.rec.update(func(tx *ledger.Tx, rec *ledger.Source) error {
			_, err := m.outcomes.count(tx, rec, checked)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for n := range all {
			if want := exit && (n == 0 || n == 3 || n == 6); m.rec.read().Arrived.Has(uint64(n)) != want {
				t.Errorf("with an exit: %v; item %d has arrived: %v", exit, n, !want)
			}
		}
	}
}
