package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
)

// mmaSource has kernels of one warp. Each reads and writes words, the operands of a thread next to each other.
const mmaSource = `
#include "mma.cuh"
constexpr int LANE = 32;
// a is in four words a lane, b in two, d in four
template <typename F> void product(float *to, const unsigned *from, F multiply) {
	const unsigned *x = from + 10 * threadIdx.x;
	const unsigned a[4] = {x[0], x[1], x[2], x[3]}, b[2] = {x[4], x[5]};
	float d[4] = {__uint_as_float(x[6]), __uint_as_float(x[7]), __uint_as_float(x[8]), __uint_as_float(x[9])};
	multiply(d, a, b);
	for (int i = 0; i < 4; i++) to[4 * threadIdx.x + i] = d[i];
}
extern "C" __global__ void product_bf16(float *to, const unsigned *from) {
	product(to, from, [](float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2]) { mma(d, a, b); });
}
extern "C" __global__ void product_tf32(float *to, const unsigned *from) {
	product(to, from, [](float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2]) { mmaTF32(d, a, b); });
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
extern "C" __global__ void copies(uint4 *to, const uint4 *from) { // three groups, the last of no copy
	__shared__ uint4 one[LANE];
	const int i = threadIdx.x;
	copyAsync(vectors + i, from + i, true);
	copyCommit();
	copyAsync(one + i, from + i, false);
	copyCommit();
	copyCommit();
	copyWait<2>();
	to[i] = vectors[i];
	copyWait<1>();
	to[LANE + i] = one[i];
}
extern "C" __global__ void packed(unsigned *to, const float *from) {
	to[threadIdx.x] = pack(from[2 * threadIdx.x], from[2 * threadIdx.x + 1]);
}
`

func TestMMA(t *testing.T) {
	t.Run("product", func(t *testing.T) {
		pair := func(lo, hi float32) uint32 { return math.Float32bits(lo)>>16 | math.Float32bits(hi)&0xFFFF0000 }
		mmaProduct(t, "product_bf16", 16, func(a, b *[16][16]float32, g, t int) []uint32 {
			return []uint32{pair(a[g][2*t], a[g][2*t+1]), pair(a[g+8][2*t], a[g+8][2*t+1]),
				pair(a[g][2*t+8], a[g][2*t+9]), pair(a[g+8][2*t+8], a[g+8][2*t+9]),
				pair(b[2*t][g], b[2*t+1][g]), pair(b[2*t+8][g], b[2*t+9][g])}
		})
	})
	t.Run("product of TF32", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		word := func(x float32) uint32 { return math.Float32bits(x) | r.Uint32N(1<<13) } // whose low bits do not count
		mmaProduct(t, "product_tf32", 8, func(a, b *[16][16]float32, g, t int) []uint32 {
			return []uint32{word(a[g][t]), word(a[g+8][t]), word(a[g][t+4]), word(a[g+8][t+4]), word(b[t][g]), word(b[t+4][g])}
		})
	})
	t.Run("matrices", mmaMatrices)
	t.Run("copies", mmaCopies)
	t.Run("pack", mmaPack)
}

// compiled returns a kernel of a source on the emulated GPU.
func compiled(t *testing.T, d *Device, name, source, kernel string, threads int) *cuda.Function {
	t.Helper()
	p, err := build{source: "op_add.cu", blockDim: threads}.program()
	expect.OK(t, err)
	p.Name, p.Source = name, source
	image, err := cuda.DefaultCache().Compile(d.gpu.compiler, p, d.gpu.arch)
	expect.OK(t, err)
	m, err := d.gpu.Load(image)
	expect.OK(t, err)
	f, err := m.Function(kernel)
	expect.OK(t, err)
	return f
}

// warp runs a kernel of mmaSource with 512 bytes of dynamic shared memory, on the emulated GPU, and returns n words.
func warp(t *testing.T, kernel string, from []uint32, n int) ([]uint32, error) {
	t.Helper()
	d := Emulated(t, Options{})
	f := compiled(t, d, "mma.cu", mmaSource, kernel, 32)
	at, err := d.gpu.Alloc(4 * (n + len(from)))
	expect.OK(t, err)
	b := make([]byte, 4*n)
	for _, x := range from {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	expect.OK(t, d.gpu.Upload(at, b))
	d.gpu.Launch(f, cuda.Dim3{X: 1}, cuda.Dim3{X: 32}, 512, uint64(at), uint64(at)+uint64(4*n))
	if err := d.gpu.Download(b, at); err != nil {
		return nil, err
	}
	var words []uint32
	for b = b[:4*n]; len(b) > 0; b = b[4:] {
		words = append(words, binary.LittleEndian.Uint32(b))
	}
	return words, nil
}

// checkWords fails the test if a kernel's words are not the words that it should write.
func checkWords(t *testing.T, got []uint32, err error, want func(i int) uint32) {
	t.Helper()
	expect.OK(t, err)
	for i, x := range got {
		if x != want(i) {
			t.Fatalf("word %d is %#x, want %#x", i, x, want(i))
		}
	}
}

// mmaProduct compares a kernel's product, of a's first depth columns and b's first depth rows, with a sum over the
// matrices. fragment returns a lane's words of a and b according to PTX. Small whole numbers are not rounded.
func mmaProduct(t *testing.T, kernel string, depth int, fragment func(a, b *[16][16]float32, g, t int) []uint32) {
	r := rand.New(rand.NewPCG(1, 2))
	var a, b, d [16][16]float32
	for i := range 16 {
		for j := range 16 {
			a[i][j], b[i][j], d[i][j] = float32(r.IntN(17)-8), float32(r.IntN(17)-8), float32(r.IntN(17)-8)
		}
	}
	var from []uint32
	for lane := range 32 {
		g, t := lane/4, lane%4
		from = append(from, fragment(&a, &b, g, t)...)
		for _, x := range []float32{d[g][2*t], d[g][2*t+1], d[g+8][2*t], d[g+8][2*t+1]} {
			from = append(from, math.Float32bits(x))
		}
	}
	got, err := warp(t, kernel, from, 128)
	checkWords(t, got, err, func(i int) uint32 {
		row, column := i/4/4+8*(i%4/2), 2*(i/4%4)+i%2
		sum := d[row][column]
		for k := range depth {
			sum += a[row][k] * b[k][column]
		}
		return math.Float32bits(sum)
	})
}

// mmaMatrices uses the number 64m + 8row + column as element (row, column) of matrix m.
func mmaMatrices(t *testing.T) {
	var from []uint32
	for i := range uint32(128) {
		from = append(from, 2*i|(2*i+1)<<16)
	}
	got, err := warp(t, "matrices", from, 256)
	checkWords(t, got, err, func(i int) uint32 {
		lane, m := uint32(i/8), uint32(i%4)
		at, next := 64*m+8*(lane/4)+lane%4*2, uint32(1)
		if i%8 >= 4 {
			at, next = 64*m+lane%4*2*8+lane/4, 8
		}
		return at | (at+next)<<16
	})
}

// mmaCopies checks that asynchronous copies have arrived after the wait.
func mmaCopies(t *testing.T) {
	var from []uint32
	for i := range uint32(128) {
		from = append(from, 1000+i)
	}
	got, err := warp(t, "copies", from, 2*128)
	checkWords(t, got, err, func(i int) uint32 { return []uint32{1000 + uint32(i%128), 0}[i/128] })
}

func mmaPack(t *testing.T) {
	var from []uint32
	for i := range 64 {
		from = append(from, math.Float32bits(float32(i)+1+1.0/512))
	}
	got, err := warp(t, "packed", from, 32)
	checkWords(t, got, err, func(i int) uint32 {
		return math.Float32bits(float32(2*i+1))>>16 | math.Float32bits(float32(2*i+2))&0xFFFF0000
	})
}
