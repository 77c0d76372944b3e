package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/tensor"
)

func adamWCase(t tensor.DType, n, step int) opCase {
	const lr, eps, decay, gradScale = 0.3, 1e-8, 0.01, 0.25
	const beta1, beta2 = 0.9, 0.999
	state := func(name string) operand {
		return operand{name: name, t: tensor.F32, shape: []int{n}, fill: func(r *rand.Rand, i int) float64 {
			if i%5 == 0 {
				return 0 // as before the first step
			}
			return r.Float64()
		}}
	}
	w, m, v := plain("w", t, n), state("m"), state("v")
	c := opCase{
		op: "adamw", name: label(t, n) + fmt.Sprint(" step ", step),
		in:  []operand{w, m, v, plain("g", tensor.F32, n)},
		out: []operand{w, m, v},
		forward: func(d *Device, x tensors) {
			d.AdamW(x["w"], x["m"], x["v"], x["g"], lr, beta1, beta2, eps, decay, gradScale, step)
		},
		want: func(x values) values {
			w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
			for i, g := range x["g"] {
				g *= gradScale
				m[i] = beta1*x["m"][i] + (1-beta1)*g
				v[i] = beta2*x["v"][i] + (1-beta2)*g*g
				mhat := m[i] / (1 - math.Pow(beta1, float64(step)))
				vhat := v[i] / (1 - math.Pow(beta2, float64(step)))
				w[i] = x["w"][i]*(1-lr*decay) - lr*mhat/(math.Sqrt(vhat)+eps)
			}
			return values{"w": w, "m": m, "v": v}
		},
		tolerance: map[tensor.DType]float64{tensor.F32: 5e-7, tensor.BF16: 3e-3}[t], // one rounding; m and v are F32
		kernels:   [2][]string{{"adamw"}},
	}
	c.forwardBytes = c.bytes("w", "w", "m", "m", "v", "v", "g")
	return c
}

func TestAdamW(t *testing.T) {
	var cases []opCase
	for _, t := range both {
		for _, n := range []int{1, 7, 64, 5003} {
			for _, step := range []int{1, 10, 100000} {
				cases = append(cases, adamWCase(t, n, step))
			}
		}
	}
	testOps(t, cases)
}

// TestAdamWAtRest has gradients of zero from the first step on: nothing but decay happens, and no 0/0.
func TestAdamWAtRest(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		a := arena(t, d, 1<<12)
		var x [4]tensor.Tensor
		for i := range x {
			x[i] = a.New("x", tensor.F32, 20)
			d.Zero(x[i])
		}
		d.Upload(x[0], filled(20, func(int) float64 { return 2 }))
		d.AdamW(x[0], x[1], x[2], x[3], 0.5, 0.9, 0.999, 1e-8, 0.5, 1, 1)
		for _, w := range floats(t, d, x[0]) {
			if w != 1.5 {
				t.Fatalf("w is %v, want 1.5", w)
			}
		}
		mustPanic(t, "no step", "AdamW: step 0 is before the first", func() {
			d.AdamW(x[0], x[1], x[2], x[3], 0.5, 0.9, 0.999, 1e-8, 0.5, 1, 0)
		})
	})
}
