package program

import (
	"math"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel kill a program when the thread that has started it ends. run keeps that thread.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Files that this process opens are closed in a program anyway. This closes files, too, that the parent of this
	// process has left open in it. An old kernel cannot.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	return cmd.Run()
}
