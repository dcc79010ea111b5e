package land

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// Syncs may take minutes. If another program takes a name meanwhile, all files of the set are refused: none has its
// name by then.
func TestSetLooksOnceMoreAfterItsSyncs(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	var once sync.Once
	fault.Before = func(op string) {
		if strings.HasPrefix(op, "sync") {
			once.Do(func() { must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("theirs"), 0o644)) })
		}
	}
	j := disktest.NewJournal(nil)
	l := lander(f, j, nil)
	var group []place.Pending
	for n, name := range []string{"a", "b"} {
		p, err := write(l, uint64(n), name, []byte("ours"))
		must(t, err)
		p.Together = true
		group = append(group, p)
	}

	done, err := l.Commit(t.Context(), group)
	must(t, err)
	want := []transfer.Kind{transfer.KindTogether, transfer.KindExists}
	for n := range done {
		if done[n].Err == nil || done[n].Err.Kind != want[n] {
			t.Errorf("item %d ends with %v, want %v", n, done[n].Err, want[n])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a has its name: %v", err)
	}
	if got := read(t, filepath.Join(dir, "b")); len(done) != 2 || got != "theirs" || len(j.Intents) > 0 {
		t.Errorf("%d items have ended, b is %q, COMMITTING are %v", len(done), got, j.Intents)
	}
}
