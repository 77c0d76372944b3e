package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSubtractProduct compares every level with the plain loop, bit by bit, and checks that nothing outside c changes.
func TestSubtractProduct(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	filled := func(rows, stride int) Float64s {
		x := make([]float64, rows*stride)
		for i := range x {
			x[i] = random.NormFloat64()
		}
		return Float64s{x, stride}
	}
	defer SetLevel(Current())
	for _, s := range [][3]int{{1, 1, 1}, {6, 8, 128}, {8, 16, 129}, {7, 17, 3}, {97, 33, 130}, {200, 200, 20},
		{5, 40, 300}} {
		m, n, k := s[0], s[1], s[2]
		a, b, before := filled(m, k+1), filled(k, n+3), filled(m, n+2)
		for _, level := range Levels() {
			for _, upper := range []bool{false, true} {
				SetLevel(level)
				c := Float64s{append([]float64{}, before.X...), before.Stride}
				SubtractProduct(m, n, k, c, a, b, upper)
				for i := range c.X {
					row, column := i/c.Stride, i%c.Stride
					if upper && column < row {
						continue
					}
					want := before.X[i]
					for p := 0; p < k && column < n; p++ {
						want -= float64(a.X[row*a.Stride+p] * b.X[p*b.Stride+column])
					}
					if c.X[i] != want {
						t.Fatalf("%v, upper %v, %v: element %d, %d is %v: want %v", s, upper, level, row, column, c.X[i], want)
					}
				}
			}
		}
	}
}

func BenchmarkSubtractProduct(b *testing.B) {
	const n, k = 1024, 128
	c, x := Float64s{make([]float64, n*n), n}, Float64s{make([]float64, n*k), k}
	y := Float64s{make([]float64, n*k), n}
	defer SetLevel(Current())
	for _, level := range Levels() {
		b.Run(fmt.Sprint(level), func(b *testing.B) {
			SetLevel(level)
			for b.Loop() {
				SubtractProduct(n, n, k, c, x, y, false)
			}
			b.ReportMetric(2*n*n*k/1e9*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
		})
	}
}
