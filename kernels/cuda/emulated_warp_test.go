package cuda

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// warpSource has each kernel take words [n] to words, the operands of a thread next to each other.
const warpSource = `
#include "mma.cuh"
constexpr int LANE = 32;
extern "C" __global__ void product(float *to, const unsigned *from) { // a in four words a lane, b in two, d in four
	const unsigned *x = from + 10 * threadIdx.x;
	const unsigned a[4] = {x[0], x[1], x[2], x[3]}, b[2] = {x[4], x[5]};
	float d[4] = {__uint_as_float(x[6]), __uint_as_float(x[7]), __uint_as_float(x[8]), __uint_as_float(x[9])};
	mma(d, a, b);
	for (int i = 0; i < 4; i++) to[4 * threadIdx.x + i] = d[i];
}
extern "C" __global__ void matrices(unsigned *to, const unsigned *from) {
	extern __shared__ __align__(16) unsigned char shared[];
	unsigned *words = (unsigned *)shared;
	for (int i = threadIdx.x; i < 128; i += LANE) words[i] = from[i];
	__syncthreads();
	unsigned r[4], s[4];
	ldmatrix(r, shared + 16 * threadIdx.x);
	ldmatrixTransposed(s, shared + 16 * threadIdx.x);
	for (int i = 0; i < 4; i++) to[8 * threadIdx.x + i] = r[i], to[8 * threadIdx.x + 4 + i] = s[i];
}
extern __shared__ uint4 vectors[];
extern "C" __global__ void copies(uint4 *to, const uint4 *from) { // three groups, the last of no copy, and what is seen in between
	__shared__ uint4 one[LANE];
	const int i = threadIdx.x;
	one[i] = {1, 2, 3, 4};
	copyAsync(vectors + i, from + i, true);
	copyCommit();
	copyAsync(one + i, from + i, false);
	copyCommit();
	copyCommit();
	to[i] = vectors[i], to[LANE + i] = one[i];
	copyWait<2>();
	to[2 * LANE + i] = vectors[i], to[3 * LANE + i] = one[i];
	copyWait<1>();
	to[4 * LANE + i] = one[i];
}
extern "C" __global__ void fresh(unsigned *to) { // what a block finds in shared memory is nothing that another left there
	extern __shared__ unsigned char bytes[];
	__shared__ unsigned mine[LANE];
	to[64 * blockIdx.x + threadIdx.x] = mine[threadIdx.x];
	to[64 * blockIdx.x + 32 + threadIdx.x] = bytes[threadIdx.x];
	mine[threadIdx.x] = bytes[threadIdx.x] = 0;
}
extern "C" __global__ void shuffles(unsigned *to) {
	const int lane = threadIdx.x % LANE;
	unsigned *at = to;
	auto next = [&](unsigned x) { at[threadIdx.x] = x, at += 64; };
	next(__shfl_sync(~0u, lane, lane / 2));
	next(__shfl_sync(~0u, lane, 35, 8));
	next(__shfl_up_sync(~0u, lane, 3));
	next(__shfl_up_sync(~0u, lane, 3, 8));
	next(__shfl_down_sync(~0u, lane, 3));
	next(__shfl_down_sync(~0u, lane, 3, 8));
	next(__shfl_xor_sync(~0u, lane, 5));
	next((unsigned)(__shfl_xor_sync(~0u, (long long)lane << 32, 5) >> 32));
	next(__ballot_sync(~0u, lane % 3 == 0));
	next(__any_sync(~0u, lane == 7) + 2 * __any_sync(~0u, 0));
	next(__all_sync(~0u, lane != 7) + 2 * __all_sync(~0u, 1));
	next(lane < 16 ? __ballot_sync(0xFFFF, lane % 2) : __ballot_sync(0xFFFF0000, lane % 4));
	__syncwarp();
}
extern "C" __global__ void count(int *to) { to[1 + blockIdx.x * LANE + threadIdx.x] = atomicAdd(to, 2); }
extern "C" __global__ void packed(unsigned *to, const float *from) { to[threadIdx.x] = pack(from[2 * threadIdx.x], from[2 * threadIdx.x + 1]); }
extern "C" __global__ void odd_row(unsigned *to) {
	__shared__ __align__(16) unsigned char rows[32 * 16 + 8];
	unsigned r[4];
	ldmatrix(r, rows + 16 * threadIdx.x + (threadIdx.x == 5 ? 8 : 0));
}
extern "C" __global__ void odd_copy(unsigned *to) {
	__shared__ uint4 rows[32];
	copyAsync(rows + threadIdx.x, to + threadIdx.x, true);
}
extern "C" __global__ void half_a_product(float *to) {
	const unsigned a[4] = {}, b[2] = {};
	float d[4] = {};
	if (threadIdx.x < 16) mma(d, a, b);
}
extern "C" __global__ void wrong_lane(int *to) {
	if (threadIdx.x < 16) to[threadIdx.x] = __shfl_sync(0xFFFF, 1, 16 + threadIdx.x);
}
extern "C" __global__ void beyond_dynamic(int *to) {
	extern __shared__ int more[];
	more[threadIdx.x + 128] = 1;
}
`

// warp runs a kernel of warpSource with 32 threads a block and 64 bytes of dynamic shared memory a thread, and returns n words.
func warp(t *testing.T, kernel string, blocks int, from []uint32, n int) ([]uint32, error) {
	t.Helper()
	g, c := openEmulated(t)
	header, err := os.ReadFile("../mma.cuh")
	if err != nil {
		t.Fatal(err)
	}
	p := Program{Name: "warp.cu", Source: warpSource, Headers: map[string]string{"mma.cuh": string(header)}}
	image, err := Cache{cudatest.Dir()}.Compile(c, p, "sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Load(image)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function(kernel)
	if err != nil {
		t.Fatal(err)
	}
	at, err := g.Alloc(4 * (n + len(from)))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, x := range from {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	if err := g.Upload(at+uintptr(4*n), b); err != nil {
		t.Fatal(err)
	}
	if err := g.Fill(at, 0, 4*n); err != nil {
		t.Fatal(err)
	}
	g.Launch(f, Dim3{X: blocks}, Dim3{X: 32}, 32*16, uint64(at), uint64(at)+uint64(4*n))
	if err := g.Sync(); err != nil {
		return nil, err
	}
	return words(t, g, at, n), nil
}

// expect fails the test where a kernel's words are not those that it should write.
func expect(t *testing.T, got []uint32, err error, want func(i int) uint32) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != want(i) {
			t.Fatalf("word %d is %#x, want %#x", i, x, want(i))
		}
	}
}

// TestEmulatedProduct compares mma with a sum over the matrices that PTX says its fragments are of. Small whole numbers have no roundings.
func TestEmulatedProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	small := func() float32 { return float32(r.IntN(17) - 8) }
	var a [16][16]float32
	var b [16][8]float32
	var d [16][8]float32
	for i := range 16 {
		for k := range 16 {
			a[i][k] = small()
		}
		for j := range 8 {
			b[i][j], d[i][j] = small(), small()
		}
	}
	pair := func(lo, hi float32) uint32 { return math.Float32bits(lo)>>16 | math.Float32bits(hi)&0xFFFF0000 }
	var from []uint32
	for lane := range 32 {
		g, t := lane/4, lane%4
		from = append(from, pair(a[g][2*t], a[g][2*t+1]), pair(a[g+8][2*t], a[g+8][2*t+1]),
			pair(a[g][2*t+8], a[g][2*t+9]), pair(a[g+8][2*t+8], a[g+8][2*t+9]),
			pair(b[2*t][g], b[2*t+1][g]), pair(b[2*t+8][g], b[2*t+9][g]))
		for _, x := range []float32{d[g][2*t], d[g][2*t+1], d[g+8][2*t], d[g+8][2*t+1]} {
			from = append(from, math.Float32bits(x))
		}
	}
	got, err := warp(t, "product", 1, from, 128)
	expect(t, got, err, func(i int) uint32 {
		row, column := i/4/4+8*(i%4/2), 2*(i/4%4)+i%2
		sum := d[row][column]
		for k := range 16 {
			sum += a[row][k] * b[k][column]
		}
		return math.Float32bits(sum)
	})
}

// TestEmulatedMatrices: element (row, column) of matrix m is the number 64m + 8row + column.
func TestEmulatedMatrices(t *testing.T) {
	var from []uint32
	for i := range uint32(128) {
		from = append(from, 2*i|(2*i+1)<<16)
	}
	got, err := warp(t, "matrices", 1, from, 256)
	expect(t, got, err, func(i int) uint32 {
		lane, m := uint32(i/8), uint32(i%4)
		at, next := 64*m+8*(lane/4)+lane%4*2, uint32(1)
		if i%8 >= 4 {
			at, next = 64*m+lane%4*2*8+lane/4, 8
		}
		return at | (at+next)<<16
	})
}

// TestEmulatedCopies: an asynchronous copy is NaN until it is waited for, and only the groups that are waited for are there.
func TestEmulatedCopies(t *testing.T) {
	var from []uint32
	for i := range uint32(128) {
		from = append(from, 1000+i)
	}
	got, err := warp(t, "copies", 1, from, 5*128)
	expect(t, got, err, func(i int) uint32 {
		return []uint32{1<<32 - 1, 1<<32 - 1, 1000 + uint32(i%128), 1<<32 - 1, 0}[i/128]
	})
}

func TestEmulatedFreshMemory(t *testing.T) {
	got, err := warp(t, "fresh", 3, nil, 3*64)
	expect(t, got, err, func(i int) uint32 { return []uint32{1<<32 - 1, 0xFF}[i/32%2] })
}

func TestEmulatedShuffles(t *testing.T) {
	within := func(lane, from, first, last int) uint32 {
		if from < first || from > last {
			return uint32(lane)
		}
		return uint32(from)
	}
	want := []func(lane int) uint32{
		func(lane int) uint32 { return uint32(lane / 2) },
		func(lane int) uint32 { return uint32(lane/8*8 + 3) },
		func(lane int) uint32 { return within(lane, lane-3, 0, 31) },
		func(lane int) uint32 { return within(lane, lane-3, lane/8*8, 31) },
		func(lane int) uint32 { return within(lane, lane+3, 0, 31) },
		func(lane int) uint32 { return within(lane, lane+3, 0, lane/8*8+7) },
		func(lane int) uint32 { return uint32(lane ^ 5) },
		func(lane int) uint32 { return uint32(lane ^ 5) },
		func(lane int) uint32 { return 0x49249249 },
		func(lane int) uint32 { return 1 },
		func(lane int) uint32 { return 2 },
		func(lane int) uint32 { return []uint32{0xAAAA, 0xEEEE0000}[lane/16] },
	}
	got, err := warp(t, "shuffles", 1, nil, 64*len(want))
	expect(t, got, err, func(i int) uint32 {
		if i%64 >= 32 {
			return 0
		}
		return want[i/64](i % 64)
	})
}

func TestEmulatedAtomics(t *testing.T) {
	got, err := warp(t, "count", 2, nil, 65)
	expect(t, got, err, func(i int) uint32 { return []uint32{128, 2 * uint32(max(i, 1)-1)}[min(i, 1)] })
}

func TestEmulatedPack(t *testing.T) {
	var from []uint32
	for i := range 64 {
		from = append(from, math.Float32bits(float32(i)+1+1.0/512))
	}
	got, err := warp(t, "packed", 1, from, 32)
	expect(t, got, err, func(i int) uint32 {
		return math.Float32bits(float32(2*i+1))>>16 | math.Float32bits(float32(2*i+2))&0xFFFF0000
	})
}

// TestEmulatedWarpFaults: what belongs to a warp is told of by name if a lane or an address is wrong.
func TestEmulatedWarpFaults(t *testing.T) {
	for kernel, want := range map[string]string{
		"odd_row":        "thread 5: ldmatrix of a row whose address is no multiple of 16",
		"odd_copy":       "thread 1: an asynchronous copy whose address is no multiple of 16",
		"half_a_product": "thread 0 waits for lanes of its warp that never come",
		"wrong_lane":     "thread 0: a shuffle reads a lane that is not there",
		"beyond_dynamic": "thread 0: no memory at ",
	} {
		t.Run(kernel, func(t *testing.T) {
			_, err := warp(t, kernel, 1, nil, 64)
			if want := "kernel " + kernel + ", block 0,0,0: " + want; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %s", err, want)
			}
		})
	}
}
