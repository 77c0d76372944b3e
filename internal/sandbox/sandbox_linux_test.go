//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
)

// inside is the argument of this program in a sandbox. The tests run this program because no program of the system is
// the same everywhere.
const inside = "inside"

// handed is its argument if it inherits open files.
const handed = "handed"

// command returns a command that runs the calling test in a sandbox, where flag.Arg(0) is inside.
func command(t *testing.T) (c *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	expect.OK(t, err)
	if c, err = Command(Options{Program: program, Args: []string{"-test.run=^" + t.Name() + "$", inside}}); err != nil {
		t.Fatal(err)
	}
	output = new(bytes.Buffer)
	c.Stdout, c.Stderr = output, output
	return c, output
}

// TestShows checks that a directory is visible with what is in it, and not with what starts like it.
func TestShows(t *testing.T) {
	p := plan{Binds: [][2]string{{"/usr/lib", "/usr/lib"}, {"/x", "/bin"}}}
	for path, want := range map[string]bool{"/usr/lib": true, "/usr/lib/x": true, "/usr/lib64": false, "/usr": false,
		"/bin": true, "/bin/x": true, "/x": false, "/": false} {
		if p.shows(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// run runs the calling test in a sandbox.
func run(t *testing.T) (output string, err error) {
	t.Helper()
	c, out := command(t)
	if err = Start(c); err == nil {
		err = c.Wait()
	}
	if refused := Refused(err, out.String()); refused != nil {
		err = refused
	}
	return out.String(), err
}

// runs checks that the calling test passes in a sandbox.
func runs(t *testing.T) {
	t.Helper()
	output, err := run(t)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// TestAvailable_WhereNamespacesAre checks that there is a sandbox wherever the kernel lets a user create a namespace
// and mount something in it. All other tests are skipped if there is none.
func TestAvailable_WhereNamespacesAre(t *testing.T) {
	if flag.Arg(0) == inside {
		root, err := os.ReadDir("/")
		own, err2 := os.ReadDir(Dir)
		if err := errors.Join(err, err2); err != nil || len(own) > 0 {
			t.Fatalf("%v, %v", err, own)
		}
		_, first, _ := strings.Cut(os.Args[0], "/") // this program's own directory is visible
		first, _, _ = strings.Cut(first, "/")
		for _, entry := range root {
			if name := entry.Name(); !slices.Contains([]string{"dev", "etc", "folder", "lib", "lib64", "usr", first}, name) {
				t.Errorf("/%s is there", name)
			}
		}
		devices, err := os.ReadDir("/dev")
		if err != nil || fmt.Sprint(names(devices)) != "[full null random urandom zero]" {
			t.Errorf("devices %v, %v", devices, err)
		}
		if here, err := os.Getwd(); err != nil || here != Dir || len(os.Environ()) > 0 {
			t.Errorf("in %s with %q, %v", here, os.Environ(), err)
		}
		return
	}
	if os.Getenv("RESTYLE_MOUNT") != "" {
		expect.OK(t, unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
		return
	}
	probe := exec.Command(os.Args[0], "-test.run=^TestAvailable_WhereNamespacesAre$")
	probe.Env = append(os.Environ(), "RESTYLE_MOUNT=1")
	probe.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if output, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, output)
	}
	if output, err := run(t); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

func names(entries []os.DirEntry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestCommand_Fresh checks what a program is told that makes namespaces for each piece of code, and that its process
// starts without an environment, without a terminal, and ends with this one.
func TestCommand_Fresh(t *testing.T) {
	c, err := Command(Options{Program: "/x", Args: []string{"a"}, Fresh: true})
	expect.OK(t, err)
	if a := c.SysProcAttr; c.Env == nil || len(c.Env) > 0 || c.Dir != "/" || !a.Setsid || a.Pdeathsig != unix.SIGKILL {
		t.Errorf("%q in %q, %+v", c.Env, c.Dir, a)
	}
	var p plan
	var steps map[string]json.RawMessage
	expect.OK(t, errors.Join(json.Unmarshal([]byte(c.Args[1]), &p), json.Unmarshal([]byte(p.Args[1]), &steps)))
	drop := ""
	if p.ID != 0 {
		drop = fmt.Sprintf("[%d,0,0,0],[%d,65534,65534,65534],[%d,65534,65534,65534],", unix.SYS_SETGROUPS,
			unix.SYS_SETRESGID, unix.SYS_SETRESUID)
	}
	for key, want := range map[string]string{
		"own":  fmt.Sprintf("[%d,1,0]", unix.SYS_PIDFD_OPEN),
		"fork": fmt.Sprintf("[%d,%d]", unix.SYS_UNSHARE, unix.CLONE_NEWPID),
		"back": fmt.Sprintf("[%d,%d]", unix.SYS_SETNS, unix.CLONE_NEWPID),
		"enter": fmt.Sprintf(`[[%d,%d],[%d,"tmpfs","/folder","tmpfs",14,"mode=0700,size=1m,nr_inodes=64,uid=%d,gid=%d"]]`,
			unix.SYS_UNSHARE, unix.CLONE_NEWNS, unix.SYS_MOUNT, p.ID, p.ID),
		"drop": fmt.Sprintf(`[%s[%d,"/folder"],[%d,{"bytes":"2205082000000000"},{"bytes":"%048d"}],`+
			`[%d,1,0,{"filter":"20000000`, drop, unix.SYS_CHDIR, unix.SYS_CAPSET, 0, unix.SYS_SECCOMP),
	} {
		if got := string(steps[key]); got != want && (key != "drop" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %.300s, want %s", key, got, want)
		}
	}
}

// TestHide_UntilAllShow checks that this process is hidden as long as anyone wants that.
func TestHide_UntilAllShow(t *testing.T) {
	hidden := func(want bool) {
		t.Helper()
		if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || (d == 0) != want {
			t.Errorf("dumpable is %d, %v", d, err)
		}
	}
	one, two := Hide(), Hide()
	hidden(true)
	c, _ := command(t)
	if err := Start(c); err == nil { // which has to show it for a moment
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	hidden(true)
	one()
	one()
	hidden(true)
	two()
	hidden(false)
}

// TestHasNobody reads maps of users.
func TestHasNobody(t *testing.T) {
	for text, want := range map[string]bool{"0 0 4294967295\n": true, "0 1000 1\n": false, "": false, "x\n": false,
		"0 1000 1\n65534 65534 1\n": true, "0 0 65534\n": false, "0 0 65535\n": true, "65535 0 9\n": false} {
		if hasNobody(expect.File(t, "map", text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if !hasNobody(filepath.Join(t.TempDir(), "none")) {
		t.Error("a kernel without user namespaces reports it later")
	}
}

// TestNamespaces checks that the program shares no namespace with this process.
func TestNamespaces(t *testing.T) {
	if flag.Arg(0) == inside {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has read the namespaces
		return
	}
	c, output := command(t)
	in, err := c.StdinPipe()
	expect.OK(t, err)
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
	if refused := Refused(err, output.String()); refused != nil {
		t.Skip(refused)
	}
	if err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// TestOpenFiles_AreNotInherited checks that the program does not get the files that this process has open, as a shell
// may have handed them down, and that the new process starts whichever files are open.
func TestOpenFiles_AreNotInherited(t *testing.T) {
	switch flag.Arg(0) {
	case inside:
		for fd := 3; fd < 1000; fd++ {
			var own syscall.Stat_t
			if err := syscall.Fstat(fd, &own); err == nil && own.Mode&syscall.S_IFMT == syscall.S_IFREG {
				t.Errorf("%d is open", fd)
			}
		}
		return
	case handed:
		runs(t)
		return
	}
	path := filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(path, nil, 0o666))
	file, err := os.Open(path)
	expect.OK(t, err)
	defer file.Close()
	for _, n := range []int{1, 5, 6, 7, 100} { // the Go runtime opens its own files after these
		c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", handed)
		c.ExtraFiles = slices.Repeat([]*os.File{file}, n)
		if output, err := c.CombinedOutput(); err != nil {
			t.Errorf("with %d files: %v: %s", n, err, output)
		}
	}
}

// TestLinks_OfRootAreVisible checks that a path through a link of the root, such as /lib, is visible under both names.
func TestLinks_OfRootAreVisible(t *testing.T) {
	if target, err := os.Readlink("/lib"); err != nil || target != "usr/lib" {
		t.Skipf("/lib leads to %q", target)
	}
	for _, visible := range []string{"/lib/os-release", "/usr/lib/os-release", "/lib"} {
		c, err := Command(Options{Program: "/usr/lib/os-release", Visible: []string{visible}})
		expect.OK(t, err)
		var p plan
		expect.OK(t, json.Unmarshal([]byte(c.Args[1]), &p))
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

// TestHostname checks that the program does not see the machine's name.
func TestHostname(t *testing.T) {
	if flag.Arg(0) == inside {
		if name, err := os.Hostname(); err != nil || name != "sandbox" {
			t.Errorf("%v, %q", err, name)
		}
		return
	}
	runs(t)
}

// TestRefused_IsNotMissing checks that a program that fails is not reported as a missing sandbox, nor a missing sandbox
// as a program that fails.
func TestRefused_IsNotMissing(t *testing.T) {
	if flag.Arg(0) == inside {
		os.Exit(refused)
	}
	if output, err := run(t); err == nil || errors.Is(err, ErrUnavailable) && !strings.HasPrefix(output, marker) {
		t.Errorf("%v, %q", err, output)
	}
	c, err := Command(Options{Program: "/no/such/program"})
	expect.OK(t, err)
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

// TestDescendants checks that all that a process started is counted with it: by each of its threads, and what these
// processes started.
func TestDescendants(t *testing.T) {
	if _, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skipf("this kernel does not tell which processes descend from another: %v", err)
	}
	hold, release, err := os.Pipe()
	expect.OK(t, err)
	defer hold.Close()
	started := make(chan []string)
	var threads sync.WaitGroup
	for range 3 {
		threads.Go(func() {
			runtime.LockOSThread() // a thread of its own, until the process has ended
			c := exec.Command("/bin/sh", "-c", "(read x <&3) & echo $!; (read x <&3) & echo $!; echo $$; exec >&-\n"+
				"read x <&3; wait")
			c.ExtraFiles = []*os.File{hold}
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Error(err)
				started <- nil
				return
			}
			var pids [3]string
			if _, err := fmt.Fscan(out, &pids[0], &pids[1], &pids[2]); err != nil {
				t.Error(err)
			}
			started <- pids[:]
			_ = c.Wait()
		})
	}
	var want []string
	for range 3 {
		want = append(want, <-started...)
	}
	found := descendants(os.Getpid())
	release.Close()
	threads.Wait()
	for _, pid := range append(want, strconv.Itoa(os.Getpid())) {
		if !slices.Contains(found, "/proc/"+pid) {
			t.Errorf("process %s is not among %v", pid, found)
		}
	}
}
