package sender

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// slowFiles are item journals on a disk that takes its time to open one.
type slowFiles struct {
	ledger.Files
	began, may chan struct{}
}

func (f slowFiles) Create(name string) (ledger.File, error) {
	close(f.began)
	<-f.may
	return f.Files.Create(name)
}

// While the item journal of a resumed transfer is read and written again, which takes
// long where there are millions of items, heartbeats have its figures, messages are
// taken, and the ledger can be written for this transfer and others.
func TestNothingWaitsForTheItemJournal(t *testing.T) {
	began, may := make(chan struct{}), make(chan struct{})
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: slowFiles{faulty.NewMemoryFiles(), began, may}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: "b"}
	rec := NewRecord(q, "ann@box", time.Now())
	rec.State = transfer.Negotiating
	if err := l.Update(func(tx *ledger.Tx) error { return tx.PutSource(rec) }); err != nil {
		t.Fatal(err)
	}
	o := New(Config{Agent: "ALPHA", Ledger: l, Clock: clock.System, Log: slog.New(slog.DiscardHandler), Changed: func(*Outgoing) {},
		Progress: func(*transfer.Progress) {}, Note: func(*ledger.Tx, audit.Record) error { return nil }}, rec)
	opened := make(chan error, 1)
	go func() { opened <- o.items.openJournal(o.rec.read()) }()
	<-began
	done := make(chan error, 1)
	go func() {
		o.Status()
		o.Deliver(&wire.Message{Kind: wire.KindAck, From: "BETA", Transfer: q.ID, Ack: &wire.Ack{}})
		done <- errors.Join(o.Cancel("ann@box"), l.Update(func(*ledger.Tx) error { return nil }))
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute): // only where it hangs
		t.Error("something waits for the item journal")
	}
	close(may)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	o.Dispose()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
