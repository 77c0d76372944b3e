package kernels

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

//go:embed *.cu *.cuh
var sources embed.FS

// gpu is the GPU's side of a Device: the GPU, the compiler that makes its code, and the kernels that are compiled so far.
type gpu struct {
	*cuda.GPU
	compiler *cuda.Compiler
	arch     string
	cache    cuda.Cache
	modules  map[build]*cuda.Module
	room     *Arena                 // of products, nil until they need it
	blas     *blas                  // nil: products are our own
	ranges   *cuda.Ranges           // nil: no profiler listens
	monitor  *cuda.Monitor          // see Device.Meters
	dark     bool                   // there is none
	launched func(k kernel, g grid) // tests set it, to be told of every launch, of which none is made then
}

// A kernel names a __global__ function, and the macros that its source is compiled with.
type kernel struct {
	source, name string // "rmsnorm.cu", "rmsnorm_backward"
	macros       macros
}

// macros are those that common.cuh and a source speak of, except BLOCK_DIM, which follows from the launch. They are an array, as
// compiled sources are found by them.
type macros [10]macro

type macro struct {
	name  string // "" after the last
	value int
}

// with is m and one more. It panics if there is no room.
func (m macros) with(name string, value int) macros {
	i := 0
	for m[i].name != "" {
		i++
	}
	m[i] = macro{name, value}
	return m
}

// vectorsOf is the macros of a source that has vectors of x's elements.
func vectorsOf(x tensor.Matrix) macros {
	return macros{{x.DType.String(), 1}, {"WIDTH", width(x.DType, x.Cols)}}
}

// rowsOf is those of one that knows the length of x's rows too.
func rowsOf(x tensor.Matrix) macros { return vectorsOf(x).with("DIM", x.Cols) }

// width is how many elements a thread loads and stores at once: those of the 16 bytes that it can move, or as many as
// keep every row of dim aligned.
func width(t tensor.DType, dim int) int {
	either := dim | 16/t.Size()
	return either & -either // the lowest bit of both: the largest power of two that divides them
}

// vectors is how many vectors of that width x has.
func vectors(x tensor.Matrix) int { return x.Rows * x.Cols / width(x.DType, x.Cols) }

// A grid is the blocks of a launch, and the threads and bytes of dynamic shared memory that each of them has.
type grid struct {
	blocks, threads cuda.Dim3
	shared          int
}

// line is a grid of one dimension, without dynamic shared memory.
func line(blocks, threads int) grid {
	return grid{blocks: cuda.Dim3{X: blocks}, threads: cuda.Dim3{X: threads}}
}

// each is a line that has a thread for each of n.
func each(n int) grid { return line(blocks(n, 256), 256) }

// blocks is how many blocks of so many threads n threads need.
func blocks(n, threads int) int { return (n + threads - 1) / threads }

// A build is what a source is compiled for.
type build struct {
	source   string
	macros   macros
	blockDim int
}

// launch queues a kernel, or does nothing if the grid has no blocks along X. Arguments are made by addr, addrOf, address, i32, i64, f32,
// f64 and flag, in the order of the kernel's parameters; a test compares each call with the source. The source is compiled when it
// is launched with these macros and so many threads for the first time. What goes wrong sticks to the device.
func (d *Device) launch(k kernel, g grid, args ...argument) {
	what := d.next
	d.next = work{}
	if d.err != nil || g.blocks.X == 0 {
		return
	}
	words := make([]uint64, 0, 64) // of a size that stays on the stack
	for _, a := range args {
		words = append(words, a.word)
		what.bytes += a.bytes
	}
	var t *Timing
	if d.opts.Sync {
		t = d.counted(k.name+what.sizes, what)
	}
	if d.gpu.launched != nil {
		d.gpu.launched(k, g)
		return
	}
	f, err := d.gpu.function(k, g.threads.Count())
	if err != nil {
		d.fail(err)
		return
	}
	if t == nil {
		d.gpu.Launch(f, g.blocks, g.threads, g.shared, words...)
		return
	}
	words = slices.Clone(words)
	d.timed(t, func() { d.gpu.Launch(f, g.blocks, g.threads, g.shared, words...) })
}

// An argument is a kernel's parameter, in the lower bytes of a word, and how many bytes the kernel moves to or from memory there.
type argument struct {
	word  uint64
	bytes float64
}

// addr and addrOf are where an operand lies, all of which is read or written once. The address of no tensor is 0.
func addr(x tensor.Tensor) argument {
	if !x.Ok() {
		return argument{}
	}
	return address(x.Addr).moves(x.Bytes())
}

func addrOf(x tensor.Matrix) argument { return address(x.Addr).moves(x.Rows * x.Cols * x.DType.Size()) }

// address is one where the kernel moves nothing, or what is counted elsewhere.
func address(place uintptr) argument { return argument{word: uint64(place)} }

// moves is an argument where so many bytes are moved, those of a part.
func (a argument) moves(bytes int) argument { return argument{a.word, float64(bytes)} }

// movesSome is one where numbers in the device's memory decide how many.
func (a argument) movesSome() argument { return argument{a.word, math.NaN()} }

// twice is one whose operand is read, and written if that is so.
func (a argument) twice(both bool) argument {
	return argument{a.word, a.bytes * float64(1+number(both))}
}

// i32, i64, f32, f64 and flag are numbers.
func i32(n int) argument {
	if n != int(int32(n)) {
		panic(fmt.Sprintf("launch: %d does not fit a kernel's int", n))
	}
	return argument{word: uint64(uint32(n))}
}

func i64(n int) argument { return argument{word: uint64(n)} }

func f32(x float32) argument { return argument{word: uint64(math.Float32bits(x))} }

func f64(x float64) argument { return argument{word: math.Float64bits(x)} }

// flag is an int that is 1 or 0.
func flag(b bool) argument { return i32(number(b)) }

// number is 1 or 0, as macros have it.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// function finds a kernel whose blocks have so many threads, and compiles its source unless that was done.
func (g *gpu) function(k kernel, blockDim int) (*cuda.Function, error) {
	m, err := g.module(build{k.source, k.macros, blockDim})
	if err != nil {
		return nil, err
	}
	return m.Function(k.name)
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

// program is the source with its macros.
func (b build) program() (cuda.Program, error) {
	source, err := sources.ReadFile(b.source)
	p := cuda.Program{Name: b.source, Source: string(source), Headers: map[string]string{}}
	headers, _ := fs.Glob(sources, "*.cuh") // the pattern is a good one
	for _, name := range headers {
		text, _ := sources.ReadFile(name)
		p.Headers[name] = string(text)
	}
	p.Options = b.options()
	return p, err
}

// options are its macros.
func (b build) options() []string {
	list := []string{fmt.Sprintf("-DBLOCK_DIM=%d", b.blockDim)}
	for _, m := range b.macros {
		if m.name != "" {
			list = append(list, fmt.Sprintf("-D%s=%d", m.name, m.value))
		}
	}
	return list
}
