package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

const lockName = "lock"

// A DirLock keeps a second queue manager out of a directory.
type DirLock struct{ lock io.Closer }

// Lock makes the directory and locks it.
func Lock(dir string) (*DirLock, error) {
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

	lock, err := filelock.Take(filepath.Join(dir, lockName))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, transfer.Errorf(transfer.KindAlive, "the directory %s is in use by another queue manager", dir).
			WithHint("stop that one, or give this one a directory of its own with --dir")
	}
	if err != nil {
		return nil, fail(err)
	}
	return &DirLock{lock}, nil
}

func (l *DirLock) Unlock() {
	if l != nil {
		l.lock.Close()
	}
}
