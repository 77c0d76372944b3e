package kernels

import (
	"errors"
	"fmt"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A Comm sums tensors over the GPUs of several processes, through NCCL.
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

// Sum queues the sums of tensors, F32, F64 or BF16, over all processes; they replace the tensors. They begin after what
// is queued now, and run beside what is queued until Wait, which must not use the tensors.
func (c *Comm) Sum(list ...tensor.Tensor) { c.comm.Sum(list) }

// Wait has what is queued from now on begin after the sums. It does not wait itself.
func (c *Comm) Wait() error {
	c.d.fail(c.comm.Wait())
	return c.d.Err()
}

// Close leaves the other processes. Closing a nil Comm does nothing.
func (c *Comm) Close() error {
	if c == nil {
		return nil
	}
	return c.comm.Close()
}
