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
			d.LinearBackward(x["dx"], x["dy"], x["w"], false)
			d.LinearGradient(x["dw"], x["dy"], x["x"], 0, true)
			if x["dbias"].Ok() {
				d.BiasGradient(x["dbias"], x["dy"], 0)
			}
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

// TestLinearGradients has parts of a weight's gradient be those of the whole, overwritten or added to, and dx added to.
func TestLinearGradients(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		const rows, in, out, from, n = 20, 40, 30, 7, 11
		for _, dtype := range both {
			c := linearCase(dtype, rows, in, out, true)
			p := c.place(t, d)
			defer p.arena.Close()
			x := p.x
			a, err := d.NewArena("parts", 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			same := func(what string, got, want []float64, limit float64) {
				t.Helper()
				if e := distance(got, want); !(e <= limit) {
					t.Errorf("%v: %s: off by %g", dtype, what, e)
				}
			}
			twice := func(x []float64) (y []float64) {
				for _, v := range x {
					y = append(y, 2*v)
				}
				return y
			}
			d.Zero(x["dw"])
			d.LinearGradient(x["dw"], x["dy"], x["x"], 0, true)
			whole := floats(t, d, x["dw"])
			d.LinearGradient(x["dw"], x["dy"], x["x"], 0, false)
			same("dw over what was there", floats(t, d, x["dw"]), whole, 0)

			// The sums of a part may be cut differently: they differ in the last bits of float32.
			dw := a.New("dw", tensor.F32, n, in)
			d.LinearGradient(dw, x["dy"], x["x"], from, false)
			same("dw of some outputs", floats(t, d, dw), whole[from*in:(from+n)*in], 1e-6)
			d.LinearGradient(dw, x["dy"], x["x"], from, true)
			same("dw of some outputs, twice", floats(t, d, dw), twice(whole[from*in:(from+n)*in]), 1e-6)
			half := a.New("dw", tensor.BF16, n, in)
			d.LinearGradient(half, x["dy"], x["x"], from, false)
			same("dw in bfloat16", floats(t, d, half), whole[from*in:(from+n)*in], tolerances[tensor.BF16])

			d.Zero(x["dbias"])
			d.BiasGradient(x["dbias"], x["dy"], 0)
			bias := a.New("dbias", tensor.F32, n)
			d.Zero(bias)
			d.BiasGradient(bias, x["dy"], from)
			same("dbias of some outputs", floats(t, d, bias), floats(t, d, x["dbias"])[from:from+n], 0)

			d.LinearBackward(x["dx"], x["dy"], x["w"], false)
			dx := floats(t, d, x["dx"])
			d.LinearBackward(x["dx"], x["dy"], x["w"], true)
			same("dx added to", floats(t, d, x["dx"]), twice(dx), tolerances[dtype])
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
		"shape of dx":    func() { d.LinearBackward(y, y, w, false) },
		"shape of dbias": func() { d.BiasGradient(x, y, 0) },
		"past the end":   func() { d.LinearGradient(w, y, x, 1, false) },
		"before":         func() { d.LinearGradient(w, y, x, -1, false) },
		"type of dy":     func() { d.LinearBackward(x, a.New("dy", tensor.BF16, 3, 5), w, false) },
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
