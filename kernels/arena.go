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

// align is the alignment of every tensor in bytes, enough for the widest loads of any device.
const align = 256

// An Arena is one allocation in which tensors are allocated one after the other. Tensors are not freed one by one: an
// arena is released down to a mark, like a stack, or closed as a whole. There are few arenas, one per purpose:
// parameters, gradients, optimizer state, activations.
type Arena struct {
	d    *Device // nil for an arena that only counts
	name string
	base uintptr
	mem  []byte // of the CPU's arenas
	wide bool   // whether there is memory between tensors that belongs to no tensor; see at
	size int
	used int
	peak int
}

// NewArena allocates an arena of the given number of bytes. name is its purpose, which errors and listings show. This
// is the only place where memory can run out; the error says how much was requested, for what, and how much there is.
// On the CPU it is an error to request more than the machine and the process's control group have, minus what was
// promised to other arenas. A new arena is zeroed on the CPU and undefined on a GPU.
func (d *Device) NewArena(name string, bytes int) (*Arena, error) {
	a := &Arena{d: d, name: name, size: bytes}
	if bytes < 0 {
		return nil, fmt.Errorf("memory for %s: %d bytes: must be at least 0", name, bytes)
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

// at returns the offset in the arena at which its first bytes bytes end. On the emulated GPU the offset is twice as
// large: tensors there have room between them that belongs to no tensor, so that the emulated GPU notices a kernel that
// leaves a tensor. All sizes are the same as on other devices.
func (a *Arena) at(bytes int) int {
	if a.wide {
		return 2 * bytes
	}
	return bytes
}

// belongs tells the emulated GPU whether the bytes at an offset belong to a tensor.
func (a *Arena) belongs(offset, bytes int, toTensor bool) {
	if a.wide {
		a.d.gpu.Belongs(a.base+uintptr(a.at(offset)), bytes, toTensor)
	}
}

// SizeOf returns the number of bytes that an arena needs for the tensors that f allocates from it. It allocates
// nothing: f runs with an arena that only counts. So the estimate uses the same arithmetic as the allocation.
func SizeOf(f func(*Arena)) int {
	a := &Arena{name: "estimate", base: align, size: -1}
	f(a)
	return a.peak
}

// Counting reports whether the arena only counts: its tensors have no memory.
func (a *Arena) Counting() bool { return a.d == nil }

// New allocates a tensor in the arena. It panics if the arena is too small, because the arena's size comes from the
// same arithmetic.
func (a *Arena) New(name string, t tensor.DType, shape ...int) tensor.Tensor {
	x := tensor.Tensor{Name: name, DType: t, Shape: slices.Clone(shape), Addr: a.base + uintptr(a.at(a.used))}
	if len(shape) == 0 || slices.Min(shape) < 0 || t.Size() == 0 && !t.Quantized() {
		panic(fmt.Sprintf("arena %s: invalid tensor %v", a.name, x))
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

// Mark returns the point to which Release can return.
func (a *Arena) Mark() int { return a.used }

// Release frees everything allocated since the mark. Those tensors must not be used any more.
func (a *Arena) Release(mark int) {
	if mark < 0 || mark > a.used {
		panic(fmt.Sprintf("arena %s: release to mark %d: only %d bytes are used", a.name, mark, a.used))
	}
	a.belongs(mark, a.at(a.size-mark), false)
	a.used = mark
}

// Size returns the number of bytes that were allocated for the arena; a nil Arena has none.
func (a *Arena) Size() int {
	if a == nil {
		return 0
	}
	return a.size
}

// Peak returns the largest number of bytes that were in use.
func (a *Arena) Peak() int { return a.peak }

// Close frees the arena's memory. Closing an arena twice, or a nil arena, does nothing.
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

// promised counts the bytes that are mapped for the arenas of all devices. The system lets a program map more memory
// than there is, takes a free page when a page is first touched, and kills the program if there is none. So memory that
// is promised but not touched yet counts as free to the system, although it is not.
var promised struct {
	sync.Mutex
	bytes int
}

// freeMemory and residentMemory ask the system. Tests replace them.
var freeMemory, residentMemory = memory.Free, memory.Resident

// unpromised returns the bytes that are free and not promised. Other resident memory, such as Go's heap, counts as if
// it belonged to arenas; it is little compared with a model. The caller holds promised's lock.
func unpromised() (bytes int, whose string, known bool) {
	free, whose, known := freeMemory()
	return max(0, free-max(0, promised.bytes-residentMemory())), whose, known
}

// Free returns the bytes of the device's memory that new arenas can get, and whose memory it is, such as "this machine"
// or a control group. If the system does not report it, known is false.
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

// Capacity returns the total memory of a GPU in bytes, free or not, and 0 on the CPU.
func (d *Device) Capacity() int {
	if d.gpu == nil {
		return 0
	}
	return d.gpu.Memory
}

// InUse returns the bytes of memory in use. On a GPU that is everything that the driver does not count as free,
// including other processes' memory; on the CPU it is Allocated.
func (d *Device) InUse() int {
	if d.gpu == nil {
		return d.Allocated()
	}
	free, _, _ := d.Free()
	return d.gpu.Memory - free
}

// driverContext is roughly the memory that the driver takes when a process opens a GPU, and driverCode what it takes
// later for kernels, including cuBLASLt's, and for graphs. On an H200 the two together were 0.5 to 0.6 GiB.
const driverContext, driverCode = 435 << 20, 128 << 20

// Context returns roughly how many bytes of a GPU's memory the driver took when this process opened the GPU. They are
// part of Overhead, and Free does not count them. It is 0 on the CPU and on the emulated GPU.
func (d *Device) Context() int {
	if d.gpu == nil || d.name == "emulated" {
		return 0
	}
	return driverContext
}

// Overhead returns roughly how many bytes of a GPU this process uses on top of what it allocates: the partial sums of
// matrix products, the driver's context, the code of kernels, including cuBLASLt's, and, if several processes share a
// run, NCCL's code and buffers. It is 0 on the CPU.
func (d *Device) Overhead(processes int) int {
	const room = productRoom + 4*maxArrived
	switch {
	case d.gpu == nil:
		return 0
	case d.name == "emulated":
		return room
	case processes > 1:
		return room + driverContext + driverCode + ncclOverhead
	}
	return room + driverContext + driverCode
}

// ncclOverhead is roughly what NCCL takes: on two H200, NCCL 2.28 took 0.35 GiB with 2 thread blocks, 0.63 with 16,
// 0.82 with the 24 that it chooses and 0.91 with 32.
const ncclOverhead = 870 << 20

// Bandwidth returns the peak memory bandwidth of a GPU in bytes per second, and 0 if it is not known, as on the CPU.
func (d *Device) Bandwidth() float64 {
	if d.gpu == nil {
		return 0
	}
	return d.gpu.Bandwidth
}

// askedAbout is the size from which an arena is compared with the free memory. Finding out how much is free means
// reading a dozen system files, which takes longer than mapping and using a smaller arena.
const askedAbout = 1 << 20

// mapMemory asks the system for zeroed pages, large ones if there are any: programs read a model from end to end, and
// with small pages the address look-ups cost more than the reading.
func mapMemory(bytes int) ([]byte, error) {
	promised.Lock()
	defer promised.Unlock()
	if bytes >= askedAbout {
		if free, whose, ok := unpromised(); ok && bytes > free {
			return nil, fmt.Errorf("%s has only %s left: use a smaller model or fewer tokens at a time, or close other programs",
				whose, Bytes(free))
		}
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

// Bytes formats a number of bytes for people, such as "1.4 GiB".
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

// Overlay lets each function allocate in the same place, for tensors that are never in use at the same time. The next
// allocation comes after the largest of them.
func (a *Arena) Overlay(cuts ...func()) { Overlay([]*Arena{a}, cuts...) }

// Overlay is Arena.Overlay for several arenas at once.
func Overlay(arenas []*Arena, cuts ...func()) {
	marks := make([]int, len(arenas))
	for i, a := range arenas {
		marks[i] = a.used
	}
	ends := slices.Clone(marks)
	for _, cut := range cuts {
		for i, a := range arenas {
			a.used = marks[i] // what the functions allocated is not released
		}
		cut()
		for i, a := range arenas {
			ends[i] = max(ends[i], a.used)
		}
	}
	for i, a := range arenas {
		a.used = ends[i]
	}
}
