package kernels

import (
	"testing"

	"restyle/tensor"
)

func addCase(t tensor.DType, n int) opCase {
	c := opCase{
		op: "add", name: label(t, n),
		in:      []operand{plain("a", t, n), plain("b", t, n)},
		out:     []operand{plain("y", t, n)},
		forward: func(d *Device, x tensors) { d.Add(x["y"], x["a"], x["b"]) },
		want:    func(x values) values { return values{"y": sums(x["a"], x["b"])} },
		kernels: [2][]string{{"add"}},
	}
	c.forwardBytes = c.bytes("a", "b", "y")
	return c
}

// sums is a + b.
func sums(a, b []float64) []float64 {
	y := make([]float64, len(a))
	for i := range y {
		y[i] = a[i] + b[i]
	}
	return y
}

func TestAdd(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, n := range []int{1, 7, 64, 1031, 20011} {
			cases = append(cases, addCase(t, n))
		}
	}
	testOps(t, cases)
}

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
