package kernels

import (
	"testing"

	"restyle/tensor"
)

func addCases() (cases []opCase) {
	for _, t := range both {
		for _, n := range []int{1, 7, 64, 1031} {
			cases = append(cases, opCase{
				op: "add", name: label(t, n),
				in:      []operand{plain("a", t, n), plain("b", t, n)},
				out:     []operand{plain("y", t, n)},
				forward: func(d *Device, x tensors) { d.Add(x["y"], x["a"], x["b"]) },
				want: func(x values) values {
					y := make([]float64, n)
					for i := range y {
						y[i] = x["a"][i] + x["b"][i]
					}
					return values{"y": y}
				},
				kernels: [2][]string{{"add"}},
			})
		}
	}
	return cases
}

func TestAdd(t *testing.T) { testOps(t, addCases()) }

// TestAddInPlace has the sum in one of its operands.
func TestAddInPlace(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		a, err := d.NewArena("test", 4096)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		x := a.New("x", tensor.F32, 3)
		d.Upload(x, []float32{1, 2, 3})
		d.Add(x, x, x)
		if got := floats(t, d, x); got[2] != 6 {
			t.Error(got)
		}
	})
}
