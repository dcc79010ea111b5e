package ledger_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// lived makes the state directory of an agent that has run, with the journal of a transfer that is not over.
func lived(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Open(dir, ledger.Options{Reserve: 1 << 16})
	must(t, err)
	must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(source(id(1), transfer.Running)) }))
	j, err := l.Journal(id(1))
	must(t, err)
	must(t, j.Append(transfer.Item{Type: transfer.ItemFile, Source: "/a", Name: "a", Size: 3}))
	must(t, j.Sync())
	must(t, j.Close())
	must(t, l.Close())
	return dir
}

// A missing or empty ledger beside signs of an earlier one is lost: it is not begun anew, and no file is changed.
// Without such signs it is new.
func TestLostLedger(t *testing.T) {
	journal := filepath.Join("items", id(1).String())
	for _, c := range []struct {
		name  string
		gone  []string         // removed from a used directory
		sizes map[string]int64 // files that are cut to a size
		lost  string           // the trace that the error names; empty: it begins anew
	}{
		{name: "all gone", gone: []string{"ledger.db", "reserve", journal}},
		{name: "all gone but an empty ledger", gone: []string{"reserve", journal}, sizes: map[string]int64{"ledger.db": 0}},
		{name: "missing beside a journal", gone: []string{"ledger.db", "reserve"}, lost: journal},
		{name: "empty beside a journal", gone: []string{"reserve"}, sizes: map[string]int64{"ledger.db": 0}, lost: journal},
		{name: "empty beside an empty journal", gone: []string{"reserve"}, sizes: map[string]int64{"ledger.db": 0, journal: 0}, lost: journal},
		{name: "missing beside the reserve", gone: []string{"ledger.db", journal}, lost: "reserve"},
		{name: "empty beside the reserve", gone: []string{journal}, sizes: map[string]int64{"ledger.db": 0}, lost: "reserve"},
		{name: "empty beside a reserve that was given up", gone: []string{journal}, sizes: map[string]int64{"ledger.db": 0, "reserve": 0}, lost: "reserve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := lived(t)
			for _, name := range c.gone {
				must(t, os.Remove(filepath.Join(dir, name)))
			}
			for name, size := range c.sizes {
				must(t, os.Truncate(filepath.Join(dir, name), size))
			}
			before := files(t, dir)
			l, err := ledger.Open(dir, ledger.Options{Reserve: 1 << 16})
			if c.lost == "" {
				must(t, err)
				must(t, l.Close())
				return
			}
			if err == nil {
				l.Close()
				t.Fatal("a lost ledger is taken for a new one")
			}
			for _, want := range []string{filepath.Join(dir, "ledger.db"), filepath.Join(dir, c.lost), "is lost", "aside"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if after := files(t, dir); after != before {
				t.Errorf("it has changed %s to %s", before, after)
			}
		})
	}
}

// A ledger file with only zeros, which were allocated but never written, is not a ledger. Beside signs of an earlier
// ledger it is lost.
func TestLostLedgerOfZeros(t *testing.T) {
	dir := lived(t)
	must(t, os.WriteFile(filepath.Join(dir, "ledger.db"), make([]byte, 16<<10), 0o600))
	if _, err := ledger.Open(dir, ledger.Options{}); err == nil || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("zeros: %v", err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "ledger.db")); err != nil || fi.Size() != 16<<10 {
		t.Errorf("the file was changed: %v, %v", fi, err)
	}
}

// The reserve keeps its name when its space is given up: it shows that there was a ledger.
func TestReserveGivenUpLeavesItsName(t *testing.T) {
	dir := lived(t)
	l, err := ledger.Open(dir, ledger.Options{Reserve: 1 << 16})
	must(t, err)
	defer l.Close()
	l.DropReserve()
	if fi, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || fi.Size() != 0 {
		t.Errorf("after it was given up: %v, %v", fi, err)
	}
	if l.Low() {
		t.Error("there is space, and it is still low")
	}
	if fi, err := os.Stat(filepath.Join(dir, "reserve")); err != nil || fi.Size() != 1<<16 {
		t.Errorf("after it was taken again: %v, %v", fi, err)
	}
}

// The item journal of a transfer whose walk has begun is never begun a second time: its items would get other numbers
// than the offered ones.
func TestLostJournal(t *testing.T) {
	for name, hurt := range map[string]func(path string) error{
		"missing":              os.Remove,
		"empty":                func(p string) error { return os.Truncate(p, 0) },
		"cut in its header":    func(p string) error { return os.Truncate(p, 7) },
		"zeros for its header": func(p string) error { return os.WriteFile(p, make([]byte, 12), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := lived(t)
			must(t, hurt(filepath.Join(dir, "items", id(1).String())))
			l := open(t, dir)
			for range 2 { // the first try must not make a journal for the second one to find
				j, err := l.ResumeJournal(id(1))
				if err == nil {
					j.Close()
					t.Fatal("a lost journal is taken for a new one")
				}
				if !strings.Contains(err.Error(), id(1).String()) || !strings.Contains(err.Error(), "is lost") || !strings.Contains(err.Error(), "submit") {
					t.Errorf("%v", err)
				}
			}
			j, err := l.Journal(id(1))
			must(t, err)
			must(t, j.Close())
		})
	}
}

// files lists a directory with sizes.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if fi, err := d.Info(); err == nil && !d.IsDir() {
			b.WriteString(" " + d.Name() + ":" + strings.Repeat("x", int(min(fi.Size(), 9))))
		}
		return nil
	}))
	return b.String()
}
