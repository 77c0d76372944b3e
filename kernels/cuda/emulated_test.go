package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

func openEmulated(t *testing.T) (*GPU, *Compiler) {
	t.Helper()
	g, c, err := OpenEmulated(Cache{cudatest.Dir()})
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g, c
}

const emulatedSource = `
extern "C" __global__ void __launch_bounds__(BLOCK_DIM) reversed(int *to, const int *from, int n) {
	__shared__ int block[BLOCK_DIM];
	const int at = blockIdx.x * BLOCK_DIM + threadIdx.x;
	block[threadIdx.x] = at < n ? from[at] : 0;
	__syncthreads();
	to[at] = block[BLOCK_DIM - 1 - threadIdx.x];
}
extern "C" __global__ void sum(float *to, const float *from) {
	float x = from[threadIdx.x];
	for (int i = 1; i < 32; i *= 2) x += __shfl_xor_sync(~0u, x, i);
	to[threadIdx.x] = x;
}
extern "C" __global__ void place(unsigned *to) {
	const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	to[(blockIdx.z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x] = 100 * blockIdx.z + 10 * y + x;
}
extern "C" __global__ void arrive(unsigned *to) { to[blockIdx.x + threadIdx.x] = atomicAdd(to + 63, 1u); }
extern "C" __global__ void bf16(unsigned *to, const float *from) { to[threadIdx.x] = emulated_bf16(from[threadIdx.x]); }
`

// emulated returns a kernel of emulatedSource on a new GPU, with memory for n numbers that are 0, 1, …
func emulated(t *testing.T, kernel string, n int) (g *GPU, f *Function, from, to uintptr) {
	t.Helper()
	g, c := openEmulated(t)
	image, log, err := c.Compile(Program{Name: "t.cu", Source: emulatedSource, Options: []string{"-DBLOCK_DIM=64"}},
		"sm_90a")
	if err != nil {
		t.Fatal(err, log)
	}
	m, err := g.Load(image)
	if err == nil {
		f, err = m.Function(kernel)
	}
	if err != nil {
		t.Fatal(err)
	}
	if from, err = g.Alloc(4 * n); err == nil {
		to, err = g.Alloc(4 * n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g, f, from, to
}

func words(t *testing.T, g *GPU, at uintptr, n int) (list []uint32) {
	t.Helper()
	b := make([]byte, 4*n)
	if err := g.Download(b, at); err != nil {
		t.Fatal(err)
	}
	for ; len(b) > 0; b = b[4:] {
		list = append(list, binary.LittleEndian.Uint32(b))
	}
	return list
}

func TestEmulatedBarrier(t *testing.T) {
	const n = 100
	g, f, from, to := emulated(t, "reversed", 128)
	var b []byte
	for i := range uint32(n) {
		b = binary.LittleEndian.AppendUint32(b, i+1)
	}
	if err := g.Upload(from, b); err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: 2}, Dim3{X: 64}, 0, uint64(to), uint64(from), n)
	for i, got := range words(t, g, to, 128) {
		at := i/64*64 + 63 - i%64
		want := uint32(0)
		if at < n {
			want = uint32(at + 1)
		}
		if got != want {
			t.Fatalf("element %d is %d, want %d", i, got, want)
		}
	}
}

func TestEmulatedShuffle(t *testing.T) {
	g, f, from, to := emulated(t, "sum", 64)
	var b []byte
	for i := range 64 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	if err := g.Upload(from, b); err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: 1}, Dim3{X: 64}, 0, uint64(to), uint64(from))
	for i, got := range words(t, g, to, 64) {
		if want := []float32{31 * 16, 31*16 + 32*32}[i/32]; math.Float32frombits(got) != want {
			t.Fatalf("lane %d has %v, want %v", i, math.Float32frombits(got), want)
		}
	}
}

func TestEmulatedBF16(t *testing.T) {
	cases := []struct{ from, to uint32 }{
		{0x3F800000, 0x3F80}, {0x3F807FFF, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82},
		{0xBF818000, 0xBF82},
		{0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x7F800001, 0x7FFF}, {0xFFFFFFFF, 0x7FFF},
		{0x00008000, 0}, {0x00018000, 2},
	}
	g, f, from, to := emulated(t, "bf16", 64)
	var b []byte
	for _, c := range cases {
		b = binary.LittleEndian.AppendUint32(b, c.from)
	}
	if err := g.Upload(from, b); err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: 1}, Dim3{X: len(cases)}, 0, uint64(to), uint64(from))
	for i, got := range words(t, g, to, len(cases)) {
		if got != cases[i].to {
			t.Errorf("%#08x becomes %#04x, want %#04x", cases[i].from, got, cases[i].to)
		}
	}
}

// TestEmulatedOrders checks that thread blocks and threads run in one order and in the reverse order.
func TestEmulatedOrders(t *testing.T) {
	for _, c := range []struct{ blocks, threads int }{{4, 1}, {1, 4}} {
		g, f, _, to := emulated(t, "arrive", 64)
		for i := range 4 {
			if err := g.Fill(to, 0, 256); err != nil {
				t.Fatal(err)
			}
			g.Launch(f, Dim3{X: c.blocks}, Dim3{X: c.threads}, 0, uint64(to))
			want := []uint32{0, 1, 2, 3}
			if i%2 == 1 {
				want = []uint32{3, 2, 1, 0}
			}
			if got := words(t, g, to, 4); !slices.Equal(got, want) {
				t.Errorf("%d blocks of %d threads come %v, want %v", c.blocks, c.threads, got, want)
			}
		}
	}
}

func TestEmulatedDimensions(t *testing.T) {
	g, f, _, to := emulated(t, "place", 2*6*10)
	g.Launch(f, Dim3{X: 5, Y: 3, Z: 2}, Dim3{X: 2, Y: 2}, 0, uint64(to))
	for i, got := range words(t, g, to, 2*6*10) {
		if want := uint32(100*(i/60) + 10*(i/10%6) + i%10); got != want {
			t.Fatalf("element %d is %d, want %d", i, got, want)
		}
	}
}

func TestEmulatedCompiler(t *testing.T) {
	_, c := openEmulated(t)
	_, _, err := c.Compile(Program{Name: "wrong.cu", Source: "extern \"C\" __global__ void f() { int x = y; }"}, "sm_90a")
	if err == nil || !strings.Contains(err.Error(), "wrong.cu:1") {
		t.Errorf("%v", err)
	}
}

// TestUploadPieces uploads more bytes than the slots of pinned memory hold.
func TestUploadPieces(t *testing.T) {
	g, _ := openEmulated(t)
	const n = 19<<20 + 3
	want, got := make([]byte, n), make([]byte, n)
	for i := range want {
		want[i] = byte(i*i>>8 ^ i)
	}
	p, err := g.Alloc(n)
	if err == nil {
		err = g.Upload(p, want)
	}
	if err == nil {
		err = g.Download(got, p)
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the bytes are others, or %v", err)
	}
}

// TestEmulatedUpdate checks that a library is rebuilt if a newer compiler has replaced the old one.
func TestEmulatedUpdate(t *testing.T) {
	script := filepath.Join(t.TempDir(), "c++")
	var keys []string
	for _, version := range []string{"1", "2", "1"} {
		if err := os.WriteFile(script, []byte("#!/bin/sh\necho "+version+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		key, err := emulatedKey(script)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	if keys[0] == keys[1] || keys[0] != keys[2] {
		t.Errorf("%x", keys)
	}
}

// TestEmulatedGraph captures launches and checks that they do not run then, but each time that the graph is launched,
// with their captured arguments and the current memory. Operations that a graph cannot contain must be refused.
func TestEmulatedGraph(t *testing.T) {
	g, f, from, to := emulated(t, "arrive", 64)
	zeros := make([]byte, 256)
	if err := errors.Join(g.Upload(to, zeros), g.Upload(from, zeros)); err != nil {
		t.Fatal(err)
	}
	arrived := func(at uintptr) uint32 { return words(t, g, at, 64)[63] }
	args := []uint64{uint64(to)}
	graph, err := g.Capture(func() {
		g.Launch(f, Dim3{X: 1}, Dim3{X: 3}, 0, args...)
		g.Launch(f, Dim3{X: 1}, Dim3{X: 4}, 0, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	args[0] = uint64(from)
	for i, want := range []uint32{0, 7, 14} {
		if i > 0 {
			graph.Launch()
		}
		if got := arrived(to); got != want {
			t.Errorf("%d threads were counted after %d launches of the graph, not %d", got, i, want)
		}
	}
	if got := arrived(from); got != 0 {
		t.Errorf("%d threads were counted where none were to be", got)
	}
	if err := errors.Join(graph.Close(), graph.Close(), (*Graph)(nil).Close(), g.Err()); err != nil {
		t.Error(err)
	}
	if _, err := g.Capture(func() { g.Fill(to, 0, 4) }); err == nil || !strings.Contains(err.Error(), "fill") {
		t.Errorf("a fill in a graph: %v", err)
	}
}

// TestCompilerOfAnotherMachine checks that a cross compiler is refused before it compiles anything.
func TestCompilerOfAnotherMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the emulated GPU needs Linux")
	}
	mine := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	for machine, want := range map[string]error{mine: nil, "riscv64-linux-gnu": ErrNoCompiler} {
		path := filepath.Join(t.TempDir(), "c++")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+machine+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CXX", path)
		if _, err := cxx(); !errors.Is(err, want) {
			t.Errorf("a compiler for %s: %v", machine, err)
		}
	}
}
