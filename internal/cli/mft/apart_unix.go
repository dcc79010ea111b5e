//go:build unix

package mft

import (
	"os/exec"
	"syscall"
)

// apart makes a child a session of its own, which the end of a terminal does not reach.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
