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
	if err := filter(); err != nil {
		return fmt.Errorf("limiting system calls: %w", err)
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
	if err := proc(); err != nil {
		return err
	}
	if err := os.Mkdir(Dir, 0o755); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", Dir, "tmpfs", flags, fmt.Sprintf("mode=0700,size=1m,nr_inodes=64,uid=%d,gid=%d", p.ID,
		p.ID)); err != nil {
		return fmt.Errorf("%s: %w", Dir, err)
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

// proc opens the namespace's /proc as the descriptor Proc, without leaving it at any path. Inside a container, /proc
// may be unavailable.
func proc() error {
	const path = "/.proc"
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	defer os.Remove(path)
	if err := unix.Mount("proc", path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY,
		""); err != nil {
		return unix.Close(Proc) // the placeholder that Start opened
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(fd, Proc, 0)
	}
	return errors.Join(err, unix.Unmount(path, unix.MNT_DETACH))
}

// drop gives up all rights that this process has in its namespaces. Without any capabilities in the bounding set, the
// process has none once it becomes the program. Every inherited file that is not meant for the program is closed at
// that moment, too.
func (p *plan) drop() error {
	for c := range uintptr(unix.CAP_LAST_CAP + 24) { // and those of newer kernels
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil &&
			(err != unix.EINVAL || c <= unix.CAP_CHECKPOINT_RESTORE) {
			return err
		}
	}
	if p.ID != 0 {
		// Only for this thread, because this thread becomes the program.
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, nobody, nobody, nobody},
			{unix.SYS_SETRESUID, nobody, nobody, nobody}} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				return errno
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// Changing the user cancels Pdeathsig, so it is set again.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.CloseRange(Proc+1, 1<<31, unix.CLOSE_RANGE_CLOEXEC)
}

// denied are system calls that the filter rejects: those that reach other processes or change the share of the machine
// that they get, that open sockets, that keep memory which neither a process limit nor the directory's size counts, and
// those of large parts of the kernel that no such program needs.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_PROCESS_MADVISE, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	unix.SYS_SOCKET,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_FSOPEN, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_SYSLOG,
}

// ownOnly are system calls whose first argument is a process. The filter rejects them for any process but the caller,
// which is 0.
var ownOnly = []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR}

// filter installs the filter of system calls. Everything that this thread starts inherits it.
func filter() error {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	const number, architecture, firstArgument = 0, 4, 16 // offsets in struct seccomp_data; both CPUs are little-endian
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// unless skips the next instruction if the test is false.
	unless := func(test uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k}
	}
	give := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	refuse := give(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program := []unix.SockFilter{
		load(architecture), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch},
		give(unix.SECCOMP_RET_KILL_PROCESS), load(number),
		unless(unix.BPF_JGE, 1<<30), refuse, // x32, which has other numbers
		// the filter cannot read the arguments of clone3; on ENOSYS, libc calls clone instead
		unless(unix.BPF_JEQ, unix.SYS_CLONE3), give(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
	for _, nr := range denied {
		program = append(program, unless(unix.BPF_JEQ, nr), refuse)
	}
	// These check the argument. If the check passes, they load the number again for the tests that follow.
	for _, nr := range ownOnly {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: nr},
			load(firstArgument), unless(unix.BPF_JGT, 0), refuse, load(number))
	}
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLONE},
		load(firstArgument), unless(unix.BPF_JSET, namespaces), refuse, give(unix.SECCOMP_RET_ALLOW))
	whole := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&whole))); errno != 0 {
		return errno
	}
	return nil
}
