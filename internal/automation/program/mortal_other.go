//go:build unix && !linux

package program

import (
	"syscall"
)

// mortal does nothing: programs outlive a crash of the agent on this system.
func mortal(*syscall.SysProcAttr) {}
