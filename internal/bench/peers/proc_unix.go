//go:build unix

package peers

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup has a command and its children form a group, so that all of them
// can be ended.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(c *exec.Cmd) { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// peak is the most memory that an ended process had resident, or one of those
// that it waited for, in bytes.
func peak(p *os.ProcessState) int64 {
	use, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(use.Maxrss) // in bytes there, in KiB elsewhere
	}
	return int64(use.Maxrss) << 10
}
