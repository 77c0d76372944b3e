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
#cgo noescape cuda_nccl_queue
#cgo nocallback cuda_nccl_queue
#cgo nocallback cuda_nccl_wait
#cgo nocallback cuda_nccl_mark
#cgo nocallback cuda_nccl_wait_for
#cgo nocallback cuda_nccl_abort
#cgo nocallback cuda_nccl_finish
#cgo nocallback cuda_nccl_leave
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"restyle/tensor"
)

// An NCCL is NVIDIA's library of sums and copies across GPUs.
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

// ID returns bytes by which processes find each other in Join. One process calls ID, and all get the same bytes.
func (n *NCCL) ID() ([]byte, error) {
	id := make([]byte, C.CUDA_NCCL_ID_BYTES)
	if s := C.cuda_nccl_id(n.handle, unsafe.Pointer(&id[0])); s.code != 0 {
		return nil, newError("begin with NCCL", s)
	}
	return id, nil
}

// A Comm is this process's GPU among the GPUs of size processes. Its collectives start after the work that is queued on
// the GPU when they are called, and run concurrently with work that is queued later, until Wait or WaitFor. Every
// process must queue the same collectives, with tensors of the same types and lengths, in the same order. An error
// sticks.
type Comm struct {
	gpu        *GPU
	handle     C.uintptr_t
	rank, size int
	ending     sync.Mutex
	over       bool // left or aborted
}

// Join connects the GPU with the other processes' GPUs. It waits for all of them.
func (n *NCCL) Join(g *GPU, id []byte, rank, size int) (*Comm, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if len(id) != C.CUDA_NCCL_ID_BYTES {
		return nil, fmt.Errorf("connect GPUs: the id has %d bytes: must have %d", len(id), C.CUDA_NCCL_ID_BYTES)
	}
	c := &Comm{gpu: g, rank: rank, size: size}
	s := C.cuda_nccl_join(g.handle, n.handle, unsafe.Pointer(&id[0]), C.int(rank), C.int(size), &c.handle)
	if s.code != 0 {
		return nil, newError(fmt.Sprintf("connect the GPUs of %d ranks with %s", size, n.Path), s)
	}
	return c, nil
}

// Sum queues the sums of tensors, F32, F64 or BF16, over all processes, which replace the tensors.
func (c *Comm) Sum(list []tensor.Tensor) { c.queue("sum", sums(nil, C.CUDA_SUM, 0, list)) }

// SumTo queues the sums of tensors, F32, F64 or BF16, over all processes. On each rank the sums of its list replace the
// tensors, or into if that is not nil; the other tensors stay as they are.
func (c *Comm) SumTo(byRank [][]tensor.Tensor, into []tensor.Tensor) {
	c.want("SumTo", byRank)
	var all []C.cuda_collective
	for rank, list := range byRank {
		first := len(all)
		all = sums(all, C.CUDA_SUM_TO, rank, list)
		if rank == c.rank && into != nil {
			for i, to := range sums(nil, C.CUDA_SUM_TO, rank, into) {
				all[first+i].into = to.address
			}
		}
	}
	c.queue("sum", all)
}

// Spread queues copies of the tensors in the list of a rank from that rank to all processes, into the same list.
func (c *Comm) Spread(byRank [][]tensor.Tensor) {
	c.want("Spread", byRank)
	var all []C.cuda_collective
	for rank, list := range byRank {
		all = copies(all, C.CUDA_SPREAD, rank, list)
	}
	c.queue("spread", all)
}

// Exchange queues copies of to[r] to every other rank r, and copies from every other rank s into from[s], which has as
// many tensors, of as many bytes each, as rank s has in its to for this rank.
func (c *Comm) Exchange(from, to [][]tensor.Tensor) {
	c.want("Exchange", from)
	c.want("Exchange", to)
	var all []C.cuda_collective
	for rank := range c.size {
		if rank != c.rank {
			all = copies(all, C.CUDA_SEND, rank, to[rank])
			all = copies(all, C.CUDA_RECEIVE, rank, from[rank])
		}
	}
	c.queue("exchange", all)
}

// want panics unless there is a list for each rank.
func (c *Comm) want(op string, byRank [][]tensor.Tensor) {
	if len(byRank) != c.size {
		panic(fmt.Sprintf("%s: there are lists for %d ranks: must be %d", op, len(byRank), c.size))
	}
}

// sumTypes are NCCL's names for types.
var sumTypes = map[tensor.DType]C.int{tensor.F32: C.ncclFloat32, tensor.F64: C.ncclFloat64, tensor.BF16: C.ncclBfloat16}

// sums adds sums of tensors to a list of collectives. Empty tensors need none.
func sums(all []C.cuda_collective, kind C.int, rank int, list []tensor.Tensor) []C.cuda_collective {
	for _, x := range list {
		t, ok := sumTypes[x.DType]
		if !ok {
			panic(fmt.Sprintf("sum of %v: must be F32, F64 or BF16", x))
		}
		if x.Len() > 0 {
			all = append(all, C.cuda_collective{address: C.uint64_t(x.Addr), count: C.uint64_t(x.Len()), _type: t, kind: kind,
				rank: C.int(rank)})
		}
	}
	return all
}

// copies adds copies of tensors, of any types, to a list of collectives.
func copies(all []C.cuda_collective, kind C.int, rank int, list []tensor.Tensor) []C.cuda_collective {
	for _, x := range list {
		if x.Bytes() > 0 {
			all = append(all, C.cuda_collective{address: C.uint64_t(x.Addr), count: C.uint64_t(x.Bytes()), _type: C.ncclInt8,
				kind: kind, rank: C.int(rank)})
		}
	}
	return all
}

func (c *Comm) queue(what string, list []C.cuda_collective) {
	if c.gpu.failed.Load() != nil || len(list) == 0 {
		return
	}
	if s := C.cuda_nccl_queue(c.gpu.handle, c.handle, &list[0], C.int(len(list))); s.code != 0 {
		c.gpu.fail(s, "%s %d tensors over the ranks%v", what, len(list), c.gpu.after())
	}
}

// Wait makes work that is queued from now on wait for the collectives queued so far. Wait itself does not block.
func (c *Comm) Wait() error {
	if err := c.gpu.Err(); err != nil {
		return err
	}
	if s := C.cuda_nccl_wait(c.gpu.handle, c.handle); s.code != 0 {
		return c.gpu.fail(s, "wait for the ranks%v", c.gpu.after())
	}
	return nil
}

// Mark records the collectives queued so far in a slot, numbered from 0.
func (c *Comm) Mark(slot int) {
	if c.gpu.failed.Load() != nil {
		return
	}
	if s := C.cuda_nccl_mark(c.gpu.handle, c.handle, C.int(slot)); s.code != 0 {
		c.gpu.fail(s, "mark what the ranks do%v", c.gpu.after())
	}
}

// WaitFor makes work that is queued from now on wait for the collectives recorded in a slot, which may be none. WaitFor
// itself does not block.
func (c *Comm) WaitFor(slot int) error {
	if err := c.gpu.Err(); err != nil {
		return err
	}
	if s := C.cuda_nccl_wait_for(c.gpu.handle, c.handle, C.int(slot)); s.code != 0 {
		return c.gpu.fail(s, "wait for the ranks%v", c.gpu.after())
	}
	return nil
}

var errAborted = errors.New("what the ranks do together was aborted")

// Abort ends collectives that wait for a process that is gone, so that the GPU becomes free. It may be called while
// another goroutine uses the GPU. From then on the GPU's error is Abort's, unless it already has one. Abort waits until
// the other goroutine is in no call of NCCL. After Close it does nothing.
func (c *Comm) Abort() {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.gpu.failed.CompareAndSwap(nil, &errAborted)
	C.cuda_nccl_abort(c.handle) // the process is about to end: no one can be told of an error
}

// Close leaves the other processes. After an error, which may be that one of them is gone, it does nothing.
func (c *Comm) Close() error {
	if c == nil || c.gpu.Err() != nil {
		return nil
	}
	if s := C.cuda_nccl_finish(c.gpu.handle, c.handle); s.code != 0 {
		return c.gpu.fail(s, "wait for the ranks%v", c.gpu.after())
	}
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.over { // aborted meanwhile
		return c.gpu.Err()
	}
	c.over = true
	if s := C.cuda_nccl_leave(c.gpu.handle, c.handle); s.code != 0 {
		return c.gpu.fail(s, "leave the other ranks")
	}
	return nil
}
