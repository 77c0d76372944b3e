package kernels_test

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestSwiGLURange has gates for which e⁻ˣ overflows or underflows. The result must be 0 or the gate itself, never NaN.
// The gradients overwrite their inputs.
func TestSwiGLURange(t *testing.T) {
	gates := []float64{-3e38, -1e4, -104, -89, -88.5, -87, 0, 17, 88, 1e4, 3e38}
	n := len(gates)
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
			for _, fused := range []bool{false, true} {
				d.SetFused(kernels.Fused{"swiglu": fused})
				a := arena(t, d, 1<<14)
				x, y, dy := a.New("x", typ, 1, 2*n), a.New("y", typ, 1, n), a.New("dy", typ, 1, n)
				d.Upload(x, filled(2*n, func(i int) float64 {
					if i < n {
						return gates[i]
					}
					return 1
				}))
				d.Upload(dy, filled(n, func(int) float64 { return 1 }))
				at := floats(t, d, x)
				d.SwiGLU(y, x)
				d.SwiGLUBackward(x, dy, x)
				dx := floats(t, d, x)
				for i, got := range floats(t, d, y) {
					s := 1 / (1 + math.Exp(-at[i]))
					near(t, "y", at[i], got, at[i]*s, typ)
					near(t, "dgate", at[i], dx[i], s*(1+at[i]*(1-s)), typ)
					near(t, "dup", at[i], dx[n+i], at[i]*s, typ)
				}
			}
		}
	})
}

// near compares one element: two roundings to the type, and 0 if float32 has only subnormal numbers there.
func near(t *testing.T, name string, x, got, want float64, typ tensor.DType) {
	t.Helper()
	relative := map[tensor.DType]float64{tensor.F32: 1e-6, tensor.BF16: 0x1p-7}[typ]
	if math.Abs(got-want) <= relative*math.Abs(want)+1e-36 {
		return
	}
	t.Errorf("%v: %s at %v is %v, want %v", typ, name, x, got, want)
}
