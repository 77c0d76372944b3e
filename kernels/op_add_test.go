package kernels_test

import (
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestAddInPlace stores the sum in one of its operands.
func TestAddInPlace(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		a, err := d.NewArena("test", 4096)
		expect.OK(t, err)
		defer a.Close()
		x := a.New("x", tensor.F32, 3)
		d.Upload(x, []float32{1, 2, 3})
		d.Add(x, x, x)
		if got := floats(t, d, x); got[2] != 6 {
			t.Error(got)
		}
	})
}
