package filelock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// try locks a byte that no file has, because a lock on Windows keeps even this process's other handles from the locked
// bytes. bbolt locks the same byte.
func try(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: math.MaxUint32, OffsetHigh: math.MaxUint32})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrHeld
	}
	return err
}
