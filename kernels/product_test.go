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

// TestProduct has a GPU multiply matrices of all layouts and types, whose rows may lie apart and begin anywhere, and compares
// each element with its sum in float64. What lies between the rows of a result has to stay as it was.
func TestProduct(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	for _, size := range []struct{ m, n, k, apart, from int }{
		{1, 1, 1, 0, 0}, {1, 1, 1, 5, 3}, {3, 5, 0, 5, 3}, {0, 5, 8, 0, 0}, {5, 0, 8, 0, 0},
		{65, 66, 17, 0, 0}, {65, 66, 17, 5, 3}, {130, 7, 70, 5, 3}, {9, 131, 40, 0, 0}, {9, 131, 40, 5, 3}, {1100, 9, 8, 0, 0},
		{24, 17, 33, 7, 0}, {24, 16, 40, 0, 3}, // words of 16 bytes but for the ends of rows, and but for the address
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

// TestTiles has every tile multiply what ends within it and within a step, after more steps than it has stages, with k whole
// and cut into parts.
func TestTiles(t *testing.T) {
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

// TestTiling wants large products to be whole, few rows of many columns to be cut so that every multiprocessor has a block, and
// no part to be empty or beyond the room that there is.
func TestTiling(t *testing.T) {
	g := &gpu{GPU: &cuda.GPU{Properties: cuda.Properties{SMs: 132}}}
	choose := func(dtype tensor.DType, m, n, k int) (tile, int) {
		return g.tiling(cpu.Product{
			C: tensor.Matrix{Rows: m, Cols: n, Stride: n, DType: dtype}, A: tensor.Matrix{Rows: m, Cols: k, Stride: k, DType: dtype},
			B: tensor.Matrix{Rows: n, Cols: k, Stride: k, DType: dtype}, TransB: true,
		})
	}
	for _, l := range llamaLayers {
		if best, parts := choose(tensor.BF16, 2048, l.out, l.in); parts != 1 || best.m*best.n < 64*128 {
			t.Errorf("%s: %+v, %d parts", l.name, best, parts)
		}
	}
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
		if best, parts := choose(dtype, 32, 512, 16384); blocks(32, best.m)*blocks(512, best.n)*parts < 64 {
			t.Errorf("%v: few rows: %+v, %d parts", dtype, best, parts)
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

// A productTest is a product of [m, k] and [k, n], or of their transposes in memory. There are so many elements between two
// rows, and before the first.
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
				values[i] = tensor.Round(values[i])
			}
		}
		d.Upload(all, values)
		x := tensor.Matrix{Addr: all.Addr + uintptr(c.from*dtype.Size()), Rows: rows, Cols: cols, Stride: stride, DType: dtype}
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
