// Package filelock makes a directory one process's own. It keeps a second process out, and notices when a file that the
// process has open there has lost its path. A lock belongs to a file's handle: the operating system releases it when
// the process ends, in any way.
package filelock

import (
	"errors"
	"io"
	"os"
)

// ErrHeld says that another process, or another handle of this one, has the
// lock.
var ErrHeld = errors.New("the lock is held")

// Take locks a file without waiting, and creates it where it is missing. Closing the result releases the lock. The
// error is ErrHeld, or the reason why the file cannot be used.
func Take(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := try(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
