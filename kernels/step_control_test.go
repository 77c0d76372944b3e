package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestAddSquares compares the sum with a sum in float64, over elements whose squares overflow or underflow float32, and
// checks that any number of threads gives the same bits.
func TestAddSquares(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, scale := range []float64{1, 1e-30, 1e30} {
				var xs []tensor.Tensor
				var want float64
				rng := rand.New(rand.NewPCG(6, 7))
				a := arena(t, d, 1<<20)
				for i, n := range []int{1, 5, 100, 100003, 70001} {
					odd := 5 * (i % 2) // some are unaligned
					x := a.New("x", typ, odd+n).Slice(odd, odd+n)
					d.Upload(x, filled(n, func(int) float64 { return scale * rng.NormFloat64() }))
					for _, v := range floats(t, d, x) {
						want += v * v
					}
					xs = append(xs, x)
				}
				got := sumSquares(t, d, xs...)
				if got != want && !(math.Abs(got-want) <= 1e-13*want) { // both are float64, in different orders
					t.Errorf("%v: %v, want %v", typ, got, want)
				}
				if !d.IsCPU() {
					continue
				}
				expect.OK(t, cpu.SetThreads(3))
				if again := sumSquares(t, d, xs...); again != got {
					t.Errorf("%v: %v with three threads, %v with one", typ, again, got)
				}
				expect.OK(t, cpu.SetThreads(1))
			}
		}
		if got := sumSquares(t, d); got != 0 {
			t.Errorf("of nothing: %v", got)
		}
	})
}

// TestAddSquaresBad checks that a gradient that is not finite shows in the sum.
func TestAddSquaresBad(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			x := arena(t, d, 1<<12).New("x", tensor.F32, 100)
			d.Upload(x, filled(100, func(i int) float64 { return map[bool]float64{true: bad}[i == 99] }))
			if got := sumSquares(t, d, x); !math.IsNaN(got) && !math.IsInf(got, 1) {
				t.Errorf("%v became %v", bad, got)
			}
		}
	})
}

// sumSquares adds up the squares of several tensors.
func sumSquares(t *testing.T, d *kernels.Device, xs ...tensor.Tensor) float64 {
	t.Helper()
	c := control(t, d)
	for _, x := range xs {
		d.AddSquares(c, x)
	}
	r, err := d.Result(c)
	expect.OK(t, err)
	return r.Norm * r.Norm
}

func control(t testing.TB, d *kernels.Device) kernels.Control {
	t.Helper()
	c := kernels.NewControl(arena(t, d, 256))
	d.Begin(c)
	return c
}

// decideScaled returns the result of a step whose gradient is scaled by 1,024, with the factor of the unscaled
// gradient.
func decideScaled(t *testing.T, d *kernels.Device, loss, g []float32, limit float64) kernels.StepResult {
	t.Helper()
	const scale = 1024
	a, c := arena(t, d, 1<<12), control(t, d)
	x, y := a.New("loss", tensor.F32, len(loss)), a.New("g", tensor.F32, len(g))
	scaled := make([]float32, len(g))
	for i, v := range g {
		scaled[i] = scale * v
	}
	d.Upload(x, loss)
	d.Upload(y, scaled)
	d.AddLoss(c, x)
	d.AddSquares(c, y)
	d.Decide(c, limit, 1.0/scale)
	r, err := d.Result(c)
	expect.OK(t, err)
	r.Scale *= scale
	return r
}

// TestDecide compares clipping and the decision with the formula.
func TestDecide(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		clipped := func(norm float64) float64 { return 1 / (norm + 1e-6) }
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		for _, x := range []struct {
			loss, g []float32
			limit   float64
			want    kernels.StepResult
		}{
			{[]float32{1, 0.5}, []float32{6, 8}, 1, kernels.StepResult{1.5, 10, clipped(10), true}},
			{[]float32{2}, []float32{0.375, 0.5}, 1, kernels.StepResult{2, 0.625, 1, true}},
			{[]float32{2}, []float32{6, 8}, 0, kernels.StepResult{2, 10, 1, true}},
			{[]float32{2}, []float32{0, 0}, 1, kernels.StepResult{2, 0, 1, true}},
			{[]float32{inf}, []float32{0, 1}, 1, kernels.StepResult{math.Inf(1), 1, clipped(1), false}},
			{[]float32{nan}, []float32{0, 1}, 0, kernels.StepResult{math.NaN(), 1, 1, false}},
			{[]float32{1}, []float32{0, inf}, 1, kernels.StepResult{1, math.Inf(1), 0, false}},
		} {
			a, c := arena(t, d, 1<<12), control(t, d)
			loss, g := a.New("loss", tensor.F32, len(x.loss)), a.New("g", tensor.F32, 2)
			d.Upload(loss, x.loss)
			d.Upload(g, x.g)
			d.AddLoss(c, loss)
			d.AddSquares(c, g)
			d.Decide(c, x.limit, 1)
			got, err := d.Result(c)
			if scaled := decideScaled(t, d, x.loss, x.g, x.limit); fmt.Sprint(scaled) != fmt.Sprint(got) {
				t.Errorf("losses %v, gradient %v, limit %v: scaled by 1,024 %v, not %v", x.loss, x.g, x.limit, scaled, got)
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(x.want) {
				t.Errorf("losses %v, gradient %v, limit %v: %v, %v; want %v", x.loss, x.g, x.limit, got, err, x.want)
			}
		}
	})
}
