//go:build !linux && !windows

package disk

import "syscall"

// Umask returns the process's file mode creation mask. The mask can only be read by setting it, and is strict for that
// moment.
func Umask() uint32 {
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return uint32(m)
}
