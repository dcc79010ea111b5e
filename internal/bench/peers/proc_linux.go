package peers

import (
	"os/exec"
	"syscall"
)

// dieWithUs has a command killed when this process ends, however it does.
func dieWithUs(c *exec.Cmd) { c.SysProcAttr.Pdeathsig = syscall.SIGKILL }
