//go:build !linux && !windows

package localfs

import "syscall"

// umask is the process's file mode creation mask. It is strict for the moment in
// which it is asked for, because it can only be read by setting it.
func umask() uint32 {
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return uint32(m)
}
