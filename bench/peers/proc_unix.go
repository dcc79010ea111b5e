//go:build unix

package peers

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup puts a command and its children into a process group, so that all of them can be ended.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(c *exec.Cmd) { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// peak returns the most resident memory of an ended process, or of a child that it waited for, in bytes.
func peak(p *os.ProcessState) int64 {
	use, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(use.Maxrss) // in bytes here, in KiB elsewhere
	}
	return int64(use.Maxrss) << 10
}
