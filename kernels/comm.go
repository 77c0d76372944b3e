package kernels

import (
	"errors"
	"fmt"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A Comm sums and copies tensors across the GPUs of several processes, through NCCL. Its collectives are queued: they
// start, in the order of the calls, after the work that is queued on the GPU when they are called. They run
// concurrently with work that is queued later, until Wait or WaitFor; that work must not use the tensors. All processes
// must call the same collectives in the same order, with tensors of the same types and lengths. An error sticks to the
// Device.
type Comm struct {
	d    *Device
	comm *cuda.Comm
}

// OpenComm connects a GPU with the other processes' GPUs. This process is number rank of size. share returns on every
// process what it is given on process 0. note names the library for the user. OpenComm waits for all processes.
func (d *Device) OpenComm(rank, size int, share func([]byte) ([]byte, error)) (c *Comm, note string, err error) {
	if d.gpu == nil {
		return nil, "", errors.New("sums over GPUs: the device is the CPU")
	}
	open := cuda.OpenNCCL
	if d.name == "emulated" {
		open = cuda.OpenEmulatedNCCL
	}
	library, err := open(d.gpu.GPU)
	if err != nil {
		return nil, "", err
	}
	var id []byte
	if rank == 0 {
		if id, err = library.ID(); err != nil {
			return nil, "", err
		}
	}
	if id, err = share(id); err != nil {
		return nil, "", err
	}
	v := library.Version
	note = fmt.Sprintf("NCCL %d.%d.%d sums gradients over %d GPUs (%s)", v/10000, v/100%100, v%100, size, library.Path)
	comm, err := library.Join(d.gpu.GPU, id, rank, size)
	return &Comm{d, comm}, note, err
}

// Sum queues the sums of tensors, F32, F64 or BF16, over all processes; they replace the tensors.
func (c *Comm) Sum(list ...tensor.Tensor) { c.comm.Sum(list) }

// SumTo queues the sums of tensors, F32, F64 or BF16, over all processes. byRank has a list for each rank. On rank r,
// the sums of byRank[r] replace its tensors or, if into is not nil, the tensors of into, which must have the same types
// and lengths. All other tensors stay as they are. Lists and tensors may be empty.
func (c *Comm) SumTo(byRank [][]tensor.Tensor, into []tensor.Tensor) { c.comm.SumTo(byRank, into) }

// Spread queues copies of the tensors of byRank[r], of any types, from rank r to the same tensors on all other ranks.
// Lists and tensors may be empty.
func (c *Comm) Spread(byRank [][]tensor.Tensor) { c.comm.Spread(byRank) }

// Exchange queues copies of the tensors to[r] to every other rank r, and copies from every other rank s into from[s].
// from[s] must have as many tensors, of as many bytes each, as rank s has in its to for this rank. Types do not matter;
// lists and tensors may be empty. This rank's own lists, to[rank] and from[rank], are not used.
func (c *Comm) Exchange(from, to [][]tensor.Tensor) { c.comm.Exchange(from, to) }

// Wait makes work that is queued from now on start after the collectives that are queued now. Wait itself does not
// block.
func (c *Comm) Wait() error {
	c.d.fail(c.comm.Wait())
	return c.d.Err()
}

// Mark records the collectives that are queued now in a slot, numbered from 0, for WaitFor. It replaces the slot's
// earlier mark.
func (c *Comm) Mark(slot int) { c.comm.Mark(slot) }

// WaitFor is Wait for the collectives that were queued at the slot's last Mark. Without a Mark, nothing waits.
func (c *Comm) WaitFor(slot int) error {
	c.d.fail(c.comm.WaitFor(slot))
	return c.d.Err()
}

// Abort ends collectives that wait for a process that is gone, so that the GPU does not wait forever. It may be called
// while another goroutine uses the Device. The abort becomes the Device's error, unless there is one already: nothing
// is computed from then on. Close then does nothing. Aborting a nil Comm does nothing. Abort waits while a call of NCCL
// runs, which may be forever if the call waits for the process that is gone: then only the end of this process frees
// the GPU.
func (c *Comm) Abort() {
	if c != nil {
		c.comm.Abort()
	}
}

// Close leaves the other processes. Closing a nil Comm does nothing.
func (c *Comm) Close() error {
	if c == nil {
		return nil
	}
	return c.comm.Close()
}
