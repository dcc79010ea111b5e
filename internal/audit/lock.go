package audit

import (
	"io"
	"os"
	"path/filepath"

	"ferry/internal/transfer"
)

// lock makes the caller the directory's one writer until it closes the result.
func lock(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "audit log %s: %w", dir, err)
	}
	held, err := tryLock(f)
	switch {
	case held:
		f.Close()
		return nil, transfer.Errorf(transfer.KindConflict, "the audit log in %s is in use by another process", dir).
			WithHint("stop the other coordination, or give this one a directory of its own")
	case err != nil:
		f.Close()
		return nil, transfer.Errorf(transfer.KindOf(err), "audit log %s cannot be locked: %w", dir, err).
			WithHint("put it on a local file system with locks")
	}
	return f, nil
}
