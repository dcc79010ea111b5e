//go:build failpoint

package failpoint

import (
	"os"
	"runtime"
	"syscall"
)

// stop stops the process at this very place: a signal to the process would be
// taken by any of its threads, and this one could run on for a while.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
}
