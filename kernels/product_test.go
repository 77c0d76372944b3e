package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// TestProduct multiplies matrices of all layouts and types on a GPU, with gaps between rows and at any alignment, and
// compares each element with its sum in float64. The gaps between the rows of a result must not change.
func TestProduct(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	for _, size := range []struct{ m, n, k, apart, from int }{
		{1, 1, 1, 0, 0}, {1, 1, 1, 5, 3}, {3, 5, 0, 5, 3}, {0, 5, 8, 0, 0}, {5, 0, 8, 0, 0},
		{65, 66, 17, 0, 0}, {65, 66, 17, 5, 3}, {130, 7, 70, 5, 3}, {9, 131, 40, 0, 0}, {9, 131, 40, 5, 3},
		{1100, 9, 8, 0, 0},
		{24, 17, 33, 7, 0}, {24, 16, 40, 0, 3}, // 16-byte words except at the ends of rows, and except for the address
		{1, 70, 33, 0, 0}, {5, 21, 40, 0, 0}, {5, 21, 40, 8, 8}, {8, 20, 2104, 0, 0}, // few rows
	} {
		for _, ab := range []tensor.DType{tensor.F32, tensor.BF16} {
			for i, layout := range [][2]bool{{false, true}, {false, false}, {true, false}} {
				to := []tensor.DType{tensor.F32, tensor.BF16}[i%2]
				c := productTest{ab, to, size.m, size.n, size.k, layout[0], layout[1], i%2 == 0, i >= 2, size.apart, size.from}
				c.check(t, d, d.product)
			}
		}
	}
}

// TestTiles_ProductsEndWithin has every tile compute products that end within the tile and within a step, over more
// steps than it has stages, with k whole and split.
func TestTiles_ProductsEndWithin(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	layouts := [][2]bool{{true, false}, {false, false}, {false, true}}
	for ab, tiles := range map[tensor.DType][]tile{tensor.F32: floatTiles, tensor.BF16: tensorTiles} {
		for i, tile := range tiles {
			layout, to := layouts[i%3], []tensor.DType{tensor.F32, tensor.BF16}[i%2]
			c := productTest{ab, to, tile.m - 8, tile.n + 16, 5*tile.depth + 8, layout[0], layout[1], i%2 == 0, true, 8, 8}
			for _, parts := range []int{1, 3} {
				c.check(t, d, func(p cpu.Product) { d.tiled(p, tile, parts) })
			}
		}
	}
}

// TestProduct_Batch checks that batches give the same results as their products one by one, to the last bit. Matrices
// are one after the other or next to each other in longer rows, several products share an operand, and results are
// added up. Sizes and distances are odd. The kernel that only compute capability 9.0 has adds up in another order, and
// has no batches, so the GPU is an older one.
func TestProduct_Batch(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	d.gpu.Major = 8
	layouts := [][2]bool{{false, true}, {false, false}, {true, false}}
	for number, size := range []struct {
		m, n, k, apart int
		gaps           [3]int
	}{
		{70, 66, 40, 0, [3]int{}}, {33, 35, 17, 3, [3]int{3, 2, 1}}, {72, 24, 136, 8, [3]int{}},
		// These differ in which words are aligned.
		{16, 40, 24, 0, [3]int{4, 0, 0}}, {16, 40, 24, 0, [3]int{0, 4, 0}}, {16, 40, 24, 0, [3]int{0, 0, 2}},
	} {
		for i, layout := range layouts {
			for _, ab := range []tensor.DType{tensor.F32, tensor.BF16} {
				c := batchTest{productTest{ab, []tensor.DType{tensor.F32, tensor.BF16}[i%2], size.m, size.n, size.k, layout[0],
					layout[1],
					i == 1, i == 2, size.apart, size.apart}, i == 2, (number + i) % 3, i, size.gaps}
				c.check(t, d, d.product)
				if c.shared == 2 {
					continue
				}
				tile := tensorTiles[2-i]
				if ab == tensor.F32 {
					tile = floatTiles[min(1, 2-i)]
				}
				c.check(t, d, func(p cpu.Product) { d.tiled(p, tile, 1) })
			}
		}
	}
}

// TestProduct_BatchBLAS is TestProduct_Batch with cuBLASLt. It also checks that cuBLASLt refuses a batch whose matrices
// are not all aligned as it expects.
func TestProduct_BatchBLAS(t *testing.T) {
	d := Emulated(t, Options{})
	for i, layout := range [][2]bool{{false, true}, {false, false}, {true, false}} {
		for shared := range 3 {
			c := batchTest{productTest{tensor.BF16, tensor.F32, 24, 40, 32, layout[0], layout[1], false, false, 8, 8}, false,
				shared, i, [3]int{}}
			before := len(d.gpu.blas.plans)
			c.check(t, d, d.product)
			if len(d.gpu.blas.plans) == before {
				t.Errorf("%+v: no plan", c)
			}
		}
	}
	x := tensor.Matrix{Addr: align, Rows: 32, Cols: 32, Stride: 32, DType: tensor.BF16}
	for dimension := range 2 {
		for _, b := range []cpu.Batch{{N: 3, A: 1028, C: 1024}, {N: 3, B: 1028, C: 1024}, {N: 3, C: 1028}} {
			p := cpu.Product{A: x, B: x, C: x}
			p.Batch[dimension], p.Batch[1-dimension] = b, cpu.Batch{N: 2, C: 4096}
			if d.gpu.blas.multiply(d, p) {
				t.Errorf("%+v: not refused", p)
			}
		}
	}
}

// TestTiling checks that large products are not split, and that few rows of many columns are split so that every
// multiprocessor has a thread block. A batch of them must have the largest tiles with which every multiprocessor still
// gets a thread block. No part may be empty or exceed the available memory.
func TestTiling(t *testing.T) {
	g := &gpu{GPU: &cuda.GPU{Properties: cuda.Properties{SMs: 132}}}
	choose := func(dtype tensor.DType, m, n, k int, batch ...cpu.Batch) (tile, int) {
		return g.tiling(cpu.Product{
			Batch: [2]cpu.Batch(append(batch, cpu.Batch{}, cpu.Batch{})),
			C:     tensor.Matrix{Rows: m, Cols: n, Stride: n, DType: dtype}, A: tensor.Matrix{Rows: m, Cols: k, Stride: k,
				DType: dtype},
			B: tensor.Matrix{Rows: n, Cols: k, Stride: k, DType: dtype}, TransB: true,
		})
	}
	for _, l := range [][2]int{{2048, 3072}, {2048, 2048}, {2048, 16384}, {8192, 2048}, {2048, 128256}} { // Llama-3.2-1B
		if best, parts := choose(tensor.BF16, 2048, l[1], l[0]); parts != 1 || best.m*best.n < 64*128 {
			t.Errorf("%v: %+v, %d parts", l, best, parts)
		}
	}
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
		if best, parts := choose(dtype, 32, 512, 16384); blocks(32, best.m)*blocks(512, best.n)*parts < 64 {
			t.Errorf("%v: few rows: %+v, %d parts", dtype, best, parts)
		}
		if best, parts := choose(dtype, 32, 512, 16384, cpu.Batch{N: 2, C: 1}); parts != 1 {
			t.Errorf("%v: two of few rows: %+v, %d parts", dtype, best, parts)
		}
		one, _ := choose(dtype, 512, 512, 64)
		if many, _ := choose(dtype, 512, 512, 64, cpu.Batch{N: 8, C: 1},
			cpu.Batch{N: 4, C: 1}); many.m*many.n <= one.m*one.n {
			t.Errorf("%v: one has tiles of %dx%d, and 32 of %dx%d", dtype, one.m, one.n, many.m, many.n)
		}
		for _, m := range []int{1, 100, 3000} {
			for _, n := range []int{1, 100, 3000} {
				for _, k := range []int{0, 1, 100, 5000, 100000} {
					best, parts := choose(dtype, m, n, k)
					if parts > 1 && (parts*m*n*4 > productRoom || (parts-1)*best.part(k, parts) >= k) {
						t.Errorf("%v: [%d, %d] of %d: %+v, %d parts", dtype, m, n, k, best, parts)
					}
				}
			}
		}
	}
}

// A productTest is a product of [m, k] and [k, n], or of their transposes in memory. It gives the number of elements
// between two rows, and before the first.
type productTest struct {
	ab, c          tensor.DType
	m, n, k        int
	transA, transB bool
	bias, add      bool
	apart, from    int
}

func (c productTest) check(t *testing.T, d *Device, multiply func(cpu.Product)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(c.m*1000_000+c.n*1000+c.k)))
	arena, err := d.NewArena("product", 4*(c.m+8)*(c.k+8)+4*(c.k+8)*(c.n+8)+4*(c.m+8)*(c.n+8)+1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	type element func(i, j int) (at int, value float64)
	matrix := func(dtype tensor.DType, rows, cols int, transposed bool) (tensor.Matrix, tensor.Tensor, element) {
		if transposed {
			rows, cols = cols, rows
		}
		stride := cols + c.apart
		all := arena.New("matrix", dtype, max(1, c.from+rows*stride))
		values := make([]float32, all.Len())
		for i := range values {
			values[i] = float32(rng.NormFloat64())
			if dtype == tensor.BF16 {
				values[i] = tensor.RoundBF16(values[i])
			}
		}
		d.Upload(all, values)
		x := tensor.Matrix{Addr: all.Addr + uintptr(c.from*dtype.Size()), Rows: rows, Cols: cols, Stride: stride,
			DType: dtype}
		return x, all, func(i, j int) (int, float64) {
			if transposed {
				i, j = j, i
			}
			n := c.from + i*stride + j
			return n, float64(values[n])
		}
	}
	a, _, atA := matrix(c.ab, c.m, c.k, c.transA)
	b, _, atB := matrix(c.ab, c.k, c.n, c.transB)
	to, all, atC := matrix(c.c, c.m, c.n, false)
	bias, _, atBias := matrix(c.ab, 1, c.n, false)
	p := cpu.Product{C: to, A: a, TransA: c.transA, B: b, TransB: c.transB, Add: c.add}
	if c.bias {
		p.Bias = bias.Addr
	}
	before, err := d.Floats(all)
	if err != nil {
		t.Fatal(err)
	}
	multiply(p)
	got, err := d.Floats(all)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	for i := range c.m {
		for j := range c.n {
			n, was := atC(i, j)
			want, size := 0.0, 1.0
			if c.add {
				want = was
			}
			if c.bias {
				_, v := atBias(0, j)
				want += v
			}
			for l := range c.k {
				_, x := atA(i, l)
				_, y := atB(l, j)
				want += x * y
				size += x * x * y * y
			}
			limit := 0x1p-22 * math.Sqrt(size) * math.Sqrt(float64(c.k+1))
			if c.c == tensor.BF16 {
				limit += 0x1p-8 * math.Abs(want)
			}
			if off := math.Abs(float64(got[n]) - want); !(off <= limit) {
				t.Errorf("%+v: [%d, %d] is %g, not %g", c, i, j, got[n], want)
				return
			}
			before[n] = got[n]
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%+v: written between the rows", c)
	}
}

// A batchTest is 3 times 2 products. Their matrices are one after the other, or next to each other in the rows of a
// larger matrix. Along one dimension they share a (0) or b (1), or are added up (2).
type batchTest struct {
	productTest
	beside bool
	shared int
	along  int
	gaps   [3]int // elements between matrices a, b and c that follow each other
}

func (c batchTest) check(t *testing.T, d *Device, multiply func(cpu.Product)) {
	t.Helper()
	counts := [2]int{3, 2}
	along := c.along % 2
	arena, err := d.NewArena("batch", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	rng := rand.New(rand.NewPCG(2, uint64(c.m*1000_000+c.n*1000+c.k)))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	place := func(dtype tensor.DType, rows, cols, number int) (x tensor.Matrix, all tensor.Tensor, apart [2]int) {
		n := counts
		if c.shared == number {
			n[along] = 1
		}
		width, between := cols+c.apart, rows*(cols+c.apart)+c.gaps[number]
		size := n[0] * n[1] * between
		if c.beside {
			width, between, size = n[0]*n[1]*cols+c.apart, cols, rows*(n[0]*n[1]*cols+c.apart)
		}
		apart = [2]int{n[1] * between, between}
		if c.shared == number {
			apart[along] = 0
		}
		all = arena.New("matrices", dtype, c.apart+size)
		d.Upload(all, random(all.Len()))
		return tensor.Matrix{Addr: all.Addr + uintptr(c.apart*dtype.Size()), Rows: rows, Cols: cols, Stride: width,
			DType: dtype}, all, apart
	}
	sides := func(rows, cols int, transposed bool) (int, int) {
		if transposed {
			return cols, rows
		}
		return rows, cols
	}
	p := cpu.Product{TransA: c.transA, TransB: c.transB, Add: c.add}
	rows, cols := sides(c.m, c.k, c.transA)
	a, _, apartA := place(c.ab, rows, cols, 0)
	rows, cols = sides(c.k, c.n, c.transB)
	b, _, apartB := place(c.ab, rows, cols, 1)
	to, all, apartC := place(c.c, c.m, c.n, 2)
	bias := arena.New("bias", c.ab, c.n)
	d.Upload(bias, random(c.n))
	if c.bias {
		p.Bias = bias.Addr
	}
	before, err := d.Floats(all)
	if err != nil {
		t.Fatal(err)
	}
	p.A, p.B, p.C = a, b, to
	move := func(x tensor.Matrix, apart [2]int, i, j int) tensor.Matrix {
		x.Addr += uintptr((i*apart[0] + j*apart[1]) * x.DType.Size())
		return x
	}
	for i := range counts[0] {
		for j := range counts[1] {
			one := p
			one.A, one.B, one.C = move(a, apartA, i, j), move(b, apartB, i, j), move(to, apartC, i, j)
			if c.shared == 2 && [2]int{i, j}[along] > 0 {
				one.Add, one.Bias = true, 0
			}
			multiply(one)
		}
	}
	want, err := d.Floats(all)
	if err != nil {
		t.Fatal(err)
	}
	d.Upload(all, before)
	for i := range p.Batch {
		p.Batch[i] = cpu.Batch{N: counts[i], A: apartA[i], B: apartB[i], C: apartC[i]}
	}
	multiply(p)
	got, err := d.Floats(all)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v: another result than the products one by one", c)
	}
	if fmt.Sprint(got) == fmt.Sprint(before) {
		t.Errorf("%+v: no result", c)
	}
}
