//go:build linux

// Package sandboxtest runs tests in a process that cannot create a sandbox.
package sandboxtest

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Forbidden runs the calling test again in a process for which the kernel creates no namespaces, and reports the
// outcome. It returns true in that process, and false in this one, where the test must then return. If namespaces
// cannot be forbidden, it skips the test.
func Forbidden(t *testing.T) bool {
	t.Helper()
	const mark = "RESTYLE_NO_SANDBOX"
	if os.Getenv(mark) != "" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Skip("namespaces cannot be forbidden here: ", err) // for example in a container whose /proc/sys is read-only
		}
		return true
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), mark+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	output, err := command.CombinedOutput()
	if _, started := err.(*exec.ExitError); err != nil && !started {
		t.Skip("the kernel makes no namespaces here, not even one to forbid them in: ", err)
	}
	if bytes.Contains(output, []byte("--- SKIP: "+t.Name())) {
		t.Skipf("%s", output)
	}
	if err != nil || !bytes.Contains(output, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, output)
	}
	return false
}
