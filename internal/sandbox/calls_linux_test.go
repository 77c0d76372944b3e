//go:build amd64 || arm64

package sandbox

import (
	"flag"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCalls_OnlyListed checks which system calls a program can make: only the ones in the lists, and some only with
// arguments that keep to the program itself and to memory that is counted.
func TestCalls_OnlyListed(t *testing.T) {
	if flag.Arg(0) != inside {
		runs(t)
		return
	}
	const wrong = ^uintptr(0)
	const probes, probe = 335, 336 // which the kernel handles before the filter, on amd64: a signal
	listed := slices.Concat(allowed, pretended)
	for _, c := range sometimes {
		listed = append(listed, c.number)
	}
	for number := range uint32(newest + 100) {
		if slices.Contains(listed, number) || number == probes || number == probe {
			continue
		}
		want := unix.EPERM
		if number > newest || number == unix.SYS_CLONE3 {
			want = unix.ENOSYS
		}
		if _, _, errno := unix.RawSyscall6(uintptr(number), wrong, wrong, wrong, wrong, wrong, wrong); errno != want {
			t.Errorf("system call %d: %v, want %v", number, errno, want)
		}
	}
	// What keeps memory that nothing counts, outlives the program, reaches other processes, or slows the machine down.
	for _, number := range []uint32{
		unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
		unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY, unix.SYS_VMSPLICE, unix.SYS_SPLICE, unix.SYS_TEE,
		unix.SYS_TIMER_CREATE, unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT, unix.SYS_LANDLOCK_CREATE_RULESET,
		unix.SYS_SECCOMP, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_SETXATTR, unix.SYS_FSETXATTR, unix.SYS_FLOCK,
		unix.SYS_SOCKET, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_SETSOCKOPT, unix.SYS_BIND, unix.SYS_MLOCK,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_SETUP, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_SETPRIORITY,
		unix.SYS_IOPRIO_SET, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_FADVISE64, unix.SYS_MEMBARRIER, unix.SYS_SETRLIMIT,
		unix.SYS_MOUNT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_REMAP_FILE_PAGES,
	} {
		if slices.Contains(listed, number) {
			t.Errorf("system call %d is allowed", number)
		}
	}
	for _, c := range []struct {
		name      string
		arguments [6]uintptr
		number    uintptr
		want      unix.Errno
	}{
		{"private memory", [6]uintptr{0, 4096, unix.PROT_READ, unix.MAP_PRIVATE | unix.MAP_ANON, wrong}, unix.SYS_MMAP, 0},
		{"shared memory", [6]uintptr{0, 4096, unix.PROT_READ, unix.MAP_SHARED | unix.MAP_ANON, wrong}, unix.SYS_MMAP,
			unix.EPERM},
		{"a shared file", [6]uintptr{0, 4096, unix.PROT_READ, unix.MAP_SHARED, wrong}, unix.SYS_MMAP, unix.EPERM},
		{"a shared file, validated", [6]uintptr{0, 4096, unix.PROT_READ, unix.MAP_SHARED_VALIDATE, wrong}, unix.SYS_MMAP,
			unix.EPERM},
		{"huge pages", [6]uintptr{0, 2 << 20, unix.PROT_READ, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB, wrong},
			unix.SYS_MMAP, unix.EPERM},
		{"a pipe's size", [6]uintptr{wrong, unix.F_SETPIPE_SZ, 1 << 20}, unix.SYS_FCNTL, unix.EPERM},
		{"a record lock", [6]uintptr{wrong, unix.F_SETLK}, unix.SYS_FCNTL, unix.EPERM},
		{"a file's own lock", [6]uintptr{wrong, unix.F_OFD_SETLK}, unix.SYS_FCNTL, unix.EPERM},
		{"a lease", [6]uintptr{wrong, unix.F_SETLEASE}, unix.SYS_FCNTL, unix.EPERM},
		{"a signal for input", [6]uintptr{wrong, unix.F_SETOWN}, unix.SYS_FCNTL, unix.EPERM},
		{"a duplicate", [6]uintptr{wrong, unix.F_DUPFD}, unix.SYS_FCNTL, unix.EBADF},
		{"is it a terminal", [6]uintptr{wrong, unix.TCGETS}, unix.SYS_IOCTL, unix.EBADF},
		{"input for a terminal", [6]uintptr{wrong, unix.TIOCSTI}, unix.SYS_IOCTL, unix.EPERM},
		{"whether it may be traced", [6]uintptr{unix.PR_GET_DUMPABLE}, unix.SYS_PRCTL, unix.EPERM},
		{"new privileges", [6]uintptr{unix.PR_GET_NO_NEW_PRIVS}, unix.SYS_PRCTL, 0},
		{"own limits", [6]uintptr{0, unix.RLIMIT_NOFILE}, unix.SYS_PRLIMIT64, 0},
		{"the limit of core files", [6]uintptr{0, unix.RLIMIT_CORE}, unix.SYS_PRLIMIT64, unix.EPERM},
		{"limits of process 1", [6]uintptr{1, unix.RLIMIT_NOFILE}, unix.SYS_PRLIMIT64, unix.EPERM},
		{"processors of process 1", [6]uintptr{1}, unix.SYS_SCHED_SETAFFINITY, unix.EPERM},
		{"a child in a namespace", [6]uintptr{unix.CLONE_NEWUSER}, unix.SYS_CLONE, unix.EPERM},
		{"a child among network interfaces", [6]uintptr{unix.CLONE_NEWNET | 17}, unix.SYS_CLONE, unix.EPERM},
		{"a pair of sockets", [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, unix.SYS_SOCKETPAIR,
			unix.EFAULT},
		{"a pair for datagrams", [6]uintptr{unix.AF_UNIX, unix.SOCK_DGRAM}, unix.SYS_SOCKETPAIR, unix.EPERM},
		{"a pair of another family", [6]uintptr{unix.AF_TIPC, unix.SOCK_STREAM}, unix.SYS_SOCKETPAIR, unix.EPERM},
		{"writing to disks", [6]uintptr{wrong}, unix.SYS_FSYNC, 0},
	} {
		a := c.arguments
		if _, _, errno := unix.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != c.want {
			t.Errorf("%s: %v, want %v", c.name, errno, c.want)
		}
	}
}
