//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// run runs a program of the system in a sandbox.
func run(t *testing.T, program string, args ...string) (output string, err error) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Skip(err)
	}
	c, err := Command(Options{Program: path, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	if err = Start(c); err == nil {
		err = c.Wait()
	}
	if refused := Refused(err, problem.String()); refused != nil {
		err = refused
	}
	return out.String() + problem.String(), err
}

// TestAvailable: there is a sandbox wherever the kernel lets a user make a namespace and mount something there. All other tests are
// skipped where there is none.
func TestAvailable(t *testing.T) {
	if os.Getenv("RESTYLE_MOUNT") != "" {
		if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		return
	}
	probe := exec.Command(os.Args[0], "-test.run=^TestAvailable$")
	probe.Env = append(os.Environ(), "RESTYLE_MOUNT=1")
	probe.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if output, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, output)
	}
	if output, err := run(t, "ls", "/", Folder); err != nil || !strings.Contains(output, "dev\n") || strings.Contains(output, "home") {
		t.Errorf("%v, %q", err, output)
	}
}

// TestHostname: the machine's name is its own affair.
func TestHostname(t *testing.T) {
	output, err := run(t, "uname", "-n")
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil || output != "sandbox\n" {
		t.Errorf("%v, %q", err, output)
	}
}

// TestRefused: a program that fails is not a sandbox that is not there, and the other way round.
func TestRefused(t *testing.T) {
	if output, err := run(t, "cat", "/no/such/file"); err == nil || errors.Is(err, ErrUnavailable) && !strings.HasPrefix(output, marker) {
		t.Errorf("%v, %q", err, output)
	}
	c, err := Command(Options{Program: "/no/such/program"})
	if err != nil {
		t.Fatal(err)
	}
	var problem bytes.Buffer
	c.Stderr = &problem
	err = Start(c)
	if err == nil {
		err = Refused(c.Wait(), problem.String())
	}
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, %q", err, problem.String())
	}
}
