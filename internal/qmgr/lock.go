package qmgr

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"ferry/internal/transfer"
)

// A dirLock keeps a second queue manager out of a directory. The operating
// system lets go of it when the process ends, however it ends.
type dirLock struct{ f *os.File }

// errLocked is what lockFile returns when another process, or another server of
// this one, has the lock.
var errLocked = errors.New("locked")

// lockDir makes the directory and locks it.
func lockDir(dir string) (*dirLock, error) {
	fail := func(err error) error {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err
		}
		return transfer.Errorf(transfer.KindUnwritable, "the queue manager's directory %s cannot be used: %w", dir, err).
			WithHint("give it a directory that it may write with --dir")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail(err)
	}
	f, err := lockFile(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, transfer.Errorf(transfer.KindAlive, "the directory %s is in use by another queue manager", dir).
			WithHint("stop that one, or give this one a directory of its own with --dir")
	}
	if err != nil {
		return nil, fail(err)
	}
	return &dirLock{f}, nil
}

func (l *dirLock) unlock() {
	if l != nil {
		l.f.Close()
	}
}
