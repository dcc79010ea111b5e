package sender

import (
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A source takes a BUSY as the answer to its OPEN only if both have one nonce, on each kind of delivery.
func TestBusyAnswersOneQuestion(t *testing.T) {
	for delivery, hear := range map[string]func(m *made, open *wire.Open, said *wire.Message) (bool, error){
		"direct": func(m *made, open *wire.Open, said *wire.Message) (bool, error) {
			done, _, err := m.answered(m.rec.read(), open, said)
			return done, err
		},
		"stored": func(m *made, _ *wire.Open, said *wire.Message) (bool, error) {
			done, _, err := Stored(m.Outgoing).answered(m.rec.read(), said)
			return done, err
		},
	} {
		for nonce, want := range map[uint64]bool{0: false, 6: false, 7: true, 8: false} {
			m := newMade(t, faulty.NewMemoryFiles())
			if err := m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error { rec.Nonce = 7; return nil }, transfer.Negotiating); err != nil {
				t.Fatal(err)
			}
			done, err := hear(m, &wire.Open{Nonce: 7}, &wire.Message{Kind: wire.KindBusy, From: "BETA", Transfer: m.ID,
				Busy: &wire.Busy{Nonce: nonce, Place: 1, Reason: transfer.Errorf(transfer.KindBusy, "it waits")}})
			if err != nil || done != want {
				t.Errorf("%s delivery: a BUSY with the nonce %d answers OPEN 7: %v, %v", delivery, nonce, done, err)
			}
		}
	}
}
