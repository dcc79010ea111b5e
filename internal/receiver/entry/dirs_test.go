package entry

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

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
		e := (&Entries{Ledger: l}).Of(id, "ALPHA", slog.New(slog.DiscardHandler))
		if e.HasMade("/made") != later || e.HasMade("/old") || e.HasMade("/never") {
			t.Errorf("in a later run: %v: made %v, old %v", later, e.HasMade("/made"), e.HasMade("/old"))
		}
		l.Close()
		store = store.Snapshot()
	}
}
