//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the program's user and group if this process runs as root. As root, even without capabilities, the program
// could write root's files.
const nobody = 65534

// refused is the exit status of a process that could not enter the sandbox. The reason is on its standard error.
const refused = 125

// system are the paths that every dynamically linked program needs to start.
var system = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"}

// A plan is what enter does. Command passes it to the new process.
type plan struct {
	Options
	Links map[string]string // symbolic links to make: targets by path
	Binds [][2]string       // what is visible: the path without symbolic links, and the path inside
	ID    int               // user and group of the program, inside
}

// Command returns a command that runs a program in a sandbox. The caller may add files to it, and then passes it to
// Start. The error is ErrUnavailable. Whether the machine can provide a sandbox may become known only when the command
// runs: see Refused.
func Command(o Options) (*exec.Cmd, error) {
	p := plan{Options: o, Links: map[string]string{}}
	for _, path := range append(append(system[:len(system):len(system)], o.Visible...), o.Program) {
		path = filepath.Clean(path)
		real, err := filepath.EvalSymlinks(path)
		first, _, _ := strings.Cut(path[1:], "/")
		if target, err := os.Readlink("/" + first); err == nil { // such as /lib
			p.Links["/"+first] = target
			path = real
		}
		if err == nil && !p.shows(path) {
			p.Binds = append(p.Binds, [2]string{real, path})
		}
	}
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
	}
	if os.Geteuid() == 0 && hasNobody("/proc/self/uid_map") && hasNobody("/proc/self/gid_map") {
		p.ID = nobody
		one := syscall.SysProcIDMap{ContainerID: nobody, HostID: nobody, Size: 1}
		attr.UidMappings, attr.GidMappings = append(attr.UidMappings, one), append(attr.GidMappings, one)
		attr.GidMappingsEnableSetgroups = true
	}
	if o.Fresh {
		steps, err := json.Marshal(p.fresh())
		if err != nil {
			return nil, err
		}
		p.Args = append(slices.Clip(p.Args), string(steps))
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{marker, string(text)}, Env: []string{}, Dir: "/",
		SysProcAttr: attr}, nil
}

// shows reports whether a path is already visible.
func (p *plan) shows(path string) bool {
	for _, b := range p.Binds {
		if path == b[1] || strings.HasPrefix(path, b[1]+"/") {
			return true
		}
	}
	return false
}

// hasNobody reports whether the user, or the group, exists in this process's own user namespace.
func hasNobody(file string) bool {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= nobody && nobody < inside+size {
			return true
		}
	}
	return err != nil // a kernel without user namespaces, which will report that itself
}

// Start starts a command that Command made. The error is ErrUnavailable unless it concerns a file or a pipe.
func Start(c *exec.Cmd) error {
	hiding.Lock()
	defer hiding.Unlock()
	if hiders > 0 { // while this process is hidden, only root may write the new process's user map
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return err
		}
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	err := c.Start()
	var path *os.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%w: the kernel makes no new user namespace (%v)", ErrUnavailable, path.Err)
	}
	return err
}

// Refused returns ErrUnavailable, with the reason, if a command that Command made ended because its sandbox could not
// be created. err is the result of its Wait, and problem its standard error.
func Refused(err error, problem string) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == refused && strings.HasPrefix(problem, marker) {
		return fmt.Errorf("%w: %s", ErrUnavailable, strings.TrimSpace(strings.TrimPrefix(problem, marker+": ")))
	}
	return nil
}

var (
	hiding sync.Mutex
	hiders int
)

// Hide hides the memory and the environment of this process, which may contain keys, from all other processes of the
// user until show is called. Root's processes can still read them.
func Hide() (show func()) {
	set := func(by int, dumpable uintptr) {
		hiding.Lock()
		defer hiding.Unlock()
		if hiders += by; hiders == max(by, 0) { // the first call of Hide, or the last call of show
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0) // cannot fail with 0 or 1
		}
	}
	set(1, 0)
	return sync.OnceFunc(func() { set(-1, 1) })
}
