package peers

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes the kernel kill a command when this process ends in any way.
func dieWithUs(c *exec.Cmd) { c.SysProcAttr.Pdeathsig = syscall.SIGKILL }
