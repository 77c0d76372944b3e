package cuda

/*
#include <stdlib.h>
#include "nccl_api.h"
#include "shim.h"

#cgo noescape cuda_open_nccl
#cgo nocallback cuda_open_nccl
#cgo noescape cuda_nccl_id
#cgo nocallback cuda_nccl_id
#cgo noescape cuda_nccl_join
#cgo nocallback cuda_nccl_join
#cgo noescape cuda_nccl_sum
#cgo nocallback cuda_nccl_sum
#cgo nocallback cuda_nccl_wait
#cgo nocallback cuda_nccl_leave
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"restyle/tensor"
)

// An NCCL is NVIDIA's library of sums over GPUs.
type NCCL struct {
	Version int    // 22807 for 2.28.7
	Path    string // the library's file
	handle  C.uintptr_t
}

// OpenNCCL opens NCCL 2.19 or newer. It looks in the file that RESTYLE_NCCL names, or where the loader looks and in the
// directories of pip's and conda's packages. Unless NCCL_NVLS_ENABLE is set, NCCL does not use NVLink's multicast, with
// which some machines hang.
func OpenNCCL(g *GPU) (*NCCL, error) {
	if _, set := os.LookupEnv("NCCL_NVLS_ENABLE"); !set {
		os.Setenv("NCCL_NVLS_ENABLE", "0")
	}
	return openNCCL(g, libnccl.paths(g.Driver))
}

// OpenEmulatedNCCL opens the emulated GPU's stand-in for NCCL, for processes of one machine.
func OpenEmulatedNCCL(*GPU) (*NCCL, error) {
	library, err := emulator(DefaultCache())
	if err != nil {
		return nil, err
	}
	return openNCCL(nil, []string{library})
}

func openNCCL(g *GPU, paths []string) (*NCCL, error) {
	major := newestCUDA
	if g != nil && g.Driver > 0 {
		major = min(major, g.Driver/1000)
	}
	var l C.cuda_nccl
	missing := fmt.Sprintf("NCCL, which sums gradients over GPUs, is missing: install it with pip install "+
		"nvidia-nccl-cu%d, or have RESTYLE_NCCL name its file", major)
	err := search(missing, paths, func(path string, message *C.char, size C.int) bool {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		return C.cuda_open_nccl(p, &l, message, size) != 0
	})
	if err != nil {
		return nil, err
	}
	return &NCCL{Version: int(l.version), Path: C.GoString(&l.path[0]), handle: l.library}, nil
}

// ID returns bytes with which processes find each other in Join. One makes them, and all get the same.
func (n *NCCL) ID() ([]byte, error) {
	id := make([]byte, C.CUDA_NCCL_ID_BYTES)
	if s := C.cuda_nccl_id(n.handle, unsafe.Pointer(&id[0])); s.code != 0 {
		return nil, newError("begin with NCCL", s)
	}
	return id, nil
}

// A Comm is this process's GPU among those of size processes.
type Comm struct {
	gpu    *GPU
	handle C.uintptr_t
}

// Join connects the GPU with those of the other processes. It waits for all of them.
func (n *NCCL) Join(g *GPU, id []byte, rank, size int) (*Comm, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if len(id) != C.CUDA_NCCL_ID_BYTES {
		return nil, fmt.Errorf("connect GPUs: the id has %d bytes: must have %d", len(id), C.CUDA_NCCL_ID_BYTES)
	}
	c := &Comm{gpu: g}
	s := C.cuda_nccl_join(g.handle, n.handle, unsafe.Pointer(&id[0]), C.int(rank), C.int(size), &c.handle)
	if s.code != 0 {
		return nil, newError(fmt.Sprintf("connect the GPUs of %d ranks with %s", size, n.Path), s)
	}
	return c, nil
}

// sumTypes are NCCL's names of types.
var sumTypes = map[tensor.DType]C.int{tensor.F32: C.ncclFloat32, tensor.F64: C.ncclFloat64, tensor.BF16: C.ncclBfloat16}

// Sum queues the sums of tensors, F32, F64 or BF16, over all GPUs, which replace the tensors. They begin after what is
// queued now, and run beside what is queued later, until Wait. Every process must queue the same in the same order. An
// error sticks.
func (c *Comm) Sum(list []tensor.Tensor) {
	if c.gpu.failed.Load() != nil || len(list) == 0 {
		return
	}
	sums := make([]C.cuda_sum, len(list))
	for i, x := range list {
		t, ok := sumTypes[x.DType]
		if !ok {
			panic(fmt.Sprintf("sum of %v: must be F32, F64 or BF16", x))
		}
		sums[i] = C.cuda_sum{address: C.uint64_t(x.Addr), count: C.uint64_t(x.Len()), _type: t}
	}
	if s := C.cuda_nccl_sum(c.gpu.handle, c.handle, &sums[0], C.int(len(sums))); s.code != 0 {
		c.gpu.fail(s, "sum %v over the ranks%v", list[0], c.gpu.after())
	}
}

// Wait makes what is queued from now on wait for the sums. It does not wait itself.
func (c *Comm) Wait() error {
	if err := c.gpu.Err(); err != nil {
		return err
	}
	if s := C.cuda_nccl_wait(c.gpu.handle, c.handle); s.code != 0 {
		return c.gpu.fail(s, "wait for sums over the ranks%v", c.gpu.after())
	}
	return nil
}

// Close leaves the other processes. After an error, which may be that one of them is gone, it does nothing.
func (c *Comm) Close() error {
	if c == nil || c.gpu.Err() != nil {
		return nil
	}
	if s := C.cuda_nccl_leave(c.gpu.handle, c.handle); s.code != 0 {
		return c.gpu.fail(s, "leave the other ranks")
	}
	return nil
}
