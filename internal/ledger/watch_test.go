package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// takings are operations on a state directory under a running agent.
var takings = map[string]func(dir string) error{
	"removed": os.RemoveAll,
	"renamed": func(dir string) error { return os.Rename(dir, dir+".old") },
	"replaced by an empty one": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
	},
	"replaced by a copy": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
	},
	"the ledger removed":        func(dir string) error { return os.Remove(filepath.Join(dir, "ledger.db")) },
	"the item journals removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "items")) },
	"the ledger made anew, empty": func(dir string) error {
		f := filepath.Join(dir, "ledger.db")
		return errors.Join(os.Remove(f), os.WriteFile(f, nil, 0o600))
	},
}

// opened opens a ledger in a directory with a parent that stays.
func opened(t *testing.T) (*ledger.Ledger, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	l, err := ledger.Open(dir, ledger.Options{Reserve: -1})
	must(t, err)
	return l, dir
}

func wantGone(t *testing.T, l *ledger.Ledger, dir string, err error) {
	t.Helper()
	if transfer.KindOf(err) != transfer.KindInternal || !strings.Contains(err.Error(), dir+" was taken away") {
		t.Errorf("it fails with %v", err)
	}
	if l.Lost() == nil {
		t.Error("and is not lost")
	}
}

// The loss of a state directory is noticed within 10 s, even without a write. From then on all reads and writes fail.
func TestStateTakenAwayIsNoticed(t *testing.T) {
	for name, take := range takings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, dir := opened(t)
				defer l.Close()
				began := time.Now()
				must(t, take(dir))
				<-l.Gone()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				wantGone(t, l, dir, l.Lost())
				wantGone(t, l, dir, l.View(func(*ledger.Tx) error { return nil }))
				wantGone(t, l, dir, l.Update(func(*ledger.Tx) error { t.Error("a transaction is begun"); return nil }))
			})
		})
	}
}

// A transaction that was written after the directory was taken away is not acknowledged: no request is accepted with
// it.
func TestNothingIsWrittenToAStateTakenAway(t *testing.T) {
	for name, take := range takings {
		t.Run(name, func(t *testing.T) {
			l, dir := opened(t)
			defer l.Close()
			must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(source(id(1), transfer.Accepted)) }))
			must(t, take(dir))
			wantGone(t, l, dir, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(source(id(2), transfer.Accepted)) }))
			<-l.Gone()
		})
	}
}
