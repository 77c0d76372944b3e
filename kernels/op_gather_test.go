package kernels_test

import (
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestScatterNoRows scatters no rows and checks that everything becomes zero.
func TestScatterNoRows(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<12)
		dx, dy, index := a.New("dx", tensor.F32, 3, 2), a.New("dy", tensor.F32, 2, 2), a.New("index", tensor.I32, 2)
		d.Upload(dx, []float32{1, 2, 3, 4, 5, 6})
		d.ScatterRows(dx, dy.Slice(0, 0), index.Slice(0, 0))
		if got := floats(t, d, dx); !slices.Equal(got, make([]float64, 6)) {
			t.Error(got)
		}
		if !d.IsCPU() {
			return
		}
		kernels.MustPanic(t, "an index twice", "ScatterRows: index[1] is 1 after 1", func() {
			d.UploadI32(index, []int32{1, 1})
			d.ScatterRows(dx, dy, index)
		})
	})
}
