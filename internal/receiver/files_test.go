package receiver

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

func TestFilesMove(t *testing.T) {
	var f files
	one, two := &file{item: 1}, &file{item: 2}
	if f.cur = one; f.of(1) != one || f.heldOf(1) != nil || f.unended() != one || !f.has(one) {
		t.Fatal("the current file is not found")
	}
	one.ended = true
	f.hold()
	f.hold()
	if f.cur != nil || f.of(1) != one || f.unsummed() != 1 || f.unended() != nil {
		t.Fatalf("a file that has ended is not held: %+v", f)
	}
	f.cur = two
	if all := f.all(); len(all) != 2 || all[1] != two || f.unended() != two {
		t.Errorf("%d files", len(all))
	}
	f.hold()
	if f.unended() != two {
		t.Error("the file of the last epoch is not found")
	}
	f.resume(two)
	if f.cur != two || len(f.held) != 1 || f.heldOf(2) != nil {
		t.Errorf("it does not go on: %+v", f)
	}
	one.summed = true
	if f.unsummed() != 0 {
		t.Error("a file with its digest waits for it")
	}
	f.remove(one)
	f.remove(two)
	f.remove(two)
	if len(f.all()) != 0 || f.has(one) || f.has(two) {
		t.Errorf("files are left: %+v", f)
	}
}

// TestDirectoriesOfAnEarlierRun records missing directories. Such a directory counts as made by the transfer only in a
// later run. In the same run the landing tracks the directories that it has made, and another transfer may have made
// this one.
func TestDirectoriesOfAnEarlierRun(t *testing.T) {
	store, files, id := faulty.NewMemoryStore(), faulty.NewMemoryFiles(), transfer.NewID(time.UnixMilli(1))
	for _, later := range []bool{false, true} {
		l, err := ledger.Open(t.TempDir(), ledger.Options{Store: store, Files: files, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutDir(id, "/made", true), tx.PutDir(id, "/old", false))
		}); err != nil {
			t.Fatal(err)
		}
		rc := &record{r: &Receiver{cfg: Config{Ledger: l}}, id: id}
		if rc.hasMade("/made") != later || rc.hasMade("/old") || rc.hasMade("/never") {
			t.Errorf("in a later run: %v: made %v, old %v", later, rc.hasMade("/made"), rc.hasMade("/old"))
		}
		l.Close()
		store = store.Snapshot()
	}
}
