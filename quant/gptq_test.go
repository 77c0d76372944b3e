package quant

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cpu"
)

// gptqOf quantizes a matrix by GPTQ with a Hessian.
func gptqOf(ctx context.Context, r Rule, dst []byte, w []float32, in int, hessian []float32) error {
	f, err := NewFactor(ctx, hessian, in)
	if err != nil {
		return err
	}
	return r.GPTQ(ctx, dst, w, f)
}

// TestGPTQ quantizes a matrix for correlated inputs. Its products must be closer to the exact ones than products of
// weights that are rounded to nearest, and with uncorrelated inputs the codes must be the nearest. ggml's rule divides
// by the scale before the scale is rounded, so some of its codes differ.
func TestGPTQ(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const in, out, samples = 224, 8, 400 // whole groups of 32, but not of 128
	w := make([]float32, in*out)
	for i := range w {
		w[i] = float32(random.NormFloat64())
	}
	hessian, x := make([]float32, in*in), make([]float64, samples*in)
	for s := range samples {
		row := x[s*in:][:in]
		for i := range row {
			row[i] = random.NormFloat64()
			if i > 0 {
				row[i] += 0.9 * row[i-1]
			}
		}
		for i := range in {
			for j := range in {
				hessian[i*in+j] += float32(row[i] * row[j])
			}
		}
	}
	identity := make([]float32, in*in)
	for i := range in {
		identity[i*in+i] = 1
	}
	for _, r := range compensates {
		size := len(w) / in * r.DType().RowBytes(in)
		nearest, gptq, plain := make([]byte, size), make([]byte, size), make([]byte, size)
		for _, err := range []error{r.Quantize(nearest, w, in), gptqOf(t.Context(), r, gptq, w, in, hessian),
			gptqOf(t.Context(), r, plain, w, in, identity), Check(gptq, r.DType(), in)} {
			expect.OK(t, err)
		}
		if r != q40 && string(plain) != string(nearest) {
			t.Errorf("%s: GPTQ with uncorrelated inputs does not round to nearest", r)
		}
		off := func(rows []byte) (sum float64) {
			back := make([]float32, len(w))
			expect.OK(t, Dequantize(back, rows, r.DType(), in))
			for s := range samples {
				for o := range out {
					y := 0.0
					for i := range in {
						y += x[s*in+i] * float64(back[o*in+i]-w[o*in+i])
					}
					sum += y * y
				}
			}
			return math.Sqrt(sum)
		}
		if a, b := off(gptq), off(nearest); a > 0.8*b {
			t.Errorf("%s: GPTQ's products are off by %.3g, those of rounding to nearest by %.3g", r, a, b)
		}
	}
}

func TestSearchQ40_NoScaleRoundsWorse(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	weight := func(i int) float64 { return float64(1 + i%7) }
	before, after := 0.0, 0.0
	for range 200 {
		w := make([]float32, 32)
		for i := range w {
			w[i] = float32(random.NormFloat64())
		}
		off := func(scale float32) (sum float64) {
			for i, x := range w {
				e := float64(x - float32(q40.Code(x, scale, 8)-8)*scale)
				sum += weight(i) * e * e
			}
			return sum
		}
		scale, _, err := q40.Scale(w)
		expect.OK(t, err)
		a, b := off(scale), off(searchQ40(w, scale, weight))
		if b > a {
			t.Errorf("the scale that was found has an error of %v, the largest weight's %v", b, a)
		}
		before, after = before+a, after+b
	}
	if after > 0.9*before { // 0.87 with these weights
		t.Errorf("errors of %v in all, with the largest weight's scale %v", after, before)
	}
	for _, w := range [][]float32{make([]float32, 32), {65504 * 8, 1}} {
		scale, _, err := q40.Scale(w)
		if found := searchQ40(w, scale, weight); err != nil || found-found != 0 {
			t.Errorf("weights up to %v: scale %v, %v", w[0], found, err)
		}
	}
}

// hessianOf returns the sum of x·xᵀ over random inputs x, whose elements are correlated with their neighbors. With
// fewer inputs than elements it is singular until it is dampened.
func hessianOf(random *rand.Rand, n, inputs int) []float32 {
	h, x := make([]float32, n*n), make([]float64, n)
	for range inputs {
		for i := range x {
			x[i] = random.NormFloat64()
			if i > 0 {
				x[i] += float64(0.9 * x[i-1])
			}
		}
		for i := range n {
			for j := range n {
				h[i*n+j] += float32(x[i] * x[j])
			}
		}
	}
	return h
}

// plainGPTQ is GPTQ as in the paper, with a factor of the Hessian's inverse, in plain loops.
func plainGPTQ(t *testing.T, r Rule, w []float32, n int, h []float32) []byte {
	u, d := plainFactor(h, n)
	inverse := make([]float64, n*n) // uᵀ·u is the inverse of h
	for j := range n {
		inverse[j*n+j] = 1
		for i := j - 1; i >= 0; i-- {
			for k := i + 1; k <= j; k++ {
				inverse[i*n+j] -= float64(u[i*n+k] * inverse[k*n+j])
			}
		}
	}
	for i := range n {
		for j := range n {
			inverse[i*n+j] /= math.Sqrt(d[i])
		}
	}
	size := r.DType().RowBytes(n)
	dst := make([]byte, len(w)/n*size)
	for i := range len(w) / n {
		row, now := Row{r.DType(), n, dst[i*size:][:size]}, make([]float64, n)
		for k := range now {
			now[k] = float64(w[i*n+k])
		}
		for g := range row.Groups() {
			lo, hi := row.Group(g)
			group := make([]float32, hi-lo)
			for k := range group {
				group[k] = float32(now[lo+k])
			}
			scale, zero, err := r.Scale(group)
			expect.OK(t, err)
			if r == q40 {
				scale = searchQ40(group, scale, func(i int) float64 { return d[lo+i] })
			}
			row.SetScale(g, scale, zero)
			for k := lo; k < hi; k++ {
				code := r.Code(float32(now[k]), scale, zero)
				row.SetCode(k, code)
				off := (now[k] - float64(float32(code-zero)*scale)) / inverse[k*n+k]
				for l := k + 1; l < n; l++ {
					now[l] -= float64(off * inverse[k*n+l])
				}
			}
		}
	}
	return dst
}

// plainFactor is factor in plain loops.
func plainFactor(h []float32, n int) (u, d []float64) {
	u, d = make([]float64, n*n), make([]float64, n)
	mean := 0.0
	for i := range n {
		mean += float64(h[i*n+i]) / float64(n)
	}
	for i := range u {
		u[i] = float64(h[i])
		if i%(n+1) == 0 {
			u[i] += float64(dampening*mean) + math.SmallestNonzeroFloat32
		}
	}
	for k := n - 1; k >= 0; k-- {
		d[k], u[k*n+k] = u[k*n+k], 1
		for i := range k {
			u[i*n+k] /= d[k]
		}
		for i := range k {
			for j := i; j < k; j++ {
				u[i*n+j] -= float64(float64(u[i*n+k]*d[k]) * u[j*n+k])
			}
		}
	}
	return u, d
}

// TestGPTQPlain compares the factor with one from plain loops, bit by bit, and with the Hessian, and the quantized
// rows with the rows of the paper's algorithm, for several sizes and numbers of threads.
func TestGPTQPlain(t *testing.T) {
	defer func(n int) { _ = cpu.SetThreads(n) }(cpu.Threads())
	random := rand.New(rand.NewPCG(7, 8))
	const rows = 7
	for _, n := range []int{1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 130, 300} {
		for _, c := range []struct { // in this order: they share the random numbers
			name string
			h    []float32
		}{{"definite", hessianOf(random, n, 2*n)}, {"nearly singular", hessianOf(random, n, 1)},
			{"zero", make([]float32, n*n)}} {
			name, h := c.name, c.h
			w := make([]float32, rows*n)
			for i := range w {
				w[i] = float32(random.NormFloat64())
			}
			wantU, wantD := plainFactor(h, n)
			want := map[Rule][]byte{}
			for _, r := range compensates {
				want[r] = plainGPTQ(t, r, w, n, h)
			}
			for _, threads := range []int{1, 2, 5} {
				expect.OK(t, cpu.SetThreads(threads))
				f, err := NewFactor(t.Context(), h, n)
				expect.OK(t, err)
				for i := range n {
					if f.u.X[i*n+i] != wantD[i] || !slices.Equal(f.u.X[i*n:][i+1:n], wantU[i*n:][i+1:n]) {
						t.Fatalf("%s, %d inputs, %d threads: row %d differs from the plain loop's", name, n, threads, i)
					}
				}
				for r, want := range want {
					got := make([]byte, len(want))
					expect.OK(t, r.GPTQ(t.Context(), got, w, f))
					if !slices.Equal(got, want) {
						t.Errorf("%s, %s, %d inputs, %d threads: not what the paper's algorithm gives", r, name, n, threads)
					}
				}
			}
			for i := range n { // u·d·uᵀ is h with a larger diagonal
				for j := i; j < n; j++ {
					sum, size := 0.0, 0.0
					for k := j; k < n; k++ {
						x := wantU[i*n+k] * wantD[k] * wantU[j*n+k]
						sum, size = sum+x, size+math.Abs(x)
					}
					if i != j && !(math.Abs(sum-float64(h[i*n+j])) <= 1e-13*float64(n)*(size+math.Abs(float64(h[i*n+j])))) {
						t.Fatalf("%s, %d inputs: element %d, %d of the product is %v: want %v", name, n, i, j, sum, h[i*n+j])
					}
				}
			}
		}
	}
}

// TestGPTQErrors checks that a Hessian that is not positive definite is an error, and so are sizes that do not agree.
func TestGPTQErrors(t *testing.T) {
	const n = 130
	h := make([]float32, n*n)
	for i := range n {
		h[i*n+i] = 1
	}
	h[3*n+3] = -1
	_, err := NewFactor(t.Context(), h, n)
	if err == nil {
		t.Error("a Hessian with a negative element on its diagonal is no error")
	}
	if _, err := NewFactor(t.Context(), h, n+1); err == nil {
		t.Error("a Hessian of another size is no error")
	}
	f, err := NewFactor(t.Context(), make([]float32, n*n), n)
	expect.OK(t, err)
	if err := INT8.GPTQ(t.Context(), make([]byte, INT8.DType().RowBytes(n)), make([]float32, n+1), f); err == nil {
		t.Error("a matrix of another size than its factor is no error")
	}
	for _, r := range []Rule{NF4, "q4_1", "q8_0"} {
		if err := r.GPTQ(t.Context(), make([]byte, r.DType().RowBytes(n)), make([]float32, n), f); err == nil {
			t.Errorf("%s is no error", r)
		}
	}
}

// countdown is a context that is done once it has been asked a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestGPTQStops checks that GPTQ stops between any two blocks.
func TestGPTQStops(t *testing.T) {
	const n, blocks = 300, 3
	random := rand.New(rand.NewPCG(9, 10))
	w, h := make([]float32, n), hessianOf(random, n, n)
	for left := range 2*blocks + 1 {
		err := gptqOf(&countdown{t.Context(), left}, INT4Asym, make([]byte, INT4Asym.DType().RowBytes(n)), w, n, h)
		if done := left == 2*blocks; errors.Is(err, context.Canceled) == done || done && err != nil {
			t.Errorf("canceled after %d of %d blocks: %v", left, 2*blocks, err)
		}
	}
}

// BenchmarkGPTQ times both parts of GPTQ on all threads of package cpu: the factor of a Hessian, and all of it for a
// matrix of 2048 rows.
func BenchmarkGPTQ(b *testing.B) {
	for _, n := range []int{1024, 2048, 4096, 8192} {
		random := rand.New(rand.NewPCG(1, 2))
		h, w := make([]float32, n*n), make([]float32, 2048*n)
		for i := range n {
			for j := range i {
				h[i*n+j] = random.Float32() / float32(n)
				h[j*n+i] = h[i*n+j]
			}
			h[i*n+i] = 3
		}
		for i := range w {
			w[i] = float32(random.NormFloat64())
		}
		b.Run(fmt.Sprintf("factor/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := NewFactor(b.Context(), h, n); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("matrix/%d", n), func(b *testing.B) {
			dst := make([]byte, 2048*INT4Asym.DType().RowBytes(n))
			for b.Loop() {
				expect.OK(b, gptqOf(b.Context(), INT4Asym, dst, w, n, h))
			}
		})
	}
}
