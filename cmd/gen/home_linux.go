package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a Ctrl-C from the server, which gen ends once it is done with it, and ends the server with gen.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
