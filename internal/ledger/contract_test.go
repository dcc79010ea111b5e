package ledger_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/ledger/ledgertest"
)

// onDisk returns a ledger in a directory. A crash leaves the directory as it is at that moment; the next run uses a
// copy of it.
func onDisk(t *testing.T) *ledgertest.Place {
	dir := filepath.Join(t.TempDir(), "a", "b")
	return &ledgertest.Place{
		Open: func(opt ledger.Options) (*ledger.Ledger, error) {
			opt.Lock = 10 * time.Millisecond
			l, err := ledger.Open(dir, opt)
			if err == nil && l.Dir() != dir {
				t.Errorf("the ledger of %s is in %s", dir, l.Dir())
			}
			return l, err
		},
		Crash: func(t testing.TB) {
			to := filepath.Join(t.TempDir(), "next")
			must(t, os.CopyFS(to, os.DirFS(dir)))
			dir = to
		},
	}
}

func TestContract(t *testing.T) { ledgertest.Run(t, onDisk) }

func TestStoreContract(t *testing.T) {
	ledgertest.RunStore(t, func(t *testing.T) func() (ledger.Store, error) {
		dir := t.TempDir()
		return func() (ledger.Store, error) { return ledger.OpenBolt(dir, 10*time.Millisecond) }
	})
}

func TestFilesContract(t *testing.T) {
	ledgertest.RunFiles(t, func(t *testing.T) ledger.Files { return ledger.DirFiles(t.TempDir()) })
}
