//go:build unix

package program

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkWritable returns the reason why a user other than this one and root could write to a file or directory.
func checkWritable(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return errors.New("belongs to another user")
	case info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0:
		return errors.New("can be written by others")
	}
	return nil
}

// mayExecute reports whether this user may execute a file.
func mayExecute(file string) bool { return unix.Access(file, unix.X_OK) == nil }

// setProcessGroup gives a command a process group, which is killed at the end of its context.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	endWithParent(cmd.SysProcAttr)
}

// refuseScript refuses nothing: the kernel, and no shell, takes the arguments.
func refuseScript(string, []string) error { return nil }
