//go:build linux

package network

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Freeze stops a process and returns when none of its threads runs any more. It returns false if the process is gone.
func (n *Network) Freeze(who string) bool {
	n.t.Helper()
	n.signal(who, syscall.SIGSTOP)
	pid, frozen := n.Pid(who), false
	n.Until(who+" is frozen", func() bool {
		frozen = Stopped(pid)
		return frozen || !n.Running(who)
	})
	return frozen
}

// Thaw continues a frozen process.
func (n *Network) Thaw(who string) {
	n.t.Helper()
	n.signal(who, syscall.SIGCONT)
}

// Stopped reports whether every thread of a process is stopped.
func Stopped(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range tasks {
		data, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		// The state follows the program's name, which is in parentheses.
		if _, rest, ok := strings.Cut(string(data), ") "); !ok || rest == "" || rest[0] != 'T' {
			return false
		}
	}
	return len(tasks) > 0
}

// OpenFiles lists the files beneath a directory that a process has open.
func (n *Network) OpenFiles(who, dir string) (open []string) {
	n.t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", n.Pid(who))
	names, _ := os.ReadDir(fds)
	for _, d := range names {
		if path, err := os.Readlink(filepath.Join(fds, d.Name())); err == nil && strings.HasPrefix(path, dir+"/") {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				open = append(open, path)
			}
		}
	}
	return open
}
