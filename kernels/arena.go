package kernels

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"restyle/internal/memory"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// align is where every tensor begins: at a multiple of this many bytes, enough for the widest loads of any device.
const align = 256

// An Arena is one allocation from which tensors are cut one after the other. Nothing is given back alone: an arena is
// released down to a mark, like a stack, or closed as a whole. There are few of them, one a purpose: parameters,
// gradients, optimiser state, activations.
type Arena struct {
	d    *Device // nil for one that only counts
	name string
	base uintptr
	mem  []byte // of the CPU's arenas
	wide bool   // whether there is memory between tensors that belongs to none; see at
	size int
	used int
	peak int
}

// NewArena allocates an arena of so many bytes, for a purpose that errors and listings name. This is the one place where
// memory can run out, and the error says how much was wanted, for what, and how much there is. On the CPU it is an error to
// want more than the machine and the process's control group have, less what other arenas were promised. There an arena
// begins as zeros, on a GPU as whatever was there.
func (d *Device) NewArena(name string, bytes int) (*Arena, error) {
	a := &Arena{d: d, name: name, size: bytes}
	if bytes < 0 {
		return nil, fmt.Errorf("memory for %s: %d bytes are not a size", name, bytes)
	}
	var err error
	if d.gpu != nil {
		a.wide = d.gpu.Guards()
		a.base, err = d.gpu.Alloc(a.at(max(bytes, align)))
	} else {
		a.mem, err = mapMemory(max(bytes, align))
		a.base = addressOf(a.mem)
	}
	if oom := new(cuda.Error); errors.As(err, &oom) && oom.OutOfMemory() {
		return nil, d.outOfMemory(name, bytes, err)
	}
	if err != nil {
		return nil, fmt.Errorf("memory for %s: %s on %s: %w", name, Bytes(bytes), d.name, err)
	}
	d.arenas[a] = true
	a.belongs(0, a.at(bytes), false)
	return a, nil
}

// at is how far behind the arena's beginning a number of its bytes ends. On the emulated GPU that is twice as far: there tensors have
// room between them which belongs to none, so that a kernel which leaves a tensor is seen. All sizes are as on other devices.
func (a *Arena) at(bytes int) int {
	if a.wide {
		return 2 * bytes
	}
	return bytes
}

// belongs tells the emulated GPU whether bytes behind an offset belong to a tensor.
func (a *Arena) belongs(offset, bytes int, toTensor bool) {
	if a.wide {
		a.d.gpu.Belongs(a.base+uintptr(a.at(offset)), bytes, toTensor)
	}
}

// SizeOf is the number of bytes that an arena needs at most while f cuts tensors from it. It allocates nothing: f runs with
// an arena that only counts. An estimate made so is the allocation's own arithmetic.
func SizeOf(f func(*Arena)) int {
	a := &Arena{name: "estimate", base: align, size: -1}
	f(a)
	return a.peak
}

// Counting says that the arena only counts: its tensors have no memory behind them.
func (a *Arena) Counting() bool { return a.d == nil }

// New cuts a tensor from the arena. It panics when the arena is too small: its size comes from the same arithmetic.
func (a *Arena) New(name string, t tensor.DType, shape ...int) tensor.Tensor {
	x := tensor.Tensor{Name: name, DType: t, Shape: slices.Clone(shape), Addr: a.base + uintptr(a.at(a.used))}
	if len(shape) == 0 || slices.Min(shape) < 0 || t.Size() == 0 {
		panic(fmt.Sprintf("arena %s: %v is no tensor", a.name, x))
	}
	used := a.used + x.Bytes()
	if a.size >= 0 && used > a.size {
		panic(fmt.Sprintf("arena %s: %v does not fit: %d of %d bytes are used", a.name, x, a.used, a.size))
	}
	a.belongs(a.used, x.Bytes(), true)
	a.used = (used + align - 1) / align * align
	a.peak = max(a.peak, used)
	return x
}

// Mark is a point to which Release goes back.
func (a *Arena) Mark() int { return a.used }

// Release gives back all that was cut since the mark. Those tensors must not be used any more.
func (a *Arena) Release(mark int) {
	if mark < 0 || mark > a.used {
		panic(fmt.Sprintf("arena %s: released to %d of %d", a.name, mark, a.used))
	}
	a.belongs(mark, a.at(a.size-mark), false)
	a.used = mark
}

// Size is the number of bytes that were allocated.
func (a *Arena) Size() int { return a.size }

// Peak is the largest number of bytes that were in use.
func (a *Arena) Peak() int { return a.peak }

// Close gives the memory back. Closing twice, or closing none, does nothing.
func (a *Arena) Close() error {
	if a == nil || a.d == nil || !a.d.arenas[a] {
		return nil
	}
	delete(a.d.arenas, a)
	if a.d.gpu != nil {
		return a.d.gpu.Release(a.base)
	}
	return unmapMemory(a.mem)
}

// promised is how many bytes are mapped for the arenas of all devices. The system lets a program map more than there is,
// takes a page from what is free when it is first touched, and ends the program if there is none. So what is promised and
// not touched yet counts as free to the system, and is not.
var promised struct {
	sync.Mutex
	bytes int
}

// freeMemory and residentMemory ask the system. Tests answer for it.
var freeMemory, residentMemory = memory.Free, memory.Resident

// unpromised is what is free and not promised. What else is resident, such as Go's heap, counts as if it were of arenas: little,
// beside a model. The caller holds promised's lock.
func unpromised() (bytes int, whose string, known bool) {
	free, whose, known := freeMemory()
	return max(0, free-max(0, promised.bytes-residentMemory())), whose, known
}

// Free is how many bytes of the device's memory new arenas can get, and whose memory it is, such as "this machine" or a control
// group. If the system does not tell, known is false.
func (d *Device) Free() (bytes int, whose string, known bool) {
	if d.gpu != nil {
		free, _, err := d.gpu.Free()
		d.fail(err)
		return free, d.name, err == nil
	}
	promised.Lock()
	defer promised.Unlock()
	return unpromised()
}

// Capacity is the memory that a GPU has in all, free or not, in bytes, and 0 on the CPU.
func (d *Device) Capacity() int {
	if d.gpu == nil {
		return 0
	}
	return d.gpu.Memory
}

// InUse is how many bytes of memory are taken: of a GPU all that its driver does not count as free, other processes' too, and on the CPU
// what Allocated says.
func (d *Device) InUse() int {
	if d.gpu == nil {
		return d.Allocated()
	}
	free, _, _ := d.Free()
	return d.gpu.Memory - free
}

// Overhead is about how many bytes of a GPU this process takes beside what it asks for: the sums of products' parts, and what the driver
// has for its context and for the code of kernels, cuBLASLt's among them. An H200's had 0.5 to 0.6 GiB. It is 0 on the CPU.
func (d *Device) Overhead() int {
	switch {
	case d.gpu == nil:
		return 0
	case d.name == "emulated":
		return productRoom
	}
	return productRoom + 563<<20
}

// Bandwidth is how many bytes a second a GPU's memory is built to move, and 0 where that is not known: on the CPU.
func (d *Device) Bandwidth() float64 {
	if d.gpu == nil {
		return 0
	}
	return d.gpu.Bandwidth
}

// mapMemory asks the system for zeroed pages, large ones where it has them: a model is walked through from end to end, and
// with small pages the address look-ups cost more than the reading.
func mapMemory(bytes int) ([]byte, error) {
	promised.Lock()
	defer promised.Unlock()
	if free, whose, ok := unpromised(); ok && bytes > free {
		return nil, fmt.Errorf("%s has only %s left: take a smaller model or fewer tokens at a time, or close other programs",
			whose, Bytes(free))
	}
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	promised.bytes += bytes
	wantLargePages(mem)
	return mem, nil
}

func unmapMemory(mem []byte) error {
	promised.Lock()
	defer promised.Unlock()
	promised.bytes -= len(mem)
	return unix.Munmap(mem)
}

// Bytes is a number of bytes as people read it, such as "1.4 GiB".
func Bytes(n int) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 3; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[i])
}

// Overlay cuts by each function in the same place: for what is never in use at once. What comes after lies behind the largest.
func (a *Arena) Overlay(cuts ...func()) {
	mark := a.Mark()
	end := mark
	for _, cut := range cuts {
		a.used = mark // what was cut is not released
		cut()
		end = max(end, a.Mark())
	}
	a.used = end
}
