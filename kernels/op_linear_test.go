package kernels_test

import (
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestLinearGradients checks that parts of a weight's gradient equal the parts of the whole gradient, overwritten or
// added to, and that dx is added to.
func TestLinearGradients(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		const rows, in, out, from, n = 20, 40, 30, 7, 11
		for _, dtype := range opcheck.Types {
			c := opcheck.LinearCase(dtype, rows, in, out, true)
			p := place(t, d, c)
			defer p.Close()
			x := p.X
			a, err := d.NewArena("parts", 1<<16)
			expect.OK(t, err)
			defer a.Close()
			same := func(what string, got, want []float64, limit float64) {
				t.Helper()
				if e := opcheck.Distance(got, want); !(e <= limit) {
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

			// The sums of a part may be split differently: they differ in the last bits of float32.
			dw := a.New("dw", tensor.F32, n, in)
			d.LinearGradient(dw, x["dy"], x["x"], from, false)
			same("dw of some outputs", floats(t, d, dw), whole[from*in:(from+n)*in], 1e-6)
			d.LinearGradient(dw, x["dy"], x["x"], from, true)
			same("dw of some outputs, twice", floats(t, d, dw), twice(whole[from*in:(from+n)*in]), 1e-6)
			half := a.New("dw", tensor.BF16, n, in)
			d.LinearGradient(half, x["dy"], x["x"], from, false)
			same("dw in bfloat16", floats(t, d, half), whole[from*in:(from+n)*in], opcheck.Tolerances[tensor.BF16])

			d.Zero(x["dbias"])
			d.BiasGradient(x["dbias"], x["dy"], 0)
			bias := a.New("dbias", tensor.F32, n)
			d.Zero(bias)
			d.BiasGradient(bias, x["dy"], from)
			same("dbias of some outputs", floats(t, d, bias), floats(t, d, x["dbias"])[from:from+n], 0)

			d.LinearBackward(x["dx"], x["dy"], x["w"], false)
			dx := floats(t, d, x["dx"])
			d.LinearBackward(x["dx"], x["dy"], x["w"], true)
			same("dx added to", floats(t, d, x["dx"]), twice(dx), opcheck.Tolerances[dtype])
		}
	})
}

func TestLinearRefuses(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{Threads: 1})
	expect.OK(t, err)
	defer d.Close()
	a, err := d.NewArena("test", 1<<16)
	expect.OK(t, err)
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

// TestBiasGradient adds up more rows than a thread block does, or all thread blocks do at a time, of some columns at
// any alignment. The elements are whole numbers, whose sums are exact in any order, and small enough for BF16.
func TestBiasGradient(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, size := range [][4]int{{1, 9, 2, 5}, {127, 40, 8, 24}, {129, 300, 0, 300}, {300, 33, 1, 32}, {20, 40, 4, 32},
			{16500, 2, 0, 2}} {
			rows, out, from, n := size[0], size[1], size[2], size[3]
			for _, typ := range opcheck.Types {
				for _, to := range opcheck.Types {
					a := arena(t, d, rows*out*4+n*4+1<<10)
					dy, dbias := a.New("dy", typ, rows, out), a.New("dbias", to, n)
					d.Upload(dy, filled(rows*out, func(i int) float64 { return float64(i*i%3 - i/out%2) }))
					d.Upload(dbias, filled(n, func(i int) float64 { return float64(i) }))
					want := floats(t, d, dbias)
					for i, x := range floats(t, d, dy) {
						if c := i%out - from; c >= 0 && c < n {
							want[c] += x
						}
					}
					d.BiasGradient(dbias, dy, from)
					for i, got := range floats(t, d, dbias) {
						want[i] = float64(tensor.Round(float32(want[i]), to))
						if got != want[i] {
							t.Fatalf("%v to %v, %v: column %d is %v, not %v", typ, to, size, i, got, want[i])
						}
					}
				}
			}
		}
	})
}
