package cpu_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// eachLevel runs f at every level that this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer cpu.SetLevel(cpu.Current())
	for _, l := range cpu.Levels() {
		t.Run(l.String(), func(t *testing.T) {
			cpu.SetLevel(l)
			f(t)
		})
	}
}

// TestFastestLevel_IsThere checks that the level that operations start with is one that the machine has: the best, or
// the one without dot products of bf16.
func TestFastestLevel_IsThere(t *testing.T) {
	best, fastest := cpu.Best(), cpu.Fastest()
	if fastest != best && !(best == cpu.AVX512BF16 && fastest == cpu.AVX512) {
		t.Errorf("the fastest level is %v, the best %v", fastest, best)
	}
	for _, name := range []string{"", "best", fastest.String()} {
		if l, err := cpu.ParseLevel(name); l != fastest || err != nil {
			t.Errorf("level %q is %v, %v, want %v", name, l, err, fastest)
		}
	}
}

// A fence is memory that starts and ends exactly at inaccessible pages: accessing one byte too far is a fault.
type fence struct {
	mem  []byte
	data []byte
}

func newFence(t testing.TB, bytes int, atEnd bool) fence {
	t.Helper()
	page := unix.Getpagesize()
	size := (bytes + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	expect.OK(t, err)
	for _, outside := range [][]byte{mem[:page], mem[page+size:]} {
		expect.OK(t, unix.Mprotect(outside, unix.PROT_NONE))
	}
	from := page
	if atEnd {
		from += size - bytes
	}
	return fence{mem, mem[from : from+bytes]}
}

func (f fence) free(t testing.TB) {
	if err := unix.Munmap(f.mem); err != nil {
		t.Error(err)
	}
}

// A grid is a matrix of a test. Its rows are stride elements apart, with NaN between them, so that a sum that reads
// anything outside the matrix shows it.
type grid struct {
	fence
	dtype                 tensor.DType
	rows, columns, stride int
}

func newGrid(t testing.TB, dtype tensor.DType, rows, columns, gap int, atEnd bool) *grid {
	g := &grid{dtype: cmp.Or(dtype, tensor.F32), rows: rows, columns: columns, stride: columns + gap}
	g.fence = newFence(t, max(0, (rows-1)*g.stride+columns)*g.size(), atEnd)
	for i := range len(g.data) / g.size() {
		g.put(i, math.NaN())
	}
	return g
}

func (g *grid) size() int { return g.dtype.Size() }

func (g *grid) put(i int, x float64) {
	at := unsafe.Pointer(&g.data[g.size()*i])
	switch g.dtype {
	case tensor.BF16:
		*(*uint16)(at) = tensor.BF16FromF32(float32(x))
	case tensor.F16:
		*(*uint16)(at) = tensor.F16FromF32(float32(x))
	default:
		*(*float32)(at) = float32(x)
	}
}

func (g *grid) at(i int) float64 {
	at := unsafe.Pointer(&g.data[g.size()*i])
	switch g.dtype {
	case tensor.BF16:
		return float64(tensor.BF16ToF32(*(*uint16)(at)))
	case tensor.F16:
		return float64(tensor.F16ToF32(*(*uint16)(at)))
	}
	return float64(*(*float32)(at))
}

// fill sets every element of the matrix to a random value.
func (g *grid) fill(rng *rand.Rand) *grid {
	for r := range g.rows {
		for c := range g.columns {
			g.put(r*g.stride+c, rng.NormFloat64())
		}
	}
	return g
}

// values returns the elements in float64; if transposed, the transpose's elements.
func (g *grid) values(transposed bool) []float64 {
	v := make([]float64, 0, g.rows*g.columns)
	if transposed {
		for c := range g.columns {
			for r := range g.rows {
				v = append(v, g.at(r*g.stride+c))
			}
		}
		return v
	}
	for r := range g.rows {
		for c := range g.columns {
			v = append(v, g.at(r*g.stride+c))
		}
	}
	return v
}

func (g *grid) matrix() tensor.Matrix {
	return tensor.Matrix{Addr: address(g.data), Rows: g.rows, Cols: g.columns, Stride: g.stride, DType: g.dtype}
}

// floatTypes are the types of operands.
var floatTypes = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}

// roundedBy is the largest relative error of rounding to a type.
var roundedBy = map[tensor.DType]float64{tensor.BF16: 0x1p-8, tensor.F16: 0x1p-11}

// A gemmCase is a product and its special properties.
type gemmCase struct {
	m, n, k, k2    int // k2: of the second pair of operands
	transA, transB bool
	dtype, result  tensor.DType
	add, bias      bool
	alone          bool
	alpha          float32 // 0: 1
	gap            int
	atEnd          bool
}

func (c gemmCase) String() string {
	return fmt.Sprintf("%dx%dx%d+%d transposed %v %v %v to %v add %v bias %v alone %v alpha %v gap %d",
		c.m, c.n, c.k, c.k2, c.transA, c.transB, c.dtype, c.result, c.add, c.bias, c.alone, c.alpha, c.gap)
}

// grids returns the operands of a case: A, B, C, the bias if there is one, and the second pair.
func (c gemmCase) grids(t testing.TB) (p cpu.Product, all []*grid) {
	rng := rand.New(rand.NewPCG(uint64(c.m), uint64(c.n*1000+c.k)))
	stored := func(rows, columns int, transposed bool) *grid {
		if transposed {
			rows, columns = columns, rows
		}
		return newGrid(t, c.dtype, rows, columns, c.gap, c.atEnd).fill(rng)
	}
	a, b := stored(c.m, c.k, c.transA), stored(c.k, c.n, c.transB)
	y := newGrid(t, c.result, c.m, c.n, c.gap, c.atEnd)
	if c.add {
		y.fill(rng)
	}
	p = cpu.Product{C: y.matrix(), A: a.matrix(), TransA: c.transA, B: b.matrix(), TransB: c.transB, Add: c.add,
		Alpha: c.alpha, Alone: c.alone}
	all = []*grid{a, b, y}
	if c.bias {
		all = append(all, newGrid(t, c.dtype, 1, c.n, 0, c.atEnd).fill(rng))
		p.Bias = all[3].matrix().Addr
	}
	if c.k2 > 0 {
		all = append(all, stored(c.m, c.k2, false), stored(c.k2, c.n, c.transB))
		p.A2, p.B2 = all[len(all)-2].matrix(), all[len(all)-1].matrix()
	}
	return p, all
}

// dot returns the sum of products, and the sum of their magnitudes.
func dot(a, b []float64) (sum, sizes float64) {
	for i, x := range a {
		x *= b[i]
		sum, sizes = sum+x, sizes+math.Abs(x)
	}
	return sum, sizes
}

// run computes a case and compares it with the sums in float64. The error of a sum of k float32 products, in any order,
// is at most k·2⁻²⁴ times the sum of their magnitudes (Higham 2002, 4.4). Dot products of pairs round twice per step,
// and alpha, bias and C are a few more. Rounding a result to bf16 adds 2⁻⁸, and to fp16
// 2⁻¹¹, or 2⁻²⁵ if that is more.
func (c gemmCase) run(t *testing.T) {
	t.Helper()
	p, g := c.grids(t)
	defer func() {
		for _, x := range g {
			x.free(t)
		}
	}()
	a, b, before := g[0].values(c.transA), g[1].values(!c.transB), g[2].values(false) // b: its columns
	cpu.Gemm(p)
	got := g[2].values(false)
	var a2, b2 []float64
	if c.k2 > 0 {
		a2, b2 = g[len(g)-2].values(false), g[len(g)-1].values(!c.transB)
	}
	for i := range c.m {
		for j := range c.n {
			want, sizes := dot(a[i*c.k:][:c.k], b[j*c.k:][:c.k])
			want2, sizes2 := dot(a2[i*c.k2:][:c.k2], b2[j*c.k2:][:c.k2])
			alpha := float64(cmp.Or(c.alpha, 1))
			want, sizes = alpha*(want+want2), math.Abs(alpha)*(sizes+sizes2)
			if c.bias {
				x := g[3].at(j)
				want, sizes = want+x, sizes+math.Abs(x)
			}
			if c.add {
				x := before[i*c.n+j]
				want, sizes = want+x, sizes+math.Abs(x)
			}
			limit := 2 * float64(c.k+c.k2+2) * 0x1p-24 * sizes
			limit += roundedBy[c.result] * (math.Abs(want) + limit)
			if c.result == tensor.F16 {
				limit += 0x1p-25
			}
			if e := math.Abs(got[i*c.n+j] - want); !(e <= limit) {
				t.Fatalf("%v: element %d, %d is %g, not %g: off by %g, limit %g", c, i, j, got[i*c.n+j], want, e, limit)
			}
		}
	}
	for i := range len(g[2].data) / g[2].size() {
		if i%g[2].stride >= c.n && !math.IsNaN(g[2].at(i)) {
			t.Fatalf("%v: written between the rows of C", c)
		}
	}
}

// odd has sizes around the sizes of vectors, micro-kernels and groups; each occurs in each dimension.
var odd = []int{1, 2, 3, 7, 8, 9, 13, 15, 17, 31, 33, 63, 65, 100, 129, 257}

func TestGemm(t *testing.T) {
	defer cpu.SetThreads(cpu.Threads())
	expect.OK(t, cpu.SetThreads(2))
	eachLevel(t, func(t *testing.T) {
		count := 0
		for shift := range 3 {
			for i, m := range odd {
				for kind := range 36 {
					c := gemmCase{
						m: m, n: odd[(5*i+3*shift+kind)%len(odd)], k: odd[(7*i+5*shift+3*kind)%len(odd)],
						transA: kind&1 != 0, transB: kind&2 != 0, dtype: floatTypes[kind/4%3], result: floatTypes[kind/12],
					}
					c.add, c.bias, c.alpha = count%2 == 0, count%3 == 0, []float32{0, 0.3}[count/2%2]
					c.gap, c.atEnd, c.alone = []int{0, 1, 5, 64}[count%4], count/4%2 == 0, count%3 == 1
					if !c.transA {
						c.k2 = []int{0, 1, 5, 48}[count/3%4]
					}
					c.run(t)
					count++
				}
			}
		}
	})
}

// TestGemmBlocks multiplies sizes larger than a tile and a k-block, in several threads.
func TestGemmBlocks(t *testing.T) {
	defer cpu.SetThreads(cpu.Threads())
	expect.OK(t, cpu.SetThreads(3))
	eachLevel(t, func(t *testing.T) {
		for _, size := range [][3]int{{17, 65, 1100}, {315, 40, 600}, {315, 515, 37}, {9, 1030, 515}} {
			for kind := range 36 {
				c := gemmCase{
					m: size[0], n: size[1], k: size[2],
					transA: kind&1 != 0, transB: kind&2 != 0, dtype: floatTypes[kind/4%3], result: floatTypes[kind/12],
					add: kind&3 == 1, bias: kind&3 == 2, alone: kind%5 < 2, atEnd: true,
				}
				if !c.transA {
					c.k2 = []int{0, 40, 530}[kind/2%3]
				}
				if c.m*c.n > 1e5 && kind%18 != 4 { // one of each type of 2 bytes has several k-blocks in several tiles
					c.k2 = min(c.k2, 40)
				}
				c.run(t)
			}
		}
	})
}

// TestGemm_ZeroPairChangesNoBit multiplies few rows and many, in one k-block and in several.
func TestGemm_ZeroPairChangesNoBit(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, m := range []int{1, 5, 40} {
			for kind := range 16 * 9 {
				c := gemmCase{m: m, n: 33, k: []int{35, 700}[kind&1], k2: []int{600, 3}[kind&1], transB: kind&2 != 0,
					dtype: floatTypes[kind/16%3], result: floatTypes[kind/48], add: kind&4 != 0, bias: kind&8 != 0}
				p, g := c.grids(t)
				before := slices.Clone(g[2].data)
				paired := p
				p.A2, p.B2 = tensor.Matrix{}, tensor.Matrix{}
				cpu.Gemm(p)
				want := slices.Clone(g[2].data)
				copy(g[2].data, before)
				clear(g[len(g)-1].data)
				cpu.Gemm(paired)
				if !slices.Equal(g[2].data, want) {
					t.Errorf("%v: other bits", c)
				}
				for _, x := range g {
					x.free(t)
				}
			}
		}
	})
}

// TestGemm_PairsSideBySide adds a second pair among others, which are zero in A, as one adapter of several: its
// position changes no bit.
func TestGemm_PairsSideBySide(t *testing.T) {
	const n, k, rank, from, all = 37, 70, 16, 48, 80
	eachLevel(t, func(t *testing.T) {
		for _, dtype := range floatTypes {
			for _, m := range []int{1, 2, 7, 40} {
				rng := rand.New(rand.NewPCG(3, 4))
				a, b := newGrid(t, dtype, m, k, 0, true).fill(rng), newGrid(t, dtype, n, k, 0, true).fill(rng)
				a2, b2 := newGrid(t, dtype, m, rank, 0, true).fill(rng), newGrid(t, dtype, n, rank, 0, true).fill(rng)
				wideA, wideB := newGrid(t, dtype, m, all, 0, true), newGrid(t, dtype, n, all, 0, true).fill(rng)
				clear(wideA.data)
				for i := range rank {
					for r := range m {
						wideA.put(r*all+from+i, a2.at(r*rank+i))
					}
					for r := range n {
						wideB.put(r*all+from+i, b2.at(r*rank+i))
					}
				}
				one, other := newGrid(t, tensor.F32, m, n, 0, true), newGrid(t, tensor.F32, m, n, 0, true)
				p := cpu.Product{C: one.matrix(), A: a.matrix(), B: b.matrix(), A2: a2.matrix(), B2: b2.matrix(), TransB: true,
					Alone: true}
				cpu.Gemm(p)
				p.C, p.A2, p.B2 = other.matrix(), wideA.matrix(), wideB.matrix()
				cpu.Gemm(p)
				if !slices.Equal(one.data, other.data) {
					t.Errorf("%v: %d rows have other bits", dtype, m)
				}
				for _, x := range []*grid{a, b, a2, b2, wideA, wideB, one, other} {
					x.free(t)
				}
			}
		}
	})
}

// TestGemmThreads checks that any number of threads, and several products at a time, give the same bits.
func TestGemmThreads(t *testing.T) {
	defer cpu.SetThreads(cpu.Threads())
	cases := []gemmCase{
		{m: 300, n: 200, k: 700, transB: true, dtype: tensor.BF16, result: tensor.BF16},
		{m: 650, n: 200, k: 700, transB: true, dtype: tensor.BF16, result: tensor.BF16}, // one thread's tiles have strips
		{m: 700, n: 130, k: 600, transA: true, dtype: tensor.BF16, add: true},
		{m: 90, n: 600, k: 513, add: true},
		{m: 3, n: 999, k: 300, transB: true, dtype: tensor.BF16, result: tensor.BF16},
		{m: 30, n: 999, k: 300, transB: true, alone: true, dtype: tensor.BF16, result: tensor.BF16},
		{m: 90, n: 600, k: 513, k2: 300, transB: true, dtype: tensor.F16, result: tensor.F16},
	}
	eachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			var first []byte
			for _, threads := range []int{1, 2, 3, 5} {
				expect.OK(t, cpu.SetThreads(threads))
				results := make([][]byte, 3)
				var wait sync.WaitGroup
				for i := range results {
					p, g := c.grids(t)
					wait.Go(func() {
						cpu.Gemm(p)
						results[i] = slices.Clone(g[2].data)
						for _, x := range g {
							x.free(t)
						}
					})
				}
				wait.Wait()
				for _, r := range results {
					if first == nil {
						first = r
					}
					if !slices.Equal(r, first) {
						t.Errorf("%v: another result with %d threads", c, threads)
					}
				}
			}
		}
	})
}

// TestGemmRows checks that a row's bits do not depend on the other rows, among few rows and among many.
func TestGemmRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, k = 70, 333
	for _, most := range []int{8, 50} {
		eachLevel(t, func(t *testing.T) {
			for _, dtype := range floatTypes {
				a, b := newGrid(t, dtype, most, k, 0, true).fill(rng), newGrid(t, dtype, n, k, 0, true).fill(rng)
				var whole []float64
				for m := most; m > most-8; m-- {
					y := newGrid(t, tensor.F32, m, n, 0, true)
					x := a.matrix()
					x.Rows = m
					cpu.Gemm(cpu.Product{C: y.matrix(), A: x, B: b.matrix(), TransB: true})
					v := y.values(false)
					if m == most {
						whole = v
					}
					if !slices.Equal(v, whole[:m*n]) {
						t.Errorf("%v: rows are others when there are %d", dtype, m)
					}
					y.free(t)
				}
				a.free(t)
				b.free(t)
			}
		})
	}
}

// TestGemmNotFinite puts a NaN and an infinity in one row and one column, and checks that only these are affected.
func TestGemmNotFinite(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for kind := range 12 {
			for _, m := range []int{5, 31} {
				c := gemmCase{m: m, n: 33, k: 35, transA: kind&1 != 0, transB: kind&2 != 0, dtype: floatTypes[kind/4%3], gap: 1}
				p, g := c.grids(t)
				put := func(g *grid, transposed bool, row, column int, x float64) {
					if transposed {
						row, column = column, row
					}
					g.put(row*g.stride+column, x)
				}
				put(g[0], c.transA, 2, 34, math.NaN())
				put(g[1], c.transB, 33, 7, math.Inf(-1))
				cpu.Gemm(p)
				for i, x := range g[2].values(false) {
					nan, inf := i/c.n == 2, i%c.n == 7
					if math.IsNaN(x) != nan || !nan && math.IsInf(x, 0) != inf {
						t.Fatalf("%v: element %d, %d is %g", c, i/c.n, i%c.n, x)
					}
				}
				for _, x := range g {
					x.free(t)
				}
			}
		}
	})
}

// TestGemm_NoProducts computes sums of no products, and no sums at all.
func TestGemm_NoProducts(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, m := range []int{3, 30} {
			for _, c := range []gemmCase{{}, {result: tensor.BF16}, {add: true}, {bias: true, transB: true},
				{bias: true, add: true, dtype: tensor.BF16, transA: true}, {bias: true, dtype: tensor.F16, result: tensor.F16}} {
				c.m, c.n = m, 40
				c.run(t)
			}
		}
		cpu.Gemm(cpu.Product{C: tensor.Matrix{Cols: 3}})
		cpu.Gemm(cpu.Product{C: tensor.Matrix{Rows: 3}})
	})
}

func TestGemmRefuses(t *testing.T) {
	x := make([]float32, 16)
	o := tensor.Matrix{Addr: address(x), Rows: 4, Cols: 4, Stride: 4, DType: tensor.F32}
	with := func(change func(*tensor.Matrix)) tensor.Matrix {
		m := o
		change(&m)
		return m
	}
	for name, p := range map[string]cpu.Product{
		"stride of A": {C: o, A: with(func(m *tensor.Matrix) { m.Stride = 3 }), B: o},
		"no B":        {C: o, A: o, B: with(func(m *tensor.Matrix) { m.Addr = 0 })},
		"another k":   {C: o, A: with(func(m *tensor.Matrix) { m.Cols = 3 }), B: o},
		"another n":   {C: o, A: o, B: with(func(m *tensor.Matrix) { m.Cols = 3 })},
		"another m":   {C: o, A: with(func(m *tensor.Matrix) { m.Rows = 3 }), B: o},
		"turned": {C: with(func(m *tensor.Matrix) { m.Rows = 3 }),
			A: with(func(m *tensor.Matrix) { m.Cols = 3 }), B: o},
		"two types":             {C: o, A: o, B: with(func(m *tensor.Matrix) { m.DType = tensor.BF16 })},
		"second A":              {C: o, A: o, B: o, A2: with(func(m *tensor.Matrix) { m.Rows = 3 }), B2: o},
		"second k":              {C: o, A: o, B: o, A2: with(func(m *tensor.Matrix) { m.Cols = 3 }), B2: o},
		"second type":           {C: o, A: o, B: o, A2: o, B2: with(func(m *tensor.Matrix) { m.DType = tensor.BF16 })},
		"second of a transpose": {C: o, A: o, B: o, TransA: true, A2: o, B2: o},
		"integers":              {C: with(func(m *tensor.Matrix) { m.DType = tensor.I32 }), A: o, B: o},
		"negative": {C: with(func(m *tensor.Matrix) { m.Rows = -1 }), A: with(func(m *tensor.Matrix) { m.Rows = -1 }),
			B: o},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			cpu.Gemm(p)
		})
	}
}

func TestColumnSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	eachLevel(t, func(t *testing.T) {
		for _, n := range append([]int{600, 1025}, odd...) {
			for kind := range 9 {
				const rows = 19
				x := newGrid(t, floatTypes[kind%3], rows, n, 3, true).fill(rng)
				sums := newGrid(t, floatTypes[kind/3], 1, n, 0, true).fill(rng)
				before := sums.values(false)
				cpu.ColumnSums(tensor.Tensor{Addr: address(sums.data), DType: sums.dtype, Shape: []int{n}}, x.matrix())
				v := x.values(false)
				for j, got := range sums.values(false) {
					want, sizes := before[j], math.Abs(before[j])
					for i := range rows {
						want, sizes = want+v[i*n+j], sizes+math.Abs(v[i*n+j])
					}
					limit := (rows + 1) * 0x1p-24 * sizes
					limit += roundedBy[sums.dtype] * (math.Abs(want) + limit)
					if e := math.Abs(got - want); !(e <= limit) {
						t.Fatalf("column %d of %d is %g, not %g", j, n, got, want)
					}
				}
				x.free(t)
				sums.free(t)
			}
		}
	})
}
