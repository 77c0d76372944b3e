package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestTopKOrder checks NaN, infinities and zeros of both signs, in a row that a warp processes and in one that a thread
// block processes. The value keeps the sign of its zero.
func TestTopKOrder(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	row := []float64{zero, -inf, 2, nan, 0, inf, -3, nan, zero, inf, 2, -inf}
	want := []int32{3, 7, 5, 9, 2, 10, 0, 4, 8, 6, 1, 11}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, n := range []int{len(row), 1100} {
				a, k := arena(t, d, 1<<16), min(n, 70)
				x := a.New("x", typ, 2, n) // the second row is -inf, and so is the first after the elements of row
				values, indices := a.New("values", typ, 2, k), a.New("indices", tensor.I32, 2, k)
				d.Upload(x, filled(2*n, func(i int) float64 {
					if i < len(row) {
						return row[i]
					}
					return -inf
				}))
				d.TopK(values, indices, x, k)
				got, v := bytesOf(t, d, indices), floats(t, d, values)
				at := func(i int) int32 { return int32(got[4*i]) | int32(got[4*i+1])<<8 }
				for i, w := range want {
					if at(i) != w || math.IsNaN(v[i]) != math.IsNaN(row[w]) ||
						v[i] == v[i] && (v[i] != row[w] || math.Signbit(v[i]) != math.Signbit(row[w])) {
						t.Errorf("%v of %d: number %d is %v at %d, want that at %d", typ, n, i, v[i], at(i), w)
					}
				}
				for i := range k {
					if at(k+i) != int32(i) {
						t.Fatalf("%v of %d: of equals number %d is at %d", typ, n, i, at(k+i))
					}
				}
				d.Argmax(indices.View(2*k).Slice(0, 2), x)
				if got = bytesOf(t, d, indices); at(0) != 3 || at(1) != 0 {
					t.Errorf("%v of %d: the largest are at %d and %d", typ, n, at(0), at(1))
				}
			}
		}
	})
}

// TestTopKErrors checks that a number of elements that a row does not have is an error that names both.
func TestTopKErrors(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<12)
		x := a.New("x", tensor.F32, 2, 5)
		for _, k := range []int{-1, 6} {
			kernels.MustPanic(t, "k", fmt.Sprintf("TopK: k %d: must be from 0 to 5", k), func() { d.TopK(x, x, x, k) })
		}
		d.TopK(tensor.Tensor{}, a.New("none", tensor.I32, 2, 0), x, 0)
	})
}
