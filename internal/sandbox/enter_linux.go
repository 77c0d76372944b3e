//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// marker is the name under which this program starts itself to become a sandbox.
const marker = "restyle-sandbox"

// This is an init function and not a call in main, because any program of this module may start a sandbox, including a
// test. A program without the call would start itself endlessly.
func init() {
	if len(os.Args) != 2 || os.Args[0] != marker {
		return
	}
	runtime.LockOSThread() // capabilities and filters belong to a thread
	err := enter(os.Args[1])
	fmt.Fprintf(os.Stderr, "%s: %v\n", marker, err)
	os.Exit(refused)
}

// enter turns this process, the first of new namespaces, into the program. It returns only if that fails.
func enter(text string) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	if err := p.mounts(); err != nil {
		return fmt.Errorf("making its file system: %w", err)
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("naming it: %w", err)
	}
	if err := p.drop(); err != nil {
		return fmt.Errorf("giving up rights: %w", err)
	}
	err := syscall.Exec(p.Program, append([]string{p.Program}, p.Args...), []string{})
	return fmt.Errorf("%s: %w", p.Program, err)
}

// mounts replaces the file system with one that contains only what the program may see.
func (p *plan) mounts() error {
	const old = "/.old"
	// Our mounts must not reach the system's namespace. The new root is mounted on /tmp until it becomes the root, because
	// every system has that directory.
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"))
	if err != nil {
		return err
	}
	if err = os.Mkdir("/tmp"+old, 0o700); err == nil {
		err = unix.PivotRoot("/tmp", "/tmp"+old)
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err != nil {
		return err
	}
	readOnly := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID)
	for _, b := range p.Binds {
		if err := bind(old+b[0], b[1], readOnly|unix.MOUNT_ATTR_NODEV); err != nil {
			return fmt.Errorf("%s: %w", b[1], err)
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := bind(old+"/dev/"+name, "/dev/"+name, readOnly|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	for path, target := range p.Links {
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	if err := os.Mkdir(Dir, 0o755); err != nil {
		return err
	}
	if !p.Fresh {
		if err := unix.Mount("tmpfs", Dir, "tmpfs", folderFlags, p.folder()); err != nil {
			return fmt.Errorf("%s: %w", Dir, err)
		}
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0,
		&unix.MountAttr{Attr_set: readOnly | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}); err != nil {
		return err
	}
	return os.Chdir(Dir)
}

// bind makes a file or a directory, including anything mounted in it, visible at a path.
func bind(from, path string, attributes uint64) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
}

// keeps are the capabilities in its own namespaces of a program that makes fresh namespaces.
const keeps = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL

// drop gives up the rights that this process has in its namespaces: all of them, or all but those that Fresh needs.
// Without any capabilities in the bounding set, nothing that the program starts can gain one. Every inherited file that
// is not meant for the program is closed when it starts.
func (p *plan) drop() error {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return err
	}
	core.Max = min(core.Max, 1) // at 1, the kernel does not even start the program that gets the system's core files
	core.Cur = core.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return err
	}
	if p.Fresh { // a program that root starts has the inheritable ones
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var held [2]unix.CapUserData
		if err := unix.Capget(&header, &held[0]); err != nil {
			return err
		}
		held[0].Inheritable, held[1].Inheritable = keeps, 0
		if err := unix.Capset(&header, &held[0]); err != nil {
			return err
		}
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 24) { // and newer kernels' capabilities
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil &&
			(err != unix.EINVAL || c <= unix.CAP_CHECKPOINT_RESTORE) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if !p.Fresh {
		if err := p.become(); err != nil {
			return err
		}
	}
	// Changing the user cancels Pdeathsig, so it is set again.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.CloseRange(3, 1<<31, unix.CLOSE_RANGE_CLOEXEC)
}

// become changes the user and installs the filter of system calls, for this thread, which becomes the program.
func (p *plan) become() error {
	for _, c := range p.user() {
		if _, _, errno := unix.RawSyscall(c[0], c[1], c[2], c[3]); errno != 0 {
			return errno
		}
	}
	program := filter()
	whole := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&whole))); errno != 0 {
		return errno
	}
	return nil
}
