//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"

	"ferry/internal/transfer"
)

// lockBox takes the lock of a one-box run's directory without waiting.
func lockBox(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, transfer.Errorf(transfer.KindAlive, "%s is in use: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
