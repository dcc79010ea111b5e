package ledger_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a ledger without a reserve.
func open(t testing.TB, dir string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(dir, ledger.Options{Reserve: -1, Lock: 10 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// id returns the nth of a series of transfer IDs that sort by n.
func id(n int) (out transfer.ID) {
	out[0], out[1], out[2], out[6], out[8] = byte(n>>16), byte(n>>8), byte(n), 0x70, 0x80
	out[15] = 1
	return out
}

func source(id transfer.ID, state transfer.State) *ledger.Source {
	return &ledger.Source{Request: transfer.Request{ID: id, Items: transfer.ItemsOf("a")}, State: state,
		Progress: transfer.Progress{ID: id}}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	_, err := ledger.Open(dir, ledger.Options{Reserve: -1, Lock: 10 * time.Millisecond})
	if transfer.KindOf(err) != transfer.KindAlive || !strings.Contains(err.Error(), dir) {
		t.Errorf("the second: %v", err)
	}
	must(t, l.Close())
	open(t, dir)
}

// Of several processes that begin a ledger in the same new directory, one gets a complete ledger.
func TestTwoBeginALedger(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var ready sync.WaitGroup
		ready.Add(2)
		got := make(chan *ledger.Ledger, 2)
		for range 2 {
			go func() {
				ready.Done()
				ready.Wait()
				l, err := ledger.Open(dir, ledger.Options{Lock: 100 * time.Millisecond, Reserve: -1})
				if err != nil && transfer.KindOf(err) != transfer.KindAlive {
					t.Error(err)
				}
				got <- l
			}()
		}
		var all []*ledger.Ledger
		for range 2 {
			if l := <-got; l != nil {
				all = append(all, l)
			}
		}
		for _, l := range all {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(all) > 1 {
			t.Fatal("both have it")
		}
		l, err := ledger.Open(dir, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestOpenRefusesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ledger.db"), bytes.Repeat([]byte("no ledger "), 2000), 0o600))
	if _, err := ledger.Open(dir, ledger.Options{Reserve: -1}); err == nil || !strings.Contains(err.Error(), "ledger.db") {
		t.Errorf("rubbish: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := ledger.Open(file, ledger.Options{Reserve: -1}); transfer.KindOf(err) != transfer.KindUnwritable {
		t.Errorf("a file for a directory: %v", err)
	}
}

func TestReserve(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(dir, ledger.Options{Reserve: 3 << 20})
	must(t, err)
	if fi, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || fi.Size() != 3<<20 || l.Low() {
		t.Errorf("the reserve: %v, %v, low %v", fi, err, l.Low())
	}
	// A transaction on a full disk gives the reserve up and is repeated.
	tries := 0
	err = l.Update(func(tx *ledger.Tx) error {
		if tries++; tries == 1 {
			return fmt.Errorf("write ledger.db: %w", syscall.ENOSPC)
		}
		return nil
	})
	if tries < 2 {
		t.Errorf("it was tried %d times: %v", tries, err)
	}
	if !l.Low() {
		// Low writes the reserve again if there is space, as there is here.
		if _, err := os.Stat(filepath.Join(dir, "reserve")); err != nil {
			t.Errorf("not low, and no reserve: %v", err)
		}
	}
	must(t, l.Close())
	// A reserve that cannot be written makes the ledger low, not unusable.
	must(t, os.RemoveAll(filepath.Join(dir, "reserve")))
	must(t, os.Mkdir(filepath.Join(dir, "reserve"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "reserve", "in the way"), nil, 0o600))
	l, err = ledger.Open(dir, ledger.Options{Reserve: 3 << 20})
	must(t, err)
	defer l.Close()
	if !l.Low() {
		t.Error("without a reserve it is low")
	}
	must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(source(id(1), transfer.Accepted)) }))
	must(t, os.RemoveAll(filepath.Join(dir, "reserve")))
	if l.Low() {
		t.Error("it is low although there is space again")
	}
}

func TestDeadline(t *testing.T) {
	for recovery, want := range map[time.Duration]time.Duration{
		0: 49 * time.Hour, time.Minute: time.Hour + 2*time.Minute, -1: 30 * 24 * time.Hour} {
		in := ledger.Incoming{Request: transfer.Request{Recovery: transfer.Duration(recovery)}}
		if got := in.Deadline(); got != want {
			t.Errorf("recovery %v: deadline %v, want %v", recovery, got, want)
		}
	}
}
