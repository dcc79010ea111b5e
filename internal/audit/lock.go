package audit

import (
	"errors"
	"io"
	"path/filepath"

	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// lock makes the caller the directory's one writer until it closes the result.
func lock(dir string) (io.Closer, error) {
	held, err := filelock.Take(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, transfer.Errorf(transfer.KindConflict, "the audit log in %s is in use by another process", dir).
			WithHint("stop the other coordination, or give this one a directory of its own")
	case err != nil:
		return nil, transfer.Errorf(transfer.KindOf(err), "audit log %s cannot be locked: %w", dir, err).
			WithHint("put it on a local file system with locks")
	}
	return held, nil
}
