package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/cli"
)

// TestNoSandbox: where the kernel makes no namespaces, nothing is asked until it is said how answers are to be run.
func TestNoSandbox(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	if os.Getenv("RESTYLE_NO_SANDBOX") == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestNoSandbox$", "-test.v")
		command.Env = append(os.Environ(), "RESTYLE_NO_SANDBOX=1")
		command.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
		output, err := command.CombinedOutput()
		if _, started := err.(*exec.ExitError); err != nil && !started {
			t.Skip("the kernel makes no namespaces here, not even one to forbid them in: ", err)
		}
		if bytes.Contains(output, []byte("--- SKIP: TestNoSandbox")) {
			t.Skipf("%s", output)
		}
		if err != nil || !bytes.Contains(output, []byte("--- PASS: TestNoSandbox")) {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		t.Skip("namespaces cannot be forbidden here: ", err) // as in a container whose /proc/sys is read-only
	}
	ask := []string{"quality", "--only", "base", "--base", tinyBase, "--questions", knownFile(t)}
	code, stdout, stderr := bench(t, ask...)
	if code != cli.Failed || stdout != "" {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"there is no sandbox here", `--python ""`, "--run-code-unprotected", "that your user may"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("there is no %q in %s", want, stderr)
		}
	}
	if code, stdout, stderr := bench(t, append(ask, "--python", "")...); code != cli.Done || !strings.Contains(stdout, "nothing was run") {
		t.Errorf("without running: exit %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := bench(t, append(ask, "--run-code-unprotected")...); code != cli.Done || !strings.Contains(stdout, ", unprotected;") {
		t.Errorf("unprotected: exit %d, %s%s", code, stdout, stderr)
	}
}
