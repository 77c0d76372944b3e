package kernels

import (
	"embed"
	"fmt"
	"math"
	"path"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

//go:embed *.cu *.cuh
var sources embed.FS

// gpu is the GPU's side of a Device: the GPU, the compiler that makes its code, and the kernels that are compiled so far.
type gpu struct {
	*cuda.GPU
	compiler  *cuda.Compiler
	arch      string
	cache     cuda.Cache
	modules   map[build]*cuda.Module
	functions functions
}

// A kernel names a __global__ function and what its source is compiled for, as common.cuh says.
type kernel struct {
	source, name string       // "rmsnorm.cu", "rmsnorm_backward"
	t            tensor.DType // of activations and weights
	dim          int          // elements of a row
}

// launched is a kernel with the threads of its blocks, and build is what a source is compiled for.
type launched struct {
	kernel
	block int
}

type build struct {
	source     string
	t          tensor.DType
	dim, block int
}

func openGPU(ordinal int, _ Options) (*gpu, error) {
	device, err := cuda.Open(ordinal)
	if err != nil {
		return nil, err
	}
	g := &gpu{GPU: device, cache: cuda.DefaultCache(), modules: map[build]*cuda.Module{}, functions: functions{}}
	if device.Major < 8 {
		err = fmt.Errorf("%s has compute capability %d.%d: bfloat16 needs 8.0 (Ampere) or newer", device.Name, device.Major, device.Minor)
	}
	if err == nil {
		g.compiler, err = cuda.OpenCompiler(device.Driver)
	}
	if err == nil {
		g.arch, err = g.compiler.Arch(device.Major, device.Minor)
	}
	if err != nil {
		_ = device.Close()
		return nil, err
	}
	return g, nil
}

// launch queues a kernel with grid blocks of block threads, which have so many bytes of dynamic shared memory. Arguments are
// made by addr, i32, f32 and flag, in the order of the kernel's parameters; a test compares each call with the source. The
// kernel is compiled when it is launched for the first time. What goes wrong sticks to the device.
func (d *Device) launch(k kernel, grid, block, shared int, args ...uint64) {
	if d.err != nil || grid == 0 {
		return
	}
	f, err := d.gpu.functions.get(launched{k, block}, shared, d.gpu.function)
	if err != nil {
		d.fail(err)
		return
	}
	d.gpu.Launch(f, cuda.Dim3{X: grid}, cuda.Dim3{X: block}, shared, args...)
	if d.opts.Sync {
		d.fail(d.gpu.Sync())
	}
}

// addr, i32, f32 and flag make an argument. The address of no tensor is 0.
func addr(x tensor.Tensor) uint64 { return uint64(x.Addr) }

func i32(n int) uint64 {
	if n != int(int32(n)) {
		panic(fmt.Sprintf("launch: %d does not fit a kernel's int", n))
	}
	return uint64(uint32(n))
}

func f32(x float32) uint64 { return uint64(math.Float32bits(x)) }

// flag is an int that is 1 or 0.
func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// blocks is how many blocks of so many threads n threads need.
func blocks(n, threads int) int { return (n + threads - 1) / threads }

// vectors is how many vectors a row has, as common.cuh cuts it.
func vectors(t tensor.DType, dim int) int {
	width := 16 / t.Size()
	for dim%width != 0 {
		width /= 2
	}
	return dim / width
}

// functions are the kernels found so far, with the most dynamic shared memory that each may be launched with. It belongs to the
// function on the GPU, not to our copy: asked for less, it would have less, so it only grows.
type functions map[launched]struct {
	*cuda.Function
	shared int
}

// get returns a kernel that may be launched with so much shared memory. It calls find unless it has found one.
func (fs functions) get(l launched, shared int, find func(launched, int) (*cuda.Function, error)) (*cuda.Function, error) {
	f, found := fs[l]
	if found && shared <= f.shared {
		return f.Function, nil
	}
	var err error
	if f.Function, err = find(l, shared); err != nil {
		return nil, err
	}
	f.shared = shared
	fs[l] = f
	return f.Function, nil
}

// function compiles a kernel's source, or finds it compiled, and loads it.
func (g *gpu) function(l launched, shared int) (*cuda.Function, error) {
	m, err := g.module(build{l.source, l.t, l.dim, l.block})
	if err != nil {
		return nil, err
	}
	return m.Function(l.name, shared)
}

func (g *gpu) module(b build) (*cuda.Module, error) {
	if m := g.modules[b]; m != nil {
		return m, nil
	}
	p, err := b.program()
	if err != nil {
		return nil, err
	}
	image, err := g.cache.Compile(g.compiler, p, g.arch)
	if err != nil {
		return nil, err
	}
	m, err := g.Load(image)
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w", b.source, g.arch, err)
	}
	g.modules[b] = m
	return m, nil
}

// program is the source with the macros that common.cuh describes.
func (b build) program() (cuda.Program, error) {
	p := cuda.Program{Name: b.source, Headers: map[string]string{}, Options: []string{
		"-D" + b.t.String(), fmt.Sprintf("-DDIM=%d", b.dim), fmt.Sprintf("-DBLOCK=%d", b.block),
	}}
	files, err := sources.ReadDir(".")
	if err != nil {
		return p, err
	}
	for _, f := range files {
		text, err := sources.ReadFile(f.Name())
		switch {
		case err != nil:
			return p, err
		case f.Name() == b.source:
			p.Source = string(text)
		case path.Ext(f.Name()) == ".cuh":
			p.Headers[f.Name()] = string(text)
		}
	}
	if p.Source == "" {
		return p, fmt.Errorf("there is no kernel source %s", b.source)
	}
	return p, nil
}

func (g *gpu) close() error                           { return g.Close() }
func (g *gpu) sync() error                            { return g.Sync() }
func (g *gpu) alloc(bytes int) (uintptr, error)       { return g.Alloc(bytes) }
func (g *gpu) free(addr uintptr) error                { return g.Release(addr) }
func (g *gpu) upload(dst uintptr, src []byte) error   { return g.Upload(dst, src) }
func (g *gpu) download(dst []byte, src uintptr) error { return g.Download(dst, src) }
func (g *gpu) zero(addr uintptr, bytes int) error     { return g.Fill(addr, 0, bytes) }
func (g *gpu) copy(dst, src uintptr, bytes int) error { return g.Copy(dst, src, bytes) }
