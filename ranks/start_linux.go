package ranks

import (
	"os/exec"
	"syscall"
)

// endWithParent asks rank 0 to end, with all saved, if the process that started it is killed.
func endWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
