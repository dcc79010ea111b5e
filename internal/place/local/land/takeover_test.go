package land

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// An item of an earlier generation is resumed in a file of this generation's own. The earlier instance may be alive:
// its writes and its rename change nothing.
func TestATemporaryIsTakenOver(t *testing.T) {
	f, dir := newFS(t, nil)
	id := transfer.NewID(time.Now())
	land := func(generation uint64, older ...uint64) *Landing {
		return f.Land(place.LandConfig{Transfer: id, Generation: generation, Older: older, Durable: true, Journal: disktest.NewJournal(nil),
			Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir), Into: true}}})
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	first := land(1)
	old, err := first.Create(3, "x", int64(len(content)), int64(len(content)))
	must(t, err)
	must(t, old.Write(content[:2_500_000]))
	must(t, old.Sync())
	stopped := filepath.Join(dir, first.temps.name(3))

	second := land(5, 1)
	part, err := second.Reopen(3, "x", intent.PointAt(2_000_000), int64(len(content)), int64(len(content)))
	must(t, err)
	if part.Ino() == old.Ino() || part.Offset() != 2_000_000 {
		t.Errorf("it goes on at %d in the same file: %v", part.Offset(), part.Ino() == old.Ino())
	}
	if exists(stopped) {
		t.Error("the name of the earlier temporary is left")
	}
	must(t, part.Write(content[2_000_000:3_000_000]))
	must(t, old.Write(bytes.Repeat([]byte("z"), 100_000)))
	if err := os.Rename(stopped, filepath.Join(dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the one that was stopped renames: %v", err)
	}
	if got := read(t, filepath.Join(dir, second.temps.name(3))); got != string(content[:3_000_000]) {
		t.Errorf("there are %d other bytes", len(got))
	}
	must(t, part.Close())

	// A second attempt finds its own temporary; a third generation takes it over.
	part, err = second.Reopen(3, "x", intent.PointAt(2_900_000), int64(len(content)), int64(len(content)))
	must(t, err)
	must(t, part.Close())
	third := land(6, 1, 5)
	part, err = third.Reopen(3, "x", intent.PointAt(2_900_000), int64(len(content)), int64(len(content)))
	must(t, err)
	if part.Offset() != 2_900_000 || exists(filepath.Join(dir, second.temps.name(3))) {
		t.Errorf("the third goes on at %d", part.Offset())
	}
	must(t, part.Close())
	if _, err := land(7, 1, 5, 6).Reopen(3, "x", intent.PointAt(2_950_000), int64(len(content)), int64(len(content))); transfer.KindOf(err) != transfer.KindMissing {
		t.Errorf("at a point behind the end of the file: %v", err)
	}
	must(t, land(7, 1, 5, 6).Sweep([]transfer.Path{transfer.Path(dir)}))
	if left := temporaries(t, dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// The temporaries of a generation many starts ago are swept if the record names it.
func TestTemporariesOfLongAgoAreSwept(t *testing.T) {
	f, dir := newFS(t, nil)
	cfg := place.LandConfig{Transfer: transfer.NewID(time.Now()), Generation: 1, Journal: disktest.NewJournal(nil),
		Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir), Into: true}}}
	part, err := f.Land(cfg).Create(0, "x", 10, 10)
	must(t, err)
	must(t, part.Close())
	cfg.Generation = 500
	must(t, f.Land(cfg).Sweep([]transfer.Path{transfer.Path(dir)}))
	if left := temporaries(t, dir); len(left) != 1 {
		t.Fatalf("left are %v", left)
	}
	cfg.Older = []uint64{1}
	must(t, f.Land(cfg).Sweep([]transfer.Path{transfer.Path(dir)}))
	if left := temporaries(t, dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// An instance that has lost the ledger creates, removes and changes no name.
func TestNothingIsNamedBehindTheFence(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, "a")
	lost := false
	f := openWith(t, disk.Config{Roots: []string{dir}, Fence: func() error {
		if lost {
			return errors.New("another instance has the ledger")
		}
		return nil
	}})
	l := f.Land(place.LandConfig{Transfer: transfer.NewID(time.Now()), Generation: 1, Journal: disktest.NewJournal(nil),
		Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir), Into: true}}})
	part, err := l.Create(1, "x", 4, 4)
	must(t, err)
	must(t, part.Write([]byte("data")))
	src, err := f.OpenSource("a")
	must(t, err)
	version := src.Version()
	must(t, src.Close())

	lost = true
	if _, err := l.Create(2, "y", 4, 4); transfer.KindOf(err) != transfer.KindBusy || !strings.Contains(err.Error(), "another instance") {
		t.Errorf("a temporary is made: %v", err)
	}
	_, err = l.Commit(t.Context(), []place.Pending{{Part: part, Name: "x", Mode: 0o600, Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile}}})
	var pending *place.PendingError
	if !errors.As(err, &pending) || exists(filepath.Join(dir, "x")) {
		t.Errorf("a file gets its name: %v", err)
	}
	if err := f.DeleteSource("a", version, disk.AsideName(7, transfer.NewID(time.Now()), 1), nil); err == nil || !exists(filepath.Join(dir, "a")) {
		t.Errorf("a source is deleted: %v", err)
	}
	if left := temporaries(t, dir); len(left) != 1 {
		t.Errorf("temporaries: %v", left)
	}
}
