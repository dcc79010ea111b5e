package monitor

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// BenchmarkPollOfKnownFiles measures a poll of a directory with 100,000 files that were all sent before, with a ledger
// on disk: the cost of an idle monitor.
func BenchmarkPollOfKnownFiles(b *testing.B) {
	const many = 100_000
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	must(os.Mkdir(filepath.Join(dir, "in"), 0o755))
	for n := range many {
		must(os.WriteFile(filepath.Join(dir, "in", fmt.Sprintf("file-%06d", n)), nil, 0o644))
	}
	fs, err := local.Open(local.Config{Roots: []string{dir}})
	must(err)
	defer fs.Close()
	l, err := ledger.Open(b.TempDir(), ledger.Options{Clock: clock.System})
	must(err)
	defer l.Close()
	m := newMonitors(duty.Services{Agent: "ALPHA", Ledger: l, Place: fs.Place(), Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Offer:     func(word.Origin, *transfer.Request) (*transfer.Progress, error) { return &transfer.Progress{}, nil },
		Permit:    func(string) place.Permit { return nil },
		CheckKeys: func(word.Origin) error { return nil },
		May:       func(string, transfer.Authority) error { return nil },
		Note:      func(*ledger.Tx, audit.Record) error { return nil }}, nil)
	d := files(func(d *Definition) { d.Batch = 1000 })
	must(l.Update(func(t *ledger.Tx) error {
		_, err := m.Commands()[CommandCreate].Do(t, duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Create{*d, false}))
		return err
	}))
	r := newRunner(&m.Services, "M", m.scans, &m.times, nil)
	rec, err := r.book.load()
	must(err)
	if rec == nil {
		b.Fatal("there is no monitor M")
	}
	_, err = r.step(b.Context(), rec)
	must(err)
	for b.Loop() {
		_, err = r.poll(b.Context(), rec, false)
		must(err)
	}
	if got := r.display.picture(); got.Matched != many {
		b.Errorf("a poll has seen %d files", got.Matched)
	}
}
