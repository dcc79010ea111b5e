package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// checkEvery is the time between checks that the files of an idle ledger are still in their places.
const checkEvery = 5 * time.Second

// An ownership is the state of this process's hold on the ledger. It ends when the ledger's files have lost their paths: an
// operator or a program has removed, renamed or replaced the state directory under a running agent. Data written after
// that is lost with the process, so the ledger stops all reads and writes. It also ends when another instance has taken
// over a shared ledger (DirLock).
type ownership struct {
	dir   string   // for messages
	lock  *DirLock // nil: it is not shared
	files []filelock.PathIdentity
	why   atomic.Pointer[transfer.Error]
	gone  chan struct{} // closed after why is set
	once  sync.Once
}

// setLost records why all reads and writes fail from now on.
func (t *ownership) setLost(e *transfer.Error) {
	t.once.Do(func() {
		t.why.Store(e)
		close(t.gone)
	})
}

// recordFiles records the files at the paths, which are to stay there.
func (t *ownership) recordFiles(paths []string) error {
	for _, path := range paths {
		p, err := filelock.PathIdentityOf(path)
		if err != nil {
			return transfer.Errorf(transfer.KindInternal, "the ledger cannot be looked at: %w", err)
		}
		t.files = append(t.files, p)
	}
	return nil
}

// check compares paths and files. Its error is final. Only the writer calls it.
func (t *ownership) check() error {
	if err := t.Lost(); err != nil {
		return err
	}
	if t.lock != nil {
		if err := t.Fence(); transfer.KindOf(err) == transfer.KindAlive {
			return err
		}
	}

	for _, p := range t.files {
		err := p.Check()
		if err == nil {
			continue
		}
		e := transfer.Errorf(transfer.KindInternal, "the state directory %s was taken away: %w", t.dir, err).
			WithHint("put it back as it was, or begin anew in an empty one; outcomes of transfers under way are then unknown")
		t.setLost(e)
		return t.Lost()
	}
	return nil
}

// Gone returns a channel that is closed when the ledger has found that its files have lost their paths, which takes
// checkEvery at most. Lost then returns the error.
func (t *ownership) Gone() <-chan struct{} { return t.gone }

// Lost returns the reason why the ledger can no longer be used; nil while it can. Every View and every Update fails
// with it.
func (t *ownership) Lost() error {
	if e := t.why.Load(); e != nil {
		return e
	}
	return nil
}
