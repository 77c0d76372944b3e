package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// wideTypes are the types with the range of float32.
var wideTypes = []tensor.DType{tensor.F32, tensor.BF16}

// TestF16Range checks that what is too large for F16 becomes infinite, and that infinities and NaN go through
// operations as they go through the same ones in float32.
func TestF16Range(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	a := []float64{60000, 60000, -60000, 65504, 65504, inf, inf, nan, 0x1p-24, -0x1p-24, 0}
	b := []float64{5504, 6000, -6000, 8, 16, 1, -inf, 1, 0x1p-24, 0, -0x1p-14}
	sums := []float64{65504, inf, -inf, 65504, inf, inf, nan, nan, 0x1p-23, -0x1p-24, -0x1p-14}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		m := arena(t, d, 1<<14)
		x, y, sum := m.New("x", tensor.F16, 1, len(a)), m.New("y", tensor.F16, 1, len(a)), m.New("sum", tensor.F16, 1, len(a))
		d.Upload(x, toF32(a))
		d.Upload(y, toF32(b))
		d.Add(sum, x, y)
		if got := floats(t, d, sum); fmt.Sprint(got) != fmt.Sprint(sums) {
			t.Errorf("%v plus %v is %v, want %v", a, b, got, sums)
		}
	})
}

// TestF16_ProductsOfFewColumns checks products of so few columns that each element is widened, and its sum rounded, by
// itself: biases of every kind of F16, and sums at, next to and halfway between those, also of the smallest.
func TestF16_ProductsOfFewColumns(t *testing.T) {
	var kinds []float32
	for _, h := range []uint16{0, 1, 2, 0x200, 0x3FF, 0x400, 0x401, 0x3BFF, 0x3C00, 0x3C01,
		0x7BFE, 0x7BFF, 0x7C00, 0x7E00} {
		kinds = append(kinds, tensor.F16ToF32(h), tensor.F16ToF32(h|0x8000))
	}
	var x, sums []float32 // rows of two, and each row's sum
	for _, v := range kinds {
		_, exponent := math.Frexp(float64(v))
		for _, part := range []float64{0, 0.25, 0.5, 0.75, -0.5, -0.25} { // of the distance to the next F16
			e := float32(math.Ldexp(part, max(exponent, -13)-11))
			if narrow := tensor.F16ToF32(tensor.F16FromF32(e)); narrow == e {
				x, sums = append(x, v, e), append(sums, v+e) // exact in float32
			}
		}
	}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, out := range []int{1, 3} {
			for _, scale := range []float32{1, 0x1p-9} { // with the smaller one, most sums are subnormal
				for at := 0; at+3 <= len(sums); at += 3 { // few rows, whose sums are stored one at a time
					m := arena(t, d, 1<<16)
					in := m.New("x", tensor.F16, 3, 2)
					w, y := m.New("w", tensor.F16, out, 2), m.New("y", tensor.F16, 3, out)
					d.Upload(in, x[2*at:2*at+6])
					d.Upload(w, slices.Repeat([]float32{scale}, 2*out))
					d.Linear(y, in, w, tensor.Tensor{})
					for i, got := range floats(t, d, y) {
						sum := sums[at+i/out] * scale
						want := tensor.F16ToF32(tensor.F16FromF32(sum))
						if float32(got) != want && (got == got || want == want) {
							t.Errorf("%d columns: %g is rounded to %g, not %g", out, sum, got, want)
						}
					}
				}
			}
			for _, bias := range kinds {
				m := arena(t, d, 1<<16)
				in, w := m.New("x", tensor.F16, 1, 2), m.New("w", tensor.F16, out, 2)
				b, y := m.New("bias", tensor.F16, out), m.New("y", tensor.F32, 1, out)
				d.Upload(in, make([]float32, 2))
				d.Upload(w, make([]float32, 2*out))
				d.Upload(b, slices.Repeat([]float32{bias}, out))
				d.Linear(y, in, w, b)
				for _, got := range floats(t, d, y) {
					if float32(got) != bias && (got == got || bias == bias) {
						t.Errorf("%d columns: a bias of %g is added as %g", out, bias, got)
					}
				}
			}
		}
	})
}
