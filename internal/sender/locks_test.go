package sender

import (
	"errors"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/wire"
)

// slowFiles are item journals on a disk with slow opens.
type slowFiles struct {
	ledger.Files
	began, may chan struct{}
}

func (f slowFiles) Create(name string) (ledger.File, error) {
	close(f.began)
	<-f.may
	return f.Files.Create(name)
}

// A resumed transfer reads and writes its item journal again, which takes long with millions of items. Meanwhile
// heartbeats have its figures, messages are taken, and the ledger can be written for this transfer and others.
func TestNothingWaitsForTheItemJournal(t *testing.T) {
	began, may := make(chan struct{}), make(chan struct{})
	m := newMade(t, slowFiles{faulty.NewMemoryFiles(), began, may})
	opened := make(chan error, 1)
	go func() { opened <- m.items.Open(m.rec.read(), 0) }()
	<-began
	done := make(chan error, 1)
	go func() {
		m.Status()
		m.Deliver(&wire.Message{Kind: wire.KindAck, From: "BETA", Transfer: m.ID, Ack: &wire.Ack{}})
		done <- errors.Join(m.Cancel(word.Origin{Principal: "ann@box"}), m.cfg.Ledger.Update(func(*ledger.Tx) error { return nil }))
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute): // only if it hangs
		t.Error("something waits for the item journal")
	}
	close(may)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	m.Dispose()
}
