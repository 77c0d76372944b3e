package cli

import (
	"os/exec"
	"syscall"
)

// Detach keeps a Ctrl-C from a program that is about to be started, and on Linux has it asked to end with the thread
// that starts it: lock that thread (runtime.LockOSThread) until the program has ended.
func Detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
