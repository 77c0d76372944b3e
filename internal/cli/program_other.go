//go:build !linux

package cli

import (
	"os/exec"
	"syscall"
)

// detach keeps a Ctrl-C from a program that is about to be started.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
