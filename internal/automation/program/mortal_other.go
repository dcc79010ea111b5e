//go:build unix && !linux

package program

import "syscall"

// mortal does nothing where the system has no such thing.
func mortal(*syscall.SysProcAttr) {}
