//go:build failpoint && unix && !linux

package failpoint

import (
	"os"
	"syscall"
)

func stop() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
