package faulty_test

import (
	"syscall"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/ledger/ledgertest"
)

// inMemory returns a ledger on a store and files that wrap may add faults to. A crash of the host loses unsynced data,
// one of the process loses nothing.
func inMemory(t *testing.T, host bool, wrap func(ledger.Store, ledger.Files) (ledger.Store, ledger.Files)) *ledgertest.Place {
	store, files := faulty.NewMemoryStore(), faulty.NewMemoryFiles()
	r := caseRand(t.Name())
	return &ledgertest.Place{
		Open: func(opt ledger.Options) (*ledger.Ledger, error) {
			store, files = store.Snapshot(), files.Killed()
			opt.Store, opt.Files = wrap(store, files)
			return ledger.Open("", opt)
		},
		Crash: func(testing.TB) {
			store, files = store.Snapshot(), files.Killed()
			if host {
				files = files.Crashed(r)
			}
		},
	}
}

func plain(s ledger.Store, f ledger.Files) (ledger.Store, ledger.Files) { return s, f }

func TestLedgerContractInMemory(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) *ledgertest.Place { return inMemory(t, false, plain) })
}

func TestLedgerContractOverCrashesOfTheHost(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) *ledgertest.Place { return inMemory(t, true, plain) })
}

func TestLedgerContractDecorated(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) *ledgertest.Place {
		return inMemory(t, true, func(s ledger.Store, f ledger.Files) (ledger.Store, ledger.Files) {
			return faulty.FaultyStore{Store: s, Fault: &faulty.StoreFault{}}, faulty.FaultyFiles{Files: f, Fault: &faulty.StoreFault{}}
		})
	})
}

// TestLedgerContractWithFaults: the ledger hides transactions that fail although they took effect, or for lack of
// space. Callers repeat failed calls on item journals.
func TestLedgerContractWithFaults(t *testing.T) {
	for name, fault := range map[string]func(at, every int64) *faulty.StoreFault{
		"the sync fails and it took effect": func(at, every int64) *faulty.StoreFault {
			return &faulty.StoreFault{At: at, Every: every, Late: true, Errno: syscall.EIO}
		},
		"the disk is full": func(at, every int64) *faulty.StoreFault {
			return &faulty.StoreFault{At: at, Every: every, Errno: syscall.ENOSPC}
		},
		"the disk is full and it took effect": func(at, every int64) *faulty.StoreFault {
			return &faulty.StoreFault{At: at, Every: every, Late: true, Errno: syscall.ENOSPC}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []*faulty.StoreFault
			ledgertest.Run(t, func(t *testing.T) *ledgertest.Place {
				p := inMemory(t, false, func(s ledger.Store, f ledger.Files) (ledger.Store, ledger.Files) {
					store, files := fault(3, 3), fault(5, 17) // two transactions open a ledger
					faults = append(faults, store, files)
					return faulty.FaultyStore{Store: s, Fault: store}, faulty.FaultyFiles{Files: f, Fault: files}
				})
				p.Flaky = true
				return p
			})
			var n int64
			for _, f := range faults {
				n += f.Trips()
			}
			if n < 100 {
				t.Errorf("only %d calls have failed", n)
			}
		})
	}
}

func TestStoreContract(t *testing.T) {
	for name, wrap := range map[string]func(ledger.Store) ledger.Store{
		"in memory": func(s ledger.Store) ledger.Store { return s },
		"decorated": func(s ledger.Store) ledger.Store {
			return faulty.FaultyStore{Store: s, Fault: &faulty.StoreFault{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledgertest.RunStore(t, func(t *testing.T) func() (ledger.Store, error) {
				s := faulty.NewMemoryStore()
				return func() (ledger.Store, error) {
					s = s.Snapshot()
					return wrap(s), nil
				}
			})
		})
	}
}

func TestFilesContract(t *testing.T) {
	ledgertest.RunFiles(t, func(*testing.T) ledger.Files { return faulty.NewMemoryFiles() })
	ledgertest.RunFiles(t, func(*testing.T) ledger.Files {
		return faulty.FaultyFiles{Files: faulty.NewMemoryFiles(), Fault: &faulty.StoreFault{}}
	})
}
