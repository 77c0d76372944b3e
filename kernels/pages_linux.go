package kernels

import "golang.org/x/sys/unix"

// wantLargePages asks for large pages; a Linux kernel without them refuses, and nothing is lost.
func wantLargePages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
