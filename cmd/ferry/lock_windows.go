package main

import (
	"path/filepath"
	"syscall"

	"ferry/internal/transfer"
)

// lockBox takes the lock of a one-box run's directory without waiting: the file
// is opened without sharing.
func lockBox(dir string) (unlock func(), err error) {
	name, err := syscall.UTF16PtrFromString(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindAlive, "%s is in use: %w", dir, err)
	}
	return func() { syscall.CloseHandle(h) }, nil
}
