// Package ledgertest is the contract of a ledger, its store and its files. The real store, the one in memory and the
// faulty one are held to it alike.
package ledgertest

import (
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A Place keeps the data of one ledger; it outlives the ledger's processes.
type Place struct {
	// Open opens the ledger with the data of the last run, after Close or Crash. It fills in the store, the files and
	// the directory.
	Open func(ledger.Options) (*ledger.Ledger, error)
	// Crash ends the run that has the ledger open as a kill does. Closing the ledger later does not change its data.
	Crash func(testing.TB)
	// Flaky means that calls on the item journals may fail, and succeed later.
	Flaky bool
}

func (p *Place) open(t testing.TB, change ...func(*ledger.Options)) *ledger.Ledger {
	t.Helper()
	opt := ledger.Options{Reserve: -1}
	for _, f := range change {
		f(&opt)
	}
	l, err := p.Open(opt)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// Run holds ledgers to the contract; place gives each test an empty one.
func Run(t *testing.T, place func(*testing.T) *Place) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *Place)
	}{
		{"opens are counted", opensCount},
		{"a crash keeps acknowledged updates", crashKeeps},
		{"an update after the end fails", updateAfterCloseFails},
		{"updates share transactions", updatesShareTransactions},
		{"records come back as they were", recordsRoundTrip},
		{"deletions are given in portions", deletesAreLimited},
		{"the outbox is numbered", outbox},
		{"finished transfers are forgotten in time", retention},
		{"commands are forgotten in time", commandRetention},
		{"commands are bounded", commandsAreBounded},
		{"tombstones are bounded", tombstonesAreBounded},
		{"a journal comes back as it was", journalRoundTrip},
		{"a journal offers synced items only", journalOffersOnlyWhatIsSynced},
		{"a journal goes on after a crash", journalGoesOn},
		{"journals of finished transfers are removed", orphans},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
