package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/tensor"
)

func rowsCase(t tensor.DType, rows, dim int, index []int) opCase {
	c := opCase{
		op: "rows", name: label(t, len(index), rows, dim),
		in: []operand{
			act("x", t, rows, dim),
			{name: "index", t: tensor.I32, shape: []int{len(index)}, fill: func(_ *rand.Rand, i int) float64 { return float64(index[i]) }},
		},
		out:      []operand{act("y", t, len(index), dim)},
		forward:  func(d *Device, x tensors) { d.GatherRows(x["y"], x["x"], x["index"]) },
		backward: func(d *Device, x tensors) { d.ScatterRows(x["dx"], x["dy"], x["index"]) },
		want: func(x values) values {
			var y []float64
			for _, i := range index {
				y = append(y, x["x"][i*dim:(i+1)*dim]...)
			}
			return values{"y": y}
		},
		kernels: [2][]string{{"gather_rows", "scatter_rows"}},
	}
	c.forwardBytes = c.bytes("y", "y")
	c.backwardBytes = c.bytes("y", "x")
	return c
}

func TestRows(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		cases = append(cases,
			rowsCase(t, 1, 1, []int{0}),
			rowsCase(t, 5, 3, []int{4}),
			rowsCase(t, 6, 16, []int{0, 1, 2, 3, 4, 5}),
			rowsCase(t, 300, 70, []int{2, 3, 5, 80, 81, 82, 150, 298}))
	}
	testOps(t, cases)
}

// TestScatterNoRows has nothing to scatter: all becomes zero.
func TestScatterNoRows(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		a := arena(t, d, 1<<12)
		dx, dy, index := a.New("dx", tensor.F32, 3, 2), a.New("dy", tensor.F32, 2, 2), a.New("index", tensor.I32, 2)
		d.Upload(dx, []float32{1, 2, 3, 4, 5, 6})
		d.ScatterRows(dx, dy.Slice(0, 0), index.Slice(0, 0))
		if got := floats(t, d, dx); !slices.Equal(got, make([]float64, 6)) {
			t.Error(got)
		}
		mustPanic(t, "an index twice", "ScatterRows: index[1] is 1 after 1", func() {
			d.UploadI32(index, []int32{1, 1})
			d.ScatterRows(dx, dy, index)
		})
	})
}
