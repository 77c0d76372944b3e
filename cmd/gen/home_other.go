//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a Ctrl-C from the server, which gen ends once it is done with it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
