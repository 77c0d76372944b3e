package cli

import (
	"os/exec"
	"syscall"
)

// detach keeps a Ctrl-C from a program that is about to be started, and has it asked to end with the thread that starts
// it.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
