package program

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"ferry/internal/transfer"
)

// checkWritable checks nothing, because permission bits do not say which users may write here.
func checkWritable(fs.FileInfo) error { return nil }

// mayExecute checks nothing, because permission bits do not say which files can be executed here.
func mayExecute(string) bool { return true }

// setProcessGroup gives a command a process group; a kill ends the process alone.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// refuseScript refuses arguments for a batch file, because a shell would take them apart.
func refuseScript(file string, args []string) error {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".bat", ".cmd":
		if len(args) > 0 {
			return transfer.Errorf(transfer.KindProgram, "the batch file %s cannot be given arguments: %w", filepath.Base(file), errors.New("a shell would interpret them")).
				WithHint("give it none; its environment describes the transfer")
		}
	}
	return nil
}
