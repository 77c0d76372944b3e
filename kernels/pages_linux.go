package kernels

import "golang.org/x/sys/unix"

// wantLargePages asks for them; a kernel that has none says no, and nothing is lost.
func wantLargePages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
