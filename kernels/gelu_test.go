package kernels

import (
	"math"
	"testing"

	"restyle/tensor"
)

// gelu is the formula, and its derivative. Of x beyond ±40, where x³ could overflow, the derivative is 0 or 1.
func gelu(x float64, tanh bool) (y, slope float64) {
	near := min(max(x, -40), 40)
	phi, dphi := math.Erfc(-near/math.Sqrt2)/2, math.Exp(-near*near/2)/math.Sqrt(2*math.Pi)
	if tanh {
		u := math.Sqrt(2/math.Pi) * (near + 0.044715*near*near*near)
		phi = 1 / (1 + math.Exp(-2*u))
		dphi = 2 * phi / (1 + math.Exp(2*u)) * math.Sqrt(2/math.Pi) * (1 + 3*0.044715*near*near)
	}
	return max(x, -40) * phi, phi + near*dphi
}

func geluCase(t tensor.DType, rows, dim int, tanh bool) opCase {
	form := " exact"
	if tanh {
		form = " tanh"
	}
	c := opCase{
		op: "gelu", name: label(t, rows, dim) + form,
		in:       []operand{act("x", t, rows, dim)},
		out:      []operand{act("y", t, rows, dim)},
		forward:  func(d *Device, x tensors) { d.GELU(x["y"], x["x"], tanh) },
		backward: func(d *Device, x tensors) { d.GELUBackward(x["dx"], x["dy"], x["x"], tanh) },
		want: func(x values) values {
			y := make([]float64, len(x["x"]))
			for i, v := range x["x"] {
				y[i], _ = gelu(v, tanh)
			}
			return values{"y": y}
		},
		kernels: [2][]string{{"gelu", "gelu_backward"}},
	}
	c.forwardBytes = c.bytes("x", "y")
	c.backwardBytes = c.bytes("x", "y", "x")
	return c
}

func TestGELU(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, tanh := range []bool{false, true} {
			for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 16}, {5, 63}, {130, 24}, {2, 688}} {
				cases = append(cases, geluCase(t, s[0], s[1], tanh))
			}
		}
	}
	testOps(t, cases)
}

// TestGELURange goes through the tails, in which nothing cancels, overflows or becomes NaN that is none. Results lie in the place
// of their inputs.
func TestGELURange(t *testing.T) {
	var xs []float64
	for x := 1.0 / 64; x < 20; x += 1.0 / 16 {
		xs = append(xs, x, -x)
	}
	xs = append(xs, 1e-38, -1e-38, 0, math.Copysign(0, -1), 1e4, -1e4, 1e20, -1e20, 3e38, -3e38)
	finite := len(xs)
	xs = append(xs, math.Inf(1), math.Inf(-1), math.NaN())
	n := len(xs)
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			for _, tanh := range []bool{false, true} {
				a := arena(t, d, 1<<15)
				x, dy := a.New("x", typ, 1, n), a.New("dy", typ, 1, n)
				one := func(int) float64 { return 1 }
				d.Upload(x, filled(n, func(i int) float64 { return xs[i] }))
				d.Upload(dy, filled(n, one))
				at := floats(t, d, x)
				d.GELUBackward(dy, dy, x, tanh)
				slope := floats(t, d, dy)
				dx := a.New("dx", typ, 1, n)
				d.Copy(dx, x)
				d.Upload(dy, filled(n, one))
				d.GELUBackward(dx, dy, dx, tanh)
				for i, got := range floats(t, d, dx) {
					if got != slope[i] && i < n-1 {
						t.Errorf("%v: in the place of x the slope at %v is %v, not %v", typ, at[i], got, slope[i])
					}
				}
				d.GELU(x, x, tanh)
				y := floats(t, d, x)
				for i, v := range at[:finite] {
					want, wantSlope := gelu(v, tanh)
					// An exponent of size a is known to 2⁻²⁴ of itself; exp for BF16 is good to 4e-6.
					a := min(v*v, 200)
					if tanh {
						a = math.Abs(1.6*v + 0.07*v*v*v)
					}
					relative, absolute := 2e-6+2e-7*a, 3e-6
					if typ == tensor.BF16 {
						relative, absolute = 0x1p-8+2e-5+2e-7*a, 0x1p-8*math.Abs(wantSlope)+3e-5
					}
					if off := math.Abs(y[i] - want); !(off <= relative*math.Abs(want)+1e-36) {
						t.Errorf("%v, tanh %v: y at %v is %v, want %v", typ, tanh, v, y[i], want)
					}
					if off := math.Abs(slope[i] - wantSlope); !(off <= absolute) {
						t.Errorf("%v, tanh %v: the slope at %v is %v, want %v", typ, tanh, v, slope[i], wantSlope)
					}
					if v < 0 && !math.Signbit(y[i]) {
						t.Errorf("%v, tanh %v: y at %v is %v, which is above 0", typ, tanh, v, y[i])
					}
				}
				inf := y[finite:]
				if !math.IsInf(inf[0], 1) || inf[1] != 0 || !math.Signbit(inf[1]) || !math.IsNaN(inf[2]) {
					t.Errorf("%v, tanh %v: of +∞, −∞ and NaN y is %v", typ, tanh, inf)
				}
				if s := slope[finite:]; s[0] != 1 || s[1] != 0 || !math.IsNaN(s[2]) {
					t.Errorf("%v, tanh %v: of +∞, −∞ and NaN the slope is %v", typ, tanh, s)
				}
			}
		}
	})
}
