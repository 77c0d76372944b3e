package cuda

/*
#include <stdlib.h>
#include "shim.h"

#cgo noescape cuda_load
#cgo nocallback cuda_load
#cgo noescape cuda_function
#cgo nocallback cuda_function
#cgo nocallback cuda_allow_shared
#cgo noescape cuda_launch
#cgo nocallback cuda_launch
#cgo noescape cuda_tile_map
#cgo nocallback cuda_tile_map
*/
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// A Module is a loaded compiled source. It is valid until its GPU is closed.
type Module struct {
	gpu       *GPU
	handle    C.uintptr_t
	lock      sync.Mutex
	functions map[string]*Function
}

// Load loads an image that Compile returned. It refuses an image that is not for this GPU.
func (g *GPU) Load(image []byte) (*Module, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("load a module: the image is empty")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	m := &Module{gpu: g, functions: map[string]*Function{}}
	if s := C.cuda_load(g.handle, unsafe.Pointer(&image[0]), &m.handle); s.code != 0 {
		e := newError(fmt.Sprintf("load a module of %d bytes", len(image)), s)
		if e.Code == noBinaryForGPU || e.Code == unsupportedPTX {
			e.Cure += " with " + libnvrtc.install(g.Driver)
		}
		return nil, e
	}
	return m, nil
}

// A Function is a kernel of a module.
type Function struct {
	name   string
	handle C.uintptr_t
	lock   sync.Mutex
	shared int // bytes of dynamic shared memory that it may use
}

// Function returns the kernel with a name, which must be declared extern "C" in the source.
func (m *Module) Function(name string) (*Function, error) {
	if err := m.gpu.Err(); err != nil {
		return nil, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	f := &Function{name: name}
	if s := C.cuda_function(m.gpu.handle, m.handle, n, &f.handle); s.code != 0 {
		return nil, newError("find kernel "+name, s)
	}
	m.functions[name] = f
	return f, nil
}

// allow lets a kernel be launched with a number of bytes of dynamic shared memory: by default it may have 48 KiB,
// including what it declares itself. The limit belongs to the function on the GPU, and a smaller request would lower
// it, so allow only raises it.
func (g *GPU) allow(f *Function, shared int) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if shared <= f.shared {
		return nil
	}
	if s := C.cuda_allow_shared(g.handle, f.handle, C.uint32_t(shared)); s.code != 0 {
		return g.fail(s, "kernel %s with %d bytes of shared memory", f.name, shared)
	}
	f.shared = shared
	return nil
}

// Dim3 is a size in up to three dimensions; Y and Z of 0 count as 1.
type Dim3 struct{ X, Y, Z int }

// Count returns the product of the dimensions.
func (d Dim3) Count() int { return d.X * max(d.Y, 1) * max(d.Z, 1) }

// Launch queues a kernel with grid thread blocks of block threads each, with shared bytes of dynamic shared memory.
// Each argument is a word whose low bytes are the parameter: an address, an integer, or the bits of a float. Neither
// Launch nor CUDA checks their number and types. An error sticks, and the next call that returns an error returns it.
func (g *GPU) Launch(f *Function, grid, block Dim3, shared int, args ...uint64) {
	g.LaunchAt(AfterPrevious, f, grid, block, shared, nil, args...)
}

// A TileMap describes to a kernel a matrix of 16-bit elements, and the tiles of it that the kernel copies to and from
// shared memory as a whole. It is what CUDA calls a tensor map.
type TileMap [16]uint64

// Tiles describes the matrix and the size of the tiles of a TileMap. The address and the stride, in bytes, are
// multiples of 16. A tile has up to 256 rows, of 64 or 32 columns, which in shared memory are swizzled by 128 or 64
// bytes.
type Tiles struct {
	Address               uintptr
	Rows, Columns, Stride int
	TileRows, TileColumns int
}

// TileMap returns the map of a matrix. Only GPUs of compute capability 9.0 or higher can use it.
func (g *GPU) TileMap(t Tiles) (m TileMap, err error) {
	if err := g.Err(); err != nil {
		return m, err
	}
	c := C.cuda_tiles{C.uint64_t(t.Address), C.uint64_t(t.Rows), C.uint64_t(t.Columns), C.uint64_t(t.Stride),
		C.uint32_t(t.TileRows), C.uint32_t(t.TileColumns)}
	if s := C.cuda_tile_map(g.handle, &c, unsafe.Pointer(&m)); s.code != 0 {
		return m, newError(fmt.Sprintf("map tiles %+v", t), s)
	}
	return m, nil
}

// A Start says when a kernel may start.
type Start int

const (
	// AfterPrevious: after the previous kernel has ended.
	AfterPrevious Start = iota
	// Early: it may start before that (programmatic dependent launch), if the GPU and the driver support it, which saves
	// the pause of about a microsecond between two kernels. Every thread of the kernel itself waits for the earlier
	// kernels (griddepcontrol.wait) before it reads what they write, or writes what they read or write.
	Early
	// EarlyInGraph: like Early in a graph, otherwise like AfterPrevious. So before it waits, the kernel may read what no
	// kernel of the graph writes.
	EarlyInGraph
)

// LaunchAt is Launch with a start, of a kernel whose first parameters are maps of tiles, if there are any.
func (g *GPU) LaunchAt(start Start, f *Function, grid, block Dim3, shared int, maps []TileMap, args ...uint64) {
	early := g.early && (start == Early || start == EarlyInGraph && g.captures)
	s := g.launch(f, grid, block, shared, early, maps, args)
	if early && !g.captures && slices.Contains(earlyRefused, int(s.code)) {
		g.early = false
		s = g.launch(f, grid, block, shared, false, maps, args)
	}
	if s.code != 0 {
		g.fail(s, "launch %s, grid %v, block %v, shared memory %d", f.name, grid, block, shared)
	}
}

func (g *GPU) launch(f *Function, grid, block Dim3, shared int, early bool, maps []TileMap,
	args []uint64) (s C.cuda_status) {
	if g.failed.Load() != nil {
		return s
	}
	if len(maps)+len(args) > C.CUDA_MAX_ARGS {
		panic(fmt.Sprintf("launch %s: %d arguments, at most %d", f.name, len(maps)+len(args), C.CUDA_MAX_ARGS))
	}
	if shared > 0 && g.allow(f, shared) != nil {
		return s
	}
	g.last.Store(f)
	started := C.int(0)
	if early {
		started = 1
	}
	return C.cuda_launch(g.handle, f.handle, C.uint32_t(grid.X), C.uint32_t(max(grid.Y, 1)), C.uint32_t(max(grid.Z, 1)),
		C.uint32_t(block.X), C.uint32_t(max(block.Y, 1)), C.uint32_t(max(block.Z, 1)), C.uint32_t(shared), started,
		unsafe.Pointer(unsafe.SliceData(maps)), C.int(len(maps)), (*C.uint64_t)(unsafe.SliceData(args)), C.int(len(args)))
}
