package kernels

import (
	"math"
	"testing"

	"restyle/tensor"
)

func swiGLUCase(t tensor.DType, rows, inner int) opCase {
	c := opCase{
		op: "swiglu", name: label(t, rows, inner),
		in:       []operand{act("gateUp", t, rows, 2*inner)},
		out:      []operand{act("y", t, rows, inner)},
		forward:  func(d *Device, x tensors) { d.SwiGLU(x["y"], x["gateUp"]) },
		backward: func(d *Device, x tensors) { d.SwiGLUBackward(x["dgateUp"], x["dy"], x["gateUp"]) },
		want: func(x values) values {
			y := make([]float64, rows*inner)
			for i := range y {
				at := i/inner*2*inner + i%inner
				gate, up := x["gateUp"][at], x["gateUp"][at+inner]
				y[i] = gate / (1 + math.Exp(-gate)) * up
			}
			return values{"y": y}
		},
		kernels: [2][]string{{"silu", "mul", "silu_backward"}, {"swiglu", "swiglu_backward"}},
	}
	if t == tensor.BF16 {
		// Unfused, silu, and dy·up, are rounded before they are multiplied, and the product is.
		c.elements = map[string]limit{"y": {0x1.1p-7, 0}, "dgateUp": {0x1.1p-7, 0x1p-17}}
	}
	c.forwardBytes = c.bytes("gateUp", "y")
	c.backwardBytes = c.bytes("gateUp", "gateUp", "y")
	return c
}

func TestSwiGLU(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, s := range [][2]int{{1, 1}, {3, 7}, {2, 16}, {5, 63}, {130, 24}, {2, 688}} {
			cases = append(cases, swiGLUCase(t, s[0], s[1]))
		}
	}
	testOps(t, cases)
}

// TestSwiGLURange has gates for which e⁻ˣ overflows or vanishes: the result is 0 or the gate itself, never NaN. The gradients
// lie in the place of their inputs.
func TestSwiGLURange(t *testing.T) {
	gates := []float64{-3e38, -1e4, -104, -89, -88.5, -87, 0, 17, 88, 1e4, 3e38}
	n := len(gates)
	eachDevice(t, func(t *testing.T, d *Device) {
		for _, typ := range both {
			for _, fused := range []bool{false, true} {
				d.SetFused(Fused{"swiglu": fused})
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

// near compares one element: two roundings to the type, and nothing where float32 holds only subnormals.
func near(t *testing.T, name string, x, got, want float64, typ tensor.DType) {
	t.Helper()
	relative := map[tensor.DType]float64{tensor.F32: 1e-6, tensor.BF16: 0x1p-7}[typ]
	if math.Abs(got-want) <= relative*math.Abs(want)+1e-36 {
		return
	}
	t.Errorf("%v: %s at %v is %v, want %v", typ, name, x, got, want)
}
