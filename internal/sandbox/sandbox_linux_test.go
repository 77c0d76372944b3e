//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	if output, err := run(t, "ls", "-A", "/", Folder); err != nil || !strings.Contains(output, "dev\n") || strings.Contains(output, "home") || strings.Contains(output, "\n.") {
		t.Errorf("%v, %q", err, output)
	}
}

// TestNamespaces: none is shared with this process.
func TestNamespaces(t *testing.T) {
	path, err := exec.LookPath("cat")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Skip(err)
	}
	c, err := Command(Options{Program: path})
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	if err := Start(c); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + name)
		others, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.Process.Pid, name))
		if err := errors.Join(err, err2); err != nil || own == others {
			t.Errorf("%s: %s and %s, %v", name, own, others, err)
		}
	}
	_ = in.Close()
	err = c.Wait()
	if refused := Refused(err, problem.String()); refused != nil {
		t.Skip(refused)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestOpenFiles: a file that this process holds open, as a shell may have handed it down, is none of the program's.
func TestOpenFiles(t *testing.T) {
	const as = 15 // beyond those of the sandbox's own
	if os.Getpid() == 1 {
		if _, err := syscall.Write(as, []byte("x")); err != syscall.EBADF {
			t.Fatalf("writing to it: %v", err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "file")
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o666) // not closed when a program is started
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := unix.Dup3(fd, as, 0); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(as)
	output, err := run(t, os.Args[0], "-test.run=^TestOpenFiles$")
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// TestLinks: what is named through a link of the root, such as /lib, is seen under both names.
func TestLinks(t *testing.T) {
	if target, err := os.Readlink("/lib"); err != nil || target != "usr/lib" {
		t.Skipf("/lib leads to %q", target)
	}
	for _, visible := range []string{"/lib/os-release", "/usr/lib/os-release", "/lib"} {
		c, err := Command(Options{Program: "/usr/lib/os-release", Visible: []string{visible}})
		if err != nil {
			t.Fatal(err)
		}
		var p plan
		if err := json.Unmarshal([]byte(c.Args[1]), &p); err != nil {
			t.Fatal(err)
		}
		for _, b := range p.Binds {
			if b[1] == "/lib" || strings.HasPrefix(b[1], "/lib/") {
				t.Errorf("%s: %s hides the link", visible, b[1])
			}
		}
		if p.Links["/lib"] != "usr/lib" || !p.shows("/usr/lib/os-release") {
			t.Errorf("%s: %+v", visible, p)
		}
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
