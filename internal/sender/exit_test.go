package sender

import (
	"context"
	"testing"
	"time"

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
			if want := exit && (n == 0 || n == 3 || n == 6); m.rec.read().Programs.Arrived.Has(uint64(n)) != want {
				t.Errorf("with an exit: %v; item %d has arrived: %v", exit, n, !want)
			}
		}
	}
}

// startExit are programs with an exit at the start of each transfer, and count its runs.
type startExit struct {
	Programs
	runs int
}

func (*startExit) Runs(_ *transfer.Request, at transfer.CallPoint) bool {
	return at == transfer.PreSource
}

func (*startExit) Choice(*transfer.Request) (*transfer.Choice, error) { return nil, nil }

func (s *startExit) Run(context.Context, *transfer.Call) (*transfer.Error, error) {
	s.runs++
	return nil, nil
}

// An exit that is configured while a stored transfer is under way does not decide about it.
func TestNoStartExitAfterTheStart(t *testing.T) {
	for epoch, runs := range []int{1, 0} {
		m, exit := newMade(t, faulty.NewMemoryFiles()), &startExit{}
		m.cfg.Programs = exit
		if err := m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error { rec.Epoch = uint32(epoch); return nil }); err != nil {
			t.Fatal(err)
		}
		if ready, _, err := m.programs.prepare(t.Context()); !ready || err != nil || exit.runs != runs {
			t.Errorf("in epoch %d the exit runs %d times: %v, %v", epoch, exit.runs, ready, err)
		}
	}
}

// The recovery time-out does not count while an exit of the destination runs. It counts after a day, as only the
// destination knows of the exit.
func TestExitsOfTheDestinationHoldTheTimeOut(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	if err := m.rec.begin(); err != nil {
		t.Fatal(err)
	}
	limit := m.rec.read().Request.RecoveryTimeout()
	for begun := m.clock.now; m.clock.now.Sub(begun) < 5*transfer.MaxProgramTime; m.clock.now = m.clock.now.Add(time.Hour) {
		passed := m.clock.now.Sub(begun)
		counts, err := m.rec.programRuns(m.clock.now)
		if err != nil || counts != (passed > transfer.MaxProgramTime) || m.rec.overdue() != (passed >= transfer.MaxProgramTime+limit) {
			t.Fatalf("after %s the time-out counts: %v, %v; it is over: %v", passed, counts, err, m.rec.overdue())
		}
	}
	if err := m.rec.progressed(); err != nil || !m.rec.read().Programs.AtDest.IsZero() {
		t.Errorf("after progress it is %s, %v", m.rec.read().Programs.AtDest, err)
	}
}
