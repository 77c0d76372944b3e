package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestSoftmaxRange checks rows that have no softmax, or whose elements are so large that a difference overflows.
// Results overwrite their inputs: x, then dy.
func TestSoftmaxRange(t *testing.T) {
	for _, dim := range []int{19, 8209} { // whole vectors and a part of one; a GPU reads the longer rows twice
		t.Run(fmt.Sprint(dim), func(t *testing.T) { softmaxRange(t, dim) })
	}
}

func softmaxRange(t *testing.T, dim int) {
	inf, nan := math.Inf(1), math.NaN()
	row := func(of float64, others ...float64) []float64 {
		x := make([]float64, dim)
		for i := range x {
			x[i] = of
		}
		copy(x[dim-len(others):], others)
		return x
	}
	rows := []struct {
		x            []float64
		y, last, lse float64 // y of the first elements and of the last; NaN: all of them
	}{
		{row(-inf), nan, nan, -inf},
		{row(0, inf), nan, nan, inf},
		{row(-inf, inf, 1), nan, nan, inf},
		{row(1, nan, 2), nan, nan, nan},
		{row(-inf, nan, -inf), nan, nan, nan},
		{row(-inf, 3), 0, 1, 3},
		{row(-inf, -1e4), 0, 1, -1e4},
		{row(-1e30, -inf), 1 / float64(dim-1), 0, -1e30},
		{row(1e30), 1 / float64(dim), 1 / float64(dim), 1e30},
		{row(-3.3e38, 3.3e38), 0, 1, 3.3e38},
		{row(-1e4, 1e4), 0, 1, 1e4},
	}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
			a := arena(t, d, 1<<20)
			x, dy := a.New("x", typ, len(rows), dim), a.New("dy", typ, len(rows), dim)
			lse := a.New("lse", tensor.F32, len(rows))
			d.Upload(x, filled(x.Len(), func(i int) float64 { return rows[i/dim].x[i%dim] }))
			d.Upload(dy, filled(x.Len(), func(i int) float64 { return float64(i%dim%19) - 3 }))
			d.Softmax(x, lse, x)
			y, sums := floats(t, d, x), floats(t, d, lse)
			d.SoftmaxBackward(dy, dy, x)
			dx := floats(t, d, dy)
			for r, want := range rows {
				none := math.IsNaN(want.y)
				if got := sums[r]; !(got == want.lse || math.Abs(got-want.lse) <= 0x1p-8*math.Abs(want.lse)) &&
					!(math.IsNaN(got) && math.IsNaN(want.lse)) {
					t.Errorf("%v, row %d: lse is %v, want %v", typ, r, got, want.lse)
				}
				dot := 0.0
				for i := range dim {
					dot += y[r*dim+i] * (float64(i%19) - 3)
				}
				for i := range dim {
					w, got, slope := want.y, y[r*dim+i], dx[r*dim+i]
					if i == dim-1 {
						w = want.last
					}
					if math.IsNaN(got) != none || !none && !(math.Abs(got-w) <= 0x1p-8*w) {
						t.Errorf("%v, row %d: y[%d] is %v, want %v", typ, r, i, got, w)
					}
					if math.IsNaN(slope) != none || !none && !(math.Abs(slope-got*(float64(i%19)-3-dot)) <= 0.01) ||
						got == 0 && slope != 0 {
						t.Errorf("%v, row %d: dx[%d] is %v with y %v", typ, r, i, slope, got)
					}
				}
			}
		}
	})
}
