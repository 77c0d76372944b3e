package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// TestSumSquares compares with the sum in float64, over elements whose squares overflow float32 and vanish in it, and wants
// the same bits from any number of threads.
func TestSumSquares(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			for _, scale := range []float64{1, 1e-30, 1e30} {
				var xs []tensor.Tensor
				var want float64
				rng := rand.New(rand.NewPCG(6, 7))
				a := arena(t, d, 1<<20)
				for _, n := range []int{1, 5, 100, 100003} {
					x := a.New("x", typ, n)
					d.Upload(x, filled(n, func(int) float64 { return scale * rng.NormFloat64() }))
					for _, v := range floats(t, d, x) {
						want += v * v
					}
					xs = append(xs, x)
				}
				got := d.SumSquares(xs...)
				if math.Abs(got-want) > 1e-13*want { // both are float64; their orders differ
					t.Errorf("%v: %v, want %v", typ, got, want)
				}
				if !d.IsCPU() {
					continue
				}
				if err := cpu.SetThreads(3); err != nil {
					t.Fatal(err)
				}
				if again := d.SumSquares(xs...); again != got {
					t.Errorf("%v: %v with three threads, %v with one", typ, again, got)
				}
				if err := cpu.SetThreads(1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := d.SumSquares(); got != 0 {
			t.Errorf("of nothing: %v", got)
		}
	})
}

// TestSumSquaresBad says so when a gradient is no number.
func TestSumSquaresBad(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			x := arena(t, d, 1<<12).New("x", tensor.F32, 100)
			d.Upload(x, filled(100, func(i int) float64 { return map[bool]float64{true: bad}[i == 99] }))
			if got := d.SumSquares(x); !math.IsNaN(got) && !math.IsInf(got, 1) {
				t.Errorf("%v became %v", bad, got)
			}
		}
	})
}
