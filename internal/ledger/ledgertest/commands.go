package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// commandRetention: an answer is there until it was given long enough ago.
func commandRetention(t *testing.T, p *Place) {
	l := p.open(t)
	const keep = 30 * 24 * time.Hour
	put := func(n int) {
		t.Helper()
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutCommand(id(n), fmt.Sprint("hash", n), []byte(`{"v":1}`)) }))
	}
	known := func(n int) (yes bool) {
		t.Helper()
		must(t, l.View(func(tx *ledger.Tx) error {
			hash, answer, err := tx.Command(id(n))
			yes = hash == fmt.Sprint("hash", n) && string(answer) == `{"v":1}`
			if !yes && (hash != "" || answer != nil) {
				t.Errorf("command %d has hash %q and answer %q", n, hash, answer)
			}
			return err
		}))
		return yes
	}
	for n := range 1000 {
		put(n)
	}

	must(t, errors.Join(l.AddRunning(keep), l.Forget(keep)))
	put(1000)
	if !known(0) || !known(999) || !known(1000) || known(1001) {
		t.Error("commands are forgotten too early")
	}

	must(t, errors.Join(l.AddRunning(time.Second), l.Forget(keep)))
	if known(0) || known(999) || !known(1000) {
		t.Error("commands that are old enough are kept, or a young one is not")
	}

	must(t, l.View(func(tx *ledger.Tx) error {
		if s, err := tx.Entombed(transfer.ID{}); s.As != "" || err != nil || !tx.Floor().IsZero() || tx.CommandFloor() != id(999) {
			t.Errorf("commands leave no tombstones, and raise their own floor: %v, %v", tx.Floor(), tx.CommandFloor())
		}
		return nil
	}))
}
