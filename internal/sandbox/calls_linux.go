//go:build amd64 || arm64

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// allowed are the system calls of ordinary programs: the ones on the program's own memory, threads, files, pipes and
// children. The filter refuses all others, including the ones that future kernels will have. Among them are calls that
// reach other processes or the whole machine, open sockets, watch or lock the system's files, and keep memory that
// nothing counts: in a pipe (vmsplice), in a queue, a timer, a key, a ruleset, a file without a name.
var allowed = append([]uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV,
	unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_LSEEK, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE,
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2,
	unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_READLINKAT,
	unix.SYS_GETDENTS64, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR,
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT,
	unix.SYS_RENAMEAT2, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_UMASK,
	unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR,
	unix.SYS_FLISTXATTR,

	unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT,

	unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MSYNC,
	unix.SYS_GET_MEMPOLICY,

	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID,
	unix.SYS_PIDFD_OPEN, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER,
	unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL,
	unix.SYS_GETPRIORITY, unix.SYS_GETCPU, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT,
	unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIMES, unix.SYS_GETITIMER, unix.SYS_SETITIMER,

	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_SETPGID, unix.SYS_GETSID,
	unix.SYS_SETSID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID,
	unix.SYS_GETRESGID, unix.SYS_GETGROUPS, unix.SYS_CAPGET, unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_SYSINFO,
	unix.SYS_UNAME, unix.SYS_GETRANDOM,
}, legacy...)

// A call is a system call that the filter allows if its arguments pass the tests.
type call struct {
	number uint32
	tests  []test
}

// A test compares the bits of an argument that mask selects with values: they must be one of them, or none if none is
// set.
type test struct {
	argument uint32 // from 0
	mask     uint32
	none     bool
	values   []uint32
}

const all = ^uint32(0)

// Requests of ioctl for any file: close it on exec, or do not; do not wait.
const fioClex, fioNClex, fioNBIO = 0x5451, 0x5450, 0x5421

// sometimes are the system calls that the filter allows depending on their arguments.
var sometimes = []call{
	// Nothing counts shared memory that is no longer mapped. /dev/zero gives it as well, so no file may be mapped as
	// shared. Huge pages come from a reserve that the system has set aside for others.
	{unix.SYS_MMAP, []test{{3, unix.MAP_TYPE | unix.MAP_HUGETLB, false, []uint32{unix.MAP_PRIVATE}}}},
	// Not F_SETPIPE_SZ, and neither locks nor leases, which are memory without a limit and reach the system's files.
	{unix.SYS_FCNTL, []test{{1, all, false, []uint32{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD,
		unix.F_GETFL, unix.F_SETFL, unix.F_GETPIPE_SZ}}}},
	{unix.SYS_IOCTL, []test{{1, all, false, []uint32{fioClex, fioNClex, fioNBIO, unix.TIOCINQ, unix.TCGETS,
		unix.TIOCGWINSZ}}}},
	{unix.SYS_PRCTL, []test{{0, all, false, []uint32{unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_PDEATHSIG,
		unix.PR_GET_PDEATHSIG, unix.PR_CAPBSET_READ, unix.PR_GET_NO_NEW_PRIVS, unix.PR_SET_VMA}}}},
	// The limits of this process, 0, except the limit of core files: at 1 the kernel starts no system program for them.
	{unix.SYS_PRLIMIT64, []test{{0, all, false, []uint32{0}}, {1, all, true, []uint32{unix.RLIMIT_CORE}}}},
	{unix.SYS_SCHED_SETAFFINITY, []test{{0, all, false, []uint32{0}}}},
	{unix.SYS_CLONE, []test{{0, unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP, false, []uint32{0}}}},
	// Python's event loop wakes itself through a pair. Without setsockopt and sendmsg, a pair keeps no more than the
	// system's default, and only as long as it is open.
	{unix.SYS_SOCKETPAIR, []test{{0, all, false, []uint32{unix.AF_UNIX}}, {1, 0xf, false, []uint32{unix.SOCK_STREAM}}}},
}

// pretended are system calls that succeed and do nothing: they would have the system write to its disks.
var pretended = []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC}

// filter returns the filter of system calls, as the kernel takes it.
func filter() []unix.SockFilter {
	const number, architecture, arguments = 0, 4, 16 // offsets in struct seccomp_data; both CPUs are little-endian
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// unless skips the next n instructions if the test is false.
	unless := func(test uint16, k uint32, n int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: uint8(n), K: k}
	}
	give := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	fail := func(errno uint32) unix.SockFilter { return give(unix.SECCOMP_RET_ERRNO | errno) }
	refuse, allow := fail(uint32(unix.EPERM)), give(unix.SECCOMP_RET_ALLOW)
	program := []unix.SockFilter{
		load(architecture), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: machine},
		give(unix.SECCOMP_RET_KILL_PROCESS), load(number),
		unless(unix.BPF_JGE, 1<<30, 1), refuse, // x32, which has other numbers
		// On ENOSYS, libc does without a call that is newer than this list. It also calls clone in place of clone3, whose
		// arguments the filter cannot read.
		unless(unix.BPF_JGT, newest, 1), fail(uint32(unix.ENOSYS)),
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), fail(uint32(unix.ENOSYS)),
	}
	for _, c := range sometimes {
		var body []unix.SockFilter
		for _, t := range c.tests {
			body = append(body, load(arguments+8*t.argument), unix.SockFilter{
				Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: t.mask})
			for i, v := range t.values {
				left := uint8(len(t.values) - i - 1)
				jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jt: left + 1}
				if t.none {
					jump.Jt = left
					if left == 0 {
						jump.Jf = 1
					}
				}
				body = append(body, jump)
			}
			body = append(body, refuse)
		}
		program = append(program, unless(unix.BPF_JEQ, c.number, len(body)+1))
		program = append(append(program, body...), allow)
	}
	for _, nr := range allowed {
		program = append(program, unless(unix.BPF_JEQ, nr, 1), allow)
	}
	for _, nr := range pretended {
		program = append(program, unless(unix.BPF_JEQ, nr, 1), fail(0))
	}
	return slices.Clip(append(program, refuse))
}

// newest is the highest number of a system call that existed when the lists were made.
const newest = unix.SYS_RSEQ_SLICE_YIELD
