//go:build unix && !linux

package program

import "syscall"

// mortal does nothing: only Linux can end a program with its agent.
func mortal(*syscall.SysProcAttr) {}
