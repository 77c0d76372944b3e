package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// wgmmaSource has kernels of one warpgroup, which multiplies tiles of 64 rows, or misuses what wgmma.cuh has.
const wgmmaSource = `
#include "wgmma.cuh"
extern __shared__ uint4 memory[];

// product writes the sums of a·bᵀ to d, those of one row next to each other, and rounded to c through shared memory.
extern "C" __global__ void product(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
	const __grid_constant__ TileMap c, Sum *d, int how) {
	char *const tiles = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024;
	Barrier *const there = (Barrier *)(tiles + 3 * 8192);
	if (threadIdx.x == 0) {
		if (how != 1) barrierInit(there, 1);
		barrierFence();
	}
	__syncthreads();
	if (threadIdx.x == 0 && how != 2) {
		barrierExpect(there, how == 3 ? 8192 : 2 * 8192);
		if (how == 4) barrierArrive(there);
		tileLoad(tiles + (how == 5 ? 128 : 0), &a, 0, 0, there);
		if (how != 6) tileLoad(tiles + 8192, &b, 0, 0, there);
	}
	barrierWait(there, 0);
	Sum sums[32] = {};
	groupFence();
	for (int k = 0; k < 4; k++)
		groupMultiply(sums, tiles + 32 * k + (how == 7 && threadIdx.x == 9 ? 32 : 0), tiles + 8192 + 32 * k, k > 0);
	groupCommit();
	if (how != 8) groupWait<0>();
	const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
	for (int i = 0; i < 32; i++) d[(row + i / 2 % 2 * 8) * 64 + column + i % 2 + i / 4 * 8] = sums[i];
	char *const out = tiles + 2 * 8192;
	const int at = (threadIdx.x / 32 * 16 + threadIdx.x % 16) * 128 + threadIdx.x % 32 / 16 * 16;
	for (int j = 0; j < 4; j++) {
		const Sum *s = sums + 8 * j;
		const unsigned r[4] = {pack(s[0], s[1]), pack(s[2], s[3]), pack(s[4], s[5]), pack(s[6], s[7])};
		stmatrix(out + swizzled(at + 32 * j, 128), r);
	}
	if (how != 9) tileFence();
	if (how != 10) syncSome(1, how == 11 && threadIdx.x / 32 == 3 ? 96 : 128);
	else syncSome(1, 160);
	if (how == 13 && threadIdx.x % 64 == 0) d[0] += 1;
	if (threadIdx.x) return;
	tileStore(&c, 0, 0, out);
	tileCommit();
	if (how != 12) tileWait<0>();
}

// chain writes a·bᵀ·c to d, [64, 128]: threads hold the sums of a·bᵀ, and c is in two blocks of more rows than those.
extern "C" __global__ void chain(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
	const __grid_constant__ TileMap c, Sum *d) {
	char *const tiles = (char *)memory + (1024 - (size_t)shared(memory) % 1024) % 1024;
	Barrier *const there = (Barrier *)(tiles + 2 * 8192 + 2 * 72 * 128);
	if (threadIdx.x == 0) {
		barrierInit(there, 1);
		barrierFence();
		barrierExpect(there, 2 * 8192 + 2 * 72 * 128);
		tileLoad(tiles, &a, 0, 0, there);
		tileLoad(tiles + 8192, &b, 0, 0, there);
		for (int i = 0; i < 2; i++) tileLoad(tiles + 2 * 8192 + i * 72 * 128, &c, 0, 64 * i, there);
	}
	__syncthreads();
	barrierWait(there, 0);
	Sum between[32], sums[64];
	groupFence();
	for (int k = 0; k < 4; k++) {
		const int by = groupStep(false) * k;
		groupMultiply<false, false>(between, Operand<64>(tiles) + by, Operand<64>(tiles + 8192) + by, k > 0);
	}
	groupCommit();
	groupWait<0>();
	unsigned held[4][4];
	for (int i = 0; i < 16; i++) held[i / 4][i % 4] = pack(between[2 * i], between[2 * i + 1]);
	groupFence();
	for (int k = 0; k < 4; k++)
		groupMultiplyHeld<true>(sums, held[k], Operand<72>(tiles + 2 * 8192) + groupStep(true) * k, k > 0);
	groupCommit();
	groupWait<0>();
	const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
	for (int i = 0; i < 64; i++) d[(row + i / 2 % 2 * 8) * 128 + column + i % 2 + i / 4 * 8] = sums[i];
}
`

// TestWGMMA multiplies tiles that end within the matrices, on the emulated GPU, and checks that it reports misuse. The
// numbers are small and whole, so every sum is exact, and each element of the operands shows in it. The last product is
// of pairs of bytes.
func TestWGMMA(t *testing.T) {
	for how, wrong := range []string{"", "a barrier that is not initialized", "never come",
		"more bytes than", "at which all have arrived", "no multiple of 1024", "never come", "multiply differently",
		"d", "without a fence since", "never come", "another number of threads", "without waiting for the tiles",
		"a race", ""} {
		d, c, want, err := wgmmaRun(t, how, how == 14)
		switch {
		case wrong == "d": // what is read too early is not the product
			if err != nil || slices.Equal(d, want) {
				t.Errorf("without a wait: %v, and the sums are those with one: %t", err, slices.Equal(d, want))
			}
		case wrong != "":
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("misuse %d: %v, not %q", how, err, wrong)
			}
		case err != nil || !slices.Equal(d, want):
			t.Errorf("%v\n%v\nnot %v", err, d, want)
		default:
			for i, x := range c {
				if row, column := i/wgmmaStride, i%wgmmaStride; row < wgmmaResult && column < wgmmaResult {
					if y := tensor.BF16ToF32(tensor.BF16FromF32(want[64*row+column])); x != y {
						t.Fatalf("stored row %d, column %d is %v, not %v", row, column, x, y)
					}
				} else if x != -1 {
					t.Fatalf("row %d, column %d, outside of the result, is %v", row, column, x)
				}
			}
		}
	}
}

// The operands have fewer rows and columns than a tile, and so has the result, in memory with more of both.
const (
	wgmmaM, wgmmaN, wgmmaK   = 50, 61, 56
	wgmmaResult, wgmmaStride = 48, 64
)

// wgmmaRun runs the kernel of wgmmaSource, of BF16 or of bytes, and returns the sums, what it stored, and what the sums
// should be.
func wgmmaRun(t *testing.T, how int, bytes bool) (sums, stored, want []float32, err error) {
	t.Helper()
	d, f := wgmmaKernel(t, "product", bytes)
	defer func() { _ = d.Close() }() // which fails after misuse
	value := func(row, column, by int) float32 { return float32((row*by+column*3)%11 - 5) }
	element := func(row, column, by int) uint16 {
		if bytes {
			return uint16(byte(int(value(row, 2*column, by)))) | uint16(byte(int(value(row, 2*column+1, by))))<<8
		}
		return tensor.BF16FromF32(value(row, column, by))
	}
	a := uploaded(t, d, wgmmaM, wgmmaK, func(row, column int) uint16 { return element(row, column, 5) })
	b := uploaded(t, d, wgmmaN, wgmmaK, func(row, column int) uint16 { return element(row, column, 7) })
	c := uploaded(t, d, wgmmaStride, wgmmaStride, func(int, int) uint16 { return tensor.BF16FromF32(-1) })
	whole := c
	c.Rows, c.Cols = wgmmaResult, wgmmaResult
	at, err := d.gpu.Alloc(64 * 64 * 4)
	if err != nil {
		t.Fatal(err)
	}
	var maps []cuda.TileMap
	for _, x := range []tensor.Matrix{a, b, c} {
		maps = append(maps, d.tileMap(x, 64, 64))
	}
	d.gpu.LaunchAt(cuda.AfterPrevious, f, cuda.Dim3{X: 1}, cuda.Dim3{X: 128}, 4*8192, maps, uint64(at), uint64(how))
	raw, half := make([]byte, 64*64*4), make([]byte, 2*whole.Rows*whole.Cols)
	if err := d.gpu.Download(raw, at); err != nil {
		return nil, nil, nil, err
	}
	if err := d.gpu.Download(half, whole.Addr); err != nil {
		return nil, nil, nil, err
	}
	for i := range 64 * 64 {
		var sum float32
		for k := 0; k < wgmmaK*(1+number(bytes)) && i/64 < wgmmaM && i%64 < wgmmaN; k++ {
			sum += value(i/64, k, 5) * value(i%64, k, 7)
		}
		want = append(want, sum)
		if bits := binary.LittleEndian.Uint32(raw[4*i:]); bytes {
			sums = append(sums, float32(int32(bits)))
		} else {
			sums = append(sums, math.Float32frombits(bits))
		}
		stored = append(stored, tensor.BF16ToF32(binary.LittleEndian.Uint16(half[2*i:])))
	}
	return sums, stored, want, nil
}

// wgmmaKernel returns the emulated GPU and a kernel of wgmmaSource on it, of BF16 or of bytes.
func wgmmaKernel(t *testing.T, name string, bytes bool) (*Device, *cuda.Function) {
	t.Helper()
	d, err := Open("emulated", Options{}) // not Emulated, which fails after faults that tests provoke
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	source := fmt.Sprintf("#define INT8 %d\n", number(bytes)) + wgmmaSource
	return d, compiled(t, d, "wgmma_test.cu", source, name, 128)
}

// uploaded returns a matrix with these elements in the GPU's memory.
func uploaded(t *testing.T, d *Device, rows, columns int, of func(row, column int) uint16) tensor.Matrix {
	t.Helper()
	at, err := d.gpu.Alloc(2 * rows * columns)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for i := range rows * columns {
		b = binary.LittleEndian.AppendUint16(b, of(i/columns, i%columns))
	}
	if err := d.gpu.Upload(at, b); err != nil {
		t.Fatal(err)
	}
	return tensor.Matrix{Addr: at, Rows: rows, Cols: columns, Stride: columns, DType: tensor.BF16}
}

// TestWGMMAChain multiplies sums that threads hold by a tile in two transposed blocks. All numbers are small and whole.
func TestWGMMAChain(t *testing.T) {
	d, f := wgmmaKernel(t, "chain", false)
	defer func() { _ = d.Close() }()
	value := func(row, column, by, most int) float32 { return float32((row*by+column*3)%(2*most+1) - most) }
	matrix := func(columns, by, most int) tensor.Matrix {
		return uploaded(t, d, 64, columns, func(row, column int) uint16 {
			return tensor.BF16FromF32(value(row, column, by, most))
		})
	}
	a, b, c := matrix(64, 5, 1), matrix(64, 7, 1), matrix(128, 2, 5)
	at, err := d.gpu.Alloc(64 * 128 * 4)
	if err != nil {
		t.Fatal(err)
	}
	maps := []cuda.TileMap{d.tileMap(a, 64, 64), d.tileMap(b, 64, 64), d.tileMap(c, 72, 64)}
	d.gpu.LaunchAt(cuda.AfterPrevious, f, cuda.Dim3{X: 1}, cuda.Dim3{X: 128}, 5*8192, maps, uint64(at))
	raw := make([]byte, 64*128*4)
	if err := d.gpu.Download(raw, at); err != nil {
		t.Fatal(err)
	}
	for i := range 64 * 128 {
		var want float32
		for j := range 64 {
			var between float32
			for k := range 64 {
				between += value(i/128, k, 5, 1) * value(j, k, 7, 1)
			}
			want += between * value(j, i%128, 2, 5)
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != want {
			t.Fatalf("row %d, column %d is %v, not %v", i/128, i%128, got, want)
		}
	}
}
