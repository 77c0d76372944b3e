package main

import (
	"syscall"
	"unsafe"
)

// dieAt has the kernel kill this process when a file that it writes would grow beyond n bytes: the bytes before are
// written, and nothing runs afterwards. Go ignores the signal, so that the write fails; dieAt restores its default
// action, which ends the process.
func dieAt(n uint64) error {
	var byDefault [4]uint64 // the kernel's struct sigaction
	if _, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGXFSZ),
		uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0); err != 0 {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
}
