package entry

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// recorded returns the entry of a transfer in a new ledger, and the audit records that it writes.
func recorded(t *testing.T) (*Entry, *[]audit.Record) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: faulty.NewMemoryFiles(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var notes []audit.Record
	all := &Entries{Agent: "BETA", Ledger: l, Clock: clock.System, Forget: func(*ledger.Tx, *transfer.Request) error { return nil },
		Note: func(_ *ledger.Tx, r audit.Record) error {
			notes = append(notes, r)
			return nil
		}}
	id := transfer.NewID(time.Now())
	if err := l.Update(func(tx *ledger.Tx) error {
		return tx.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: id, Job: "j"}, State: transfer.Receiving, Epoch: 1})
	}); err != nil {
		t.Fatal(err)
	}
	e := all.Of(id, "ALPHA", log)
	if err := e.Load(); err != nil {
		t.Fatal(err)
	}
	return e, &notes
}

// An outcome counts once, with one audit record, however often its group is recorded.
func TestAnOutcomeCountsOnce(t *testing.T) {
	e, notes := recorded(t)
	o := []transfer.Outcome{{Item: 0, Type: transfer.ItemFile, Path: "/b/a", Size: 7}}
	for range 2 {
		if err := e.Journal().Committed(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Load(); err != nil {
		t.Fatal(err)
	}
	if e.In.Counts.Files != 1 || e.In.Counts.Bytes != 7 || !e.In.Decided.Has(0) {
		t.Errorf("the entry has %+v", e.In.Counts)
	}
	if n := *notes; len(n) != 1 || n[0].Event != audit.Items || n[0].Transfer != e.ID || n[0].Source != "ALPHA" || n[0].Destination != "BETA" || n[0].Job != "j" {
		t.Errorf("the audit records are %+v", n)
	}
}

// A transfer ends when its source has the last outcomes, and not before. Each transition is on record when it returns.
func TestATransferEndsWithItsLastOutcomes(t *testing.T) {
	e, notes := recorded(t)
	o := []transfer.Outcome{{Item: 0, Type: transfer.ItemFile, Path: "/b/a", Size: 7}}
	if err := e.AckedLast(o, false); err == nil {
		t.Fatal("a transfer that receives has ended")
	}
	if err := e.Journal().Committed(o); err != nil {
		t.Fatal(err)
	}
	if err := e.AllDecided(1); err != nil {
		t.Fatal(err)
	}
	if err := e.AckedLast(o, true); err != nil {
		t.Fatal(err)
	}
	if e.In.State != transfer.Done || !e.In.Unswept || e.Items.Any() {
		t.Errorf("the entry is %s, unswept %v, with items %v", e.In.State, e.In.Unswept, e.Items.Any())
	}
	if n := *notes; len(n) != 2 || n[1].Event != audit.Completed || n[1].Counts.Files != 1 {
		t.Errorf("the audit records are %+v", n)
	}
	if left, err := e.all.Unswept(); err != nil || len(left) != 1 || left[0].In.Request.ID != e.ID {
		t.Errorf("%d transfers may have left temporaries: %v", len(left), err)
	}
}

// A resume point that needs another boot of the host is of no use. DropPoint drops only points that were noted.
func TestResumePoints(t *testing.T) {
	e, _ := recorded(t)
	e.all.Boot = "now"
	points := []*ledger.Checkpoint{
		{Point: transfer.Point{Item: 1, Source: 10, NoReadBack: true}, Boot: "before", Durable: true},
		{Point: transfer.Point{Item: 2, Source: 20}, Boot: "before"},
		{Point: transfer.Point{Item: 3, Source: 30}, Boot: "now"},
	}
	if err := e.Journal().Points(points); err != nil {
		t.Fatal(err)
	}
	if err := e.Items.DropPoint(3); err != nil {
		t.Fatal(err)
	}
	resume, err := e.Resume(func(item uint64) bool { return item == 1 })
	if err != nil || len(resume.Points) != 2 || resume.Points[0].Item != 1 || resume.Points[0].NoReadBack || resume.Points[1].Item != 3 {
		t.Fatalf("%+v, %v", resume.Points, err)
	}
	if err := e.Items.DropPoint(3); err != nil { // Resume has noted it
		t.Fatal(err)
	}
	if pt, err := e.Items.Point(3); err != nil || pt != nil {
		t.Errorf("the point of item 3 is %+v, %v", pt, err)
	}
}
