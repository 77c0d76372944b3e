package kernels

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

//go:embed *.cu include/*.cuh
var sources embed.FS

// gpu is the GPU of a Device: the GPU itself, the compiler for its kernels, and the kernels compiled so far.
type gpu struct {
	*cuda.GPU
	compiler *cuda.Compiler
	arch     string
	cache    cuda.Cache
	modules  map[build]*cuda.Module
	room     *Arena        // partial sums of products; nil until a product needs it
	arrived  tensor.Tensor // counters in it: see few
	blas     *blas         // nil: restyle's own kernels multiply
	ranges   *cuda.Ranges  // nil: there is no profiler
	monitor  *cuda.Monitor // see Device.Meters
	dark     bool          // there is no monitor
	// set by tests and rehearsals: called for every launch instead of launching, with its arguments except maps of
	// tiles
	launched func(k kernel, g grid, words []uint64)
}

// A kernel names a __global__ function, and the macros that its source is compiled with.
type kernel struct {
	source, name string // "op_rmsnorm.cu", "rmsnorm_backward"
	macros       macros
}

// macros are the macros that common.cuh and a source use, except BLOCK_DIM, which follows from the launch. They can be
// part of a map key. The first ones are in an array, so that adding them before each launch allocates nothing. If a
// source takes more, the others are text.
type macros struct {
	first [12]macro
	more  string
}

type macro struct {
	name  string // "" after the last
	value int
}

// option returns the compiler's option.
func (m macro) option() string { return fmt.Sprintf("-D%s=%d", m.name, m.value) }

// define returns macros.
func define(list ...macro) (m macros) {
	for _, one := range list {
		m = m.with(one.name, one.value)
	}
	return m
}

// with returns m with one more macro.
func (m macros) with(name string, value int) macros {
	one := macro{name, value}
	for i := range m.first {
		if m.first[i].name == "" {
			m.first[i] = one
			return m
		}
	}
	m.more += " " + one.option()
	return m
}

// options returns the compiler's options.
func (m macros) options() (list []string) {
	for _, one := range m.first {
		if one.name != "" {
			list = append(list, one.option())
		}
	}
	return append(list, strings.Fields(m.more)...)
}

// vectorsOf returns the macros of a source that processes vectors of x's elements.
func vectorsOf(x tensor.Matrix) macros {
	return define(macro{x.DType.String(), 1}, macro{"WIDTH", width(x.DType, x.Cols)})
}

// rowsOf returns the macros of a source that also depends on the length of x's rows.
func rowsOf(x tensor.Matrix) macros { return vectorsOf(x).with("DIM", x.Cols) }

// width returns the number of elements that a thread loads and stores at once: 16 bytes of them, or fewer if rows of
// dim elements would not stay aligned.
func width(t tensor.DType, dim int) int {
	either := dim | 16/t.Size()
	return either & -either // the lowest bit of both: the largest power of two that divides them
}

// vectors returns the number of vectors of that width in x.
func vectors(x tensor.Matrix) int { return x.Rows * x.Cols / width(x.DType, x.Cols) }

// A grid is the number of thread blocks of a launch, and the threads and bytes of dynamic shared memory of each. If
// ahead is true, the kernel reads weights before it waits for the earlier kernels, so it may start before they have
// ended only in a graph: no kernel of a graph writes weights.
type grid struct {
	blocks, threads cuda.Dim3
	shared          int
	ahead           bool
}

// line returns a one-dimensional grid without dynamic shared memory.
func line(blocks, threads int) grid {
	return grid{blocks: cuda.Dim3{X: blocks}, threads: cuda.Dim3{X: threads}}
}

// each returns a one-dimensional grid with a thread for each of n elements.
func each(n int) grid { return line(blocks(n, 256), 256) }

// blocks returns the number of thread blocks that n threads need.
func blocks(n, threads int) int { return (n + threads - 1) / threads }

// A build identifies a compiled source: its name, macros and number of threads per block.
type build struct {
	source   string
	macros   macros
	blockDim int
}

// launch queues a kernel, or does nothing if the grid has no blocks along X. Build the arguments with addr, addrOf,
// address, i32, i64, f32, f64 and flag, in the order of the kernel's parameters; a test compares each call with the
// source. launch compiles the source the first time it is launched with these macros and this number of threads. An
// error sticks to the device.
func (d *Device) launch(k kernel, g grid, args ...argument) {
	what := d.next
	d.next = work{}
	if d.err != nil || g.blocks.X == 0 {
		return
	}
	words := make([]uint64, 0, 64) // of constant capacity, so that it stays on the stack
	var maps []cuda.TileMap
	for _, a := range args {
		what.bytes += a.bytes
		if a.tiles != nil {
			maps = append(maps, *a.tiles)
		} else {
			words = append(words, a.word)
		}
	}
	var t *Timing
	if d.opts.Sync {
		t = d.counted(k.name+what.sizes, what)
	}
	if d.gpu.launched != nil {
		d.gpu.launched(k, g, slices.Clone(words))
		return
	}
	f, err := d.gpu.function(k, g.threads.Count())
	if err != nil {
		d.fail(err)
		return
	}
	start := cuda.Early
	if g.ahead {
		start = cuda.EarlyInGraph
	}
	if t == nil {
		d.gpu.LaunchAt(start, f, g.blocks, g.threads, g.shared, maps, words...)
		return
	}
	words = slices.Clone(words)
	d.timed(t, func() { d.gpu.LaunchAt(start, f, g.blocks, g.threads, g.shared, maps, words...) })
}

// An argument is a kernel parameter, in the low bytes of word, and the number of bytes that the kernel reads or writes
// through it. Parameters that are maps of tiles come first.
type argument struct {
	word  uint64
	bytes float64
	tiles *cuda.TileMap // instead of the word
}

// addr and addrOf pass the address of an operand that the kernel reads or writes once, as a whole. The address of the
// zero Tensor is 0.
func addr(x tensor.Tensor) argument {
	if !x.Ok() {
		return argument{}
	}
	return address(x.Addr).moves(x.Bytes())
}

func addrOf(x tensor.Matrix) argument {
	return address(x.Addr).moves(x.Rows * x.DType.RowBytes(x.Cols))
}

// address passes an address through which the kernel moves nothing, or whose bytes are counted elsewhere.
func address(place uintptr) argument { return argument{word: uint64(place)} }

// moves returns the argument with the number of bytes moved, for part of an operand.
func (a argument) moves(bytes int) argument {
	a.bytes = float64(bytes)
	return a
}

// movesSome returns the argument for an operand if numbers in the device's memory decide how many of its bytes are
// moved.
func (a argument) movesSome() argument {
	a.bytes = math.NaN()
	return a
}

// twice returns the argument for an operand that is read, and also written if both is true.
func (a argument) twice(both bool) argument {
	a.bytes *= float64(1 + number(both))
	return a
}

// tiles passes the map of an operand that the kernel reads or writes once, as a whole.
func tiles(m cuda.TileMap, x tensor.Matrix) argument {
	a := addrOf(x)
	a.tiles = &m
	return a
}

// i32, i64, f32, f64 and flag pass numbers.
func i32(n int) argument {
	if n != int(int32(n)) {
		panic(fmt.Sprintf("launch: %d: must fit a kernel's int", n))
	}
	return argument{word: uint64(uint32(n))}
}

func i64(n int) argument { return argument{word: uint64(n)} }

func f32(x float32) argument { return argument{word: uint64(math.Float32bits(x))} }

func f64(x float64) argument { return argument{word: math.Float64bits(x)} }

// flag passes an int that is 1 or 0.
func flag(b bool) argument { return i32(number(b)) }

// number returns 1 for true and 0 for false, as macros need it.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// function returns a kernel for thread blocks of blockDim threads, and compiles its source if necessary.
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

// program returns the source with its macros and headers.
func (b build) program() (cuda.Program, error) {
	source, err := sources.ReadFile(b.source)
	p := cuda.Program{Name: b.source, Source: string(source), Headers: map[string]string{}}
	headers, _ := fs.Glob(sources, "include/*.cuh") // the pattern is valid
	for _, name := range headers {
		text, _ := sources.ReadFile(name)
		p.Headers[path.Base(name)] = string(text)
	}
	p.Options = b.options()
	return p, err
}

// options returns the compiler options that define the macros.
func (b build) options() []string {
	return append([]string{macro{"BLOCK_DIM", b.blockDim}.option()}, b.macros.options()...)
}
