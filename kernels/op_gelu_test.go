package kernels_test

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestGELURange checks that in the tails nothing cancels or overflows, and that only NaN gives NaN. Results overwrite
// their inputs.
func TestGELURange(t *testing.T) {
	var xs []float64
	for x := 1.0 / 64; x < 20; x += 1.0 / 16 {
		xs = append(xs, x, -x)
	}
	xs = append(xs, 1e-38, -1e-38, 0, math.Copysign(0, -1), 1e4, -1e4, 1e20, -1e20, 3e38, -3e38)
	finite := len(xs)
	xs = append(xs, math.Inf(1), math.Inf(-1), math.NaN())
	n := len(xs)
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
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
					want, wantSlope := opcheck.GELU(v, tanh)
					// An exponent of magnitude a has a relative error of 2⁻²⁴; exp for BF16 is accurate to 4e-6.
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

// TestGELUTanhApprox checks the error that the instruction may cause, and reports the largest.
func TestGELUTanhApprox(t *testing.T) {
	const n = 2001
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			a := arena(t, d, 1<<15)
			x, y := a.New("x", typ, n), a.New("y", typ, n)
			d.Upload(x, filled(n, func(i int) float64 { return float64(i-n/2) / 100 }))
			at := floats(t, d, x)
			d.GELUTanhApprox(y, x)
			worst := 0.0
			for i, got := range floats(t, d, y) {
				want, _ := opcheck.GELU(at[i], true)
				off := math.Abs(got - want)
				limit := 2.5e-4 * math.Abs(at[i])
				limit += map[tensor.DType]float64{tensor.BF16: 0x1p-8, tensor.F16: 0x1p-11}[typ] * math.Abs(want)
				if typ == tensor.F16 {
					limit += 0x1p-25
				}
				if at[i] != 0 {
					worst = max(worst, off/math.Abs(at[i]))
				}
				if !(off <= limit) {
					t.Errorf("%v: y at %v is %v, want %v", typ, at[i], got, want)
				}
			}
			t.Logf("%v: off by up to %.2g·|x|", typ, worst)
		}
	})
}
