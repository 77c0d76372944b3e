package kernels

import (
	"errors"
	"fmt"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A Comm sums and copies tensors over the GPUs of several processes, through NCCL. Its collectives are queued: they
// begin after what is queued on the GPU when they are called, in the order of the calls, and run beside what is queued
// until Wait or WaitFor, which must not use the tensors. All processes must call the same ones in the same order, of
// tensors of the same types and lengths. An error sticks to the Device.
type Comm struct {
	d    *Device
	comm *cuda.Comm
}

// OpenComm connects a GPU with those of the other processes, of which this is number rank of size. share returns on
// every process what it is given on number 0. note names the library for the user. OpenComm waits for all processes.
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

// SumTo queues the sums of tensors, F32, F64 or BF16, over all processes. byRank has a list for each rank: the sums of
// byRank[r] replace its tensors on rank r, or, unless that is nil, into, tensors of the same types and lengths there.
// All other tensors stay as they are. Lists and tensors may be empty.
func (c *Comm) SumTo(byRank [][]tensor.Tensor, into []tensor.Tensor) { c.comm.SumTo(byRank, into) }

// Spread queues copies of the tensors of byRank[r], of any types, from rank r to the same tensors of all others. Lists
// and tensors may be empty.
func (c *Comm) Spread(byRank [][]tensor.Tensor) { c.comm.Spread(byRank) }

// Exchange queues copies of the tensors to[r] to every other rank r, and from every other rank s into from[s], which
// must have as many tensors, of as many bytes each, as that rank's to for this one. Types do not matter; lists and
// tensors may be empty, and those of this rank itself are not used.
func (c *Comm) Exchange(from, to [][]tensor.Tensor) { c.comm.Exchange(from, to) }

// Wait has what is queued from now on begin after the collectives that are queued now. It does not wait itself.
func (c *Comm) Wait() error {
	c.d.fail(c.comm.Wait())
	return c.d.Err()
}

// Mark has a slot, from 0 on, stand for the collectives that are queued now, for WaitFor. It replaces the slot's
// earlier mark.
func (c *Comm) Mark(slot int) { c.comm.Mark(slot) }

// WaitFor is Wait for the collectives that were queued at the slot's last Mark. Without one, nothing waits.
func (c *Comm) WaitFor(slot int) error {
	c.d.fail(c.comm.WaitFor(slot))
	return c.d.Err()
}

// Abort ends collectives that wait for a process that is gone, so that the GPU does not wait for ever. It may be called
// while another goroutine uses the Device, whose error it becomes unless that has one: nothing is computed from then
// on. Close then does nothing. Aborting a nil Comm does nothing. Abort waits while a call of NCCL runs, which may be
// for ever if that waits for the process that is gone: then only the end of this process frees the GPU.
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
