package sandbox

import "golang.org/x/sys/unix"

// machine is the architecture whose system calls the filter knows.
const machine = unix.AUDIT_ARCH_AARCH64

// legacy is empty: this architecture has no older system calls.
var legacy []uint32
