package sender

import (
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A transfer that the ledger never knew ends as lost. One that the ledger may have forgotten after its time does not
// end a second time.
func TestEndUnknown(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	known := m.rec.read().Request.ID
	if err := m.rec.update(nil, transfer.Negotiating, transfer.Running, transfer.Settling, transfer.Successful); err != nil {
		t.Fatal(err)
	}
	l := m.cfg.Ledger
	if err := l.AddRunning(time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := l.Forget(time.Minute); err != nil {
		t.Fatal(err)
	}

	notes := len(m.notes)
	p, err := EndUnknown(m.cfg, &Begun{ID: known, Destination: "BETA", Counts: transfer.Counts{Files: 1}})
	if transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a forgotten transfer is %+v, %v", p, err)
	}
	var rec *ledger.Source
	if err := l.View(func(tx *ledger.Tx) (err error) {
		rec, err = tx.Source(known)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if rec != nil || len(m.notes) != notes {
		t.Errorf("a forgotten transfer has another end: %+v", rec)
	}

	p, err = EndUnknown(m.cfg, &Begun{ID: transfer.NewID(m.clock.now.Add(time.Minute)), Destination: "BETA", Counts: transfer.Counts{Files: 1}})
	if err != nil || p.State != transfer.Partial || p.Reason.Kind != transfer.KindLost {
		t.Errorf("an unknown transfer is %+v, %v", p, err)
	}
	if len(m.notes) != notes+1 {
		t.Errorf("%d records of its end", len(m.notes)-notes)
	}
}
