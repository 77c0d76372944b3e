package kernels

import (
	"testing"

	"restyle/tensor"
)

// linear is the formula: row by row, y = x·wᵀ + bias.
func linear(x, w, bias []float64, rows, in, out int) []float64 {
	sums := make([]float64, rows*out)
	for r := range rows {
		for o := range out {
			if bias != nil {
				sums[r*out+o] += bias[o]
			}
			for i := range in {
				sums[r*out+o] += x[r*in+i] * w[o*in+i]
			}
		}
	}
	return sums
}

func linearCase(t tensor.DType, rows, in, out int, bias bool) opCase {
	c := opCase{
		op: "linear", name: label(t, rows, in, out),
		in:      []operand{act("x", t, rows, in), par("w", t, out, in)},
		out:     []operand{act("y", t, rows, out)},
		forward: func(d *Device, x tensors) { d.Linear(x["y"], x["x"], x["w"], x["bias"]) },
		backward: func(d *Device, x tensors) {
			d.LinearBackward(x["dx"], x["dw"], x["dbias"], x["dy"], x["x"], x["w"])
		},
		want: func(x values) values {
			return values{"y": linear(x["x"], x["w"], x["bias"], rows, in, out)}
		},
		kernels: [2][]string{{"linear", "linear_dx", "linear_dw"}},
	}
	if bias {
		c.name += " and bias"
		c.in = append(c.in, par("bias", t, out))
		c.kernels[0] = append(c.kernels[0], "linear_dbias")
	}
	return c
}

func TestLinear(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for i, size := range [][3]int{
			{1, 1, 1}, {2, 3, 1}, {1, 64, 48}, {7, 33, 17}, {8, 100, 65}, {9, 16, 129}, {31, 65, 33}, {33, 40, 65}, {70, 20, 33}, {5, 600, 20},
		} {
			cases = append(cases, linearCase(t, size[0], size[1], size[2], i%2 == 1))
		}
	}
	testOps(t, cases)
}

// TestLinearToF32 has logits in float32, from bfloat16 too.
func TestLinearToF32(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, rows := range []int{1, 30} {
			const in, out = 70, 50
			cases = append(cases, opCase{
				op: "linear", name: label(t, rows, in, out) + " to F32",
				in:      []operand{plain("x", t, rows, in), plain("w", t, out, in)},
				out:     []operand{plain("y", tensor.F32, rows, out)},
				forward: func(d *Device, x tensors) { d.Linear(x["y"], x["x"], x["w"], tensor.Tensor{}) },
				want: func(x values) values {
					return values{"y": linear(x["x"], x["w"], nil, rows, in, out)}
				},
				kernels: [2][]string{{"linear"}},
			})
		}
	}
	testOps(t, cases)
}

// TestLinearBackwardParts has each gradient computed alone, and a gradient of a weight in bfloat16.
func TestLinearBackwardParts(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		const rows, in, out = 20, 40, 30
		c := linearCase(tensor.BF16, rows, in, out, true)
		all, one := c.place(t, d), c.place(t, d)
		defer all.arena.Close()
		defer one.arena.Close()
		c.backward(d, all.x)
		d.Counts()
		x, none := one.x, tensor.Tensor{}
		d.LinearBackward(x["dx"], none, none, x["dy"], none, x["w"])
		d.LinearBackward(none, x["dw"], none, x["dy"], x["x"], none)
		d.LinearBackward(none, none, x["dbias"], x["dy"], none, none)
		for _, name := range []string{"dx", "dw", "dbias"} {
			if e := distance(floats(t, d, x[name]), floats(t, d, all.x[name])); e != 0 {
				t.Errorf("%s alone is another by %g", name, e)
			}
			if d.counts["linear_"+name] != 1 {
				t.Errorf("kernels that ran: %v", d.counts)
			}
		}
		a, err := d.NewArena("half", 2*out*in)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		half := a.New("dw", tensor.BF16, out, in)
		d.Zero(half)
		d.Zero(x["dw"])
		d.LinearBackward(none, half, none, x["dy"], x["x"], none)
		d.LinearBackward(none, x["dw"], none, x["dy"], x["x"], none)
		if e := distance(floats(t, d, half), floats(t, d, x["dw"])); e > tolerances[tensor.BF16] {
			t.Errorf("dw in bfloat16 is off by %g", e)
		}
	})
}

func TestLinearRefuses(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.NewArena("test", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const f32 = tensor.F32
	x, w, y, h := a.New("x", f32, 3, 4), a.New("w", f32, 5, 4), a.New("y", f32, 3, 5), a.New("h", tensor.BF16, 5, 4)
	none := tensor.Tensor{}
	for name, f := range map[string]func(){
		"shape":          func() { d.Linear(x, x, w, none) },
		"type of w":      func() { d.Linear(y, x, h, none) },
		"length of bias": func() { d.Linear(y, x, w, x) },
		"no x":           func() { d.Linear(y, none, w, none) },
		"shape of dx":    func() { d.LinearBackward(y, none, none, y, none, w) },
		"shape of dbias": func() { d.LinearBackward(none, none, x, y, none, none) },
		"type of dy":     func() { d.LinearBackward(x, none, none, a.New("dy", tensor.BF16, 3, 5), none, w) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			f()
		})
	}
}
