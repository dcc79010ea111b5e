package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// commandRetention checks that an answer is kept until its retention is over.
func commandRetention(t *testing.T, p *Place) {
	l := p.open(t)
	const keep = 30 * 24 * time.Hour
	put := func(n int) {
		t.Helper()
		must(t, l.Update(func(tx *ledger.Tx) error {
			return tx.PutCommand("ann", id(n), fmt.Sprint("hash", n), []byte(`{"v":1}`))
		}))
	}
	known := func(n int) (yes bool) {
		t.Helper()
		must(t, l.View(func(tx *ledger.Tx) error {
			hash, answer, err := tx.Command("ann", id(n))
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
		if s, err := tx.Tombstone(transfer.ID{}, "ann"); s.As != "" || err != nil || !tx.Floor("").IsZero() || tx.CommandFloor("") != id(999) {
			t.Errorf("commands leave no tombstones, and raise their own floor: %v, %v", tx.Floor(""), tx.CommandFloor(""))
		}
		return nil
	}))
}

// commandsAreBounded checks that the oldest commands of the principal with most of them are dropped, and that its floor
// rises.
func commandsAreBounded(t *testing.T, p *Place) {
	l := p.open(t)
	put := func(principal string, n int, answer string) {
		t.Helper()
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutCommand(principal, id(n), principal, []byte(answer)) }))
	}
	known := func(principal string, n int) (yes bool) {
		t.Helper()
		must(t, l.View(func(tx *ledger.Tx) error {
			hash, _, err := tx.Command(principal, id(n))
			yes = hash == principal
			return err
		}))
		return yes
	}
	put("bob", 1, `{"v":1}`)
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	const most = ledger.MaxCommands>>20 + 4
	for n := range most {
		put("ann", n, large)
		if n == most/2 {
			must(t, l.Close())
			l = p.open(t)
		}
	}
	if known("ann", 0) || known("ann", 1) || !known("ann", most/2) || !known("ann", most-1) {
		t.Error("the oldest commands of ann are not the ones that are forgotten")
	}
	if !known("bob", 1) || known("bob", 2) {
		t.Error("a command of bob gave way to those of ann")
	}
	must(t, l.View(func(tx *ledger.Tx) error {
		last := 0
		for !known("ann", last) {
			last++
		}
		if tx.CommandFloor("ann") != id(last-1) || !tx.CommandFloor("bob").IsZero() || !tx.CommandFloor("").IsZero() || !tx.Floor("ann").IsZero() {
			t.Errorf("the floors of commands are %v of ann, %v of bob", tx.CommandFloor("ann"), tx.CommandFloor("bob"))
		}
		return nil
	}))
}
