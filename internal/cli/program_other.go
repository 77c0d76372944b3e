//go:build !linux

package cli

import (
	"os/exec"
	"syscall"
)

// Detach keeps a Ctrl-C from a program that is about to be started.
func Detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
