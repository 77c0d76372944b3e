//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"
)

// A step is a system call: its number and its arguments, which are numbers, texts, or bytes.
type step []any

// bytesOf is an argument that points to bytes, in hexadecimal.
type bytesOf struct {
	Bytes string `json:"bytes"`
}

// filterOf is an argument that points to a filter of system calls, in hexadecimal.
type filterOf struct {
	Filter string `json:"filter"`
}

// A fresh is what a program does to run one piece of code in namespaces of its own. Only the process itself can do
// that, so Command passes it, as JSON, to a program that can make system calls.
type fresh struct {
	// Own opens this process: its result is a file descriptor, the first argument of Back.
	Own  step `json:"own"`
	Fork step `json:"fork"` // then the next child is process 1 of a namespace
	Back step `json:"back"` // and after it no more
	// Enter are the steps of that child, which then starts the process that runs the code.
	Enter []step `json:"enter"`
	// Drop are the steps of the process that runs the code.
	Drop []step `json:"drop"`
}

const folderFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// folder returns the options of the file system in Dir.
func (p *plan) folder() string {
	return fmt.Sprintf("mode=0700,size=1m,nr_inodes=64,uid=%d,gid=%d", p.ID, p.ID)
}

// user returns the system calls that change the user.
func (p *plan) user() [][4]uintptr {
	if p.ID == 0 {
		return nil
	}
	id := uintptr(p.ID)
	return [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, id, id, id}, {unix.SYS_SETRESUID, id, id, id}}
}

// fresh returns the steps for a program that is process 1.
func (p *plan) fresh() fresh {
	f := fresh{
		Own:  step{unix.SYS_PIDFD_OPEN, 1, 0},
		Fork: step{unix.SYS_UNSHARE, unix.CLONE_NEWPID},
		Back: step{unix.SYS_SETNS, unix.CLONE_NEWPID},
		Enter: []step{
			{unix.SYS_UNSHARE, unix.CLONE_NEWNS},
			{unix.SYS_MOUNT, "tmpfs", Dir, "tmpfs", folderFlags, p.folder()},
		},
	}
	for _, c := range p.user() {
		f.Drop = append(f.Drop, step{c[0], c[1], c[2], c[3]})
	}
	var code []byte
	for _, i := range filter() {
		code = binary.LittleEndian.AppendUint16(code, i.Code)
		code = append(code, i.Jt, i.Jf)
		code = binary.LittleEndian.AppendUint32(code, i.K)
	}
	header := binary.LittleEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
	hold := func(b []byte) bytesOf { return bytesOf{hex.EncodeToString(b)} }
	f.Drop = append(f.Drop, step{unix.SYS_CHDIR, Dir},
		step{unix.SYS_CAPSET, hold(append(header, 0, 0, 0, 0)), hold(make([]byte, 24))},
		step{unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, filterOf{hex.EncodeToString(code)}})
	return f
}
