package kernels_test

import (
	"fmt"
	"math"
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
