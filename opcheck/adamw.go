package opcheck

import (
	"fmt"
	"math"
	"math/rand/v2"

	"restyle/kernels"
	"restyle/tensor"
)

// adamWCase returns a case with F32 moments and, if master is true, an F32 master for a weight of 16 bits.
func adamWCase(t tensor.DType, n, step int, master bool) *Case {
	c := kernels.AdamWStep{LR: 0.3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 0.25, Step: step}
	if n%2 == 0 {
		c = kernels.AdamWStep{LR: 0.01, Beta1: 0.8, Beta2: 0.95, Eps: 1e-3, Decay: 0.7, GradScale: 3, Step: step}
	}
	state := func(name string) Operand {
		return Operand{Name: name, Type: tensor.F32, Shape: []int{n}, Fill: func(r *rand.Rand, i int) float64 {
			if i%5 == 0 {
				return 0 // as before the first step
			}
			return r.Float64()
		}}
	}
	w, m, v := plain("w", t, n), state("m"), state("v")
	k := &Case{
		Op: "adamw", Type: t, Name: label(n) + fmt.Sprint(" step ", step),
		In:  []Operand{w, m, v, plain("g", tensor.F32, n)},
		Out: []Operand{w, m, v},
		Forward: func(d *kernels.Device, x Tensors) {
			d.AdamW(kernels.AdamWTensor{W: x["w"], G: x["g"], Number: n, NoDecay: n == 64,
				State: kernels.AdamWState{M: x["m"], V: x["v"],
					Master: x["master"]}}, c)
		},
		Want: func(x Values) Values {
			from, c := x["w"], c
			if n == 64 {
				c.Decay = 0
			}
			if master {
				from = x["master"]
			}
			w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
			for i, g := range x["g"] {
				w[i], m[i], v[i] = AdamW(from[i], x["m"][i], x["v"][i], g, c)
			}
			if master {
				return Values{"w": w, "m": m, "v": v, "master": w}
			}
			return Values{"w": w, "m": m, "v": v}
		},
		Tolerance: tolerance(t, 5e-7, 0x1p-8), // one rounding; m and v are F32
		Kernels:   [2][]string{{"adamw"}},
	}
	k.ForwardBytes = k.bytes("w", "w", "m", "m", "v", "v", "g")
	if master {
		k.Name += " master"
		k.In = append(k.In, plain("master", tensor.F32, n))
		k.Out = append(k.Out, k.In[4])
		k.ForwardBytes += k.bytes("master", "master") - k.bytes("w") // w is only written
	}
	return k
}

// AdamW computes AdamW's formula for one element: it returns the weight and its moments after the step.
func AdamW(w, m, v, g float64, c kernels.AdamWStep) (w1, m1, v1 float64) {
	g *= c.GradScale
	m = c.Beta1*m + (1-c.Beta1)*g
	v = c.Beta2*v + (1-c.Beta2)*g*g
	mHat, vHat := m/(1-math.Pow(c.Beta1, float64(c.Step))), v/(1-math.Pow(c.Beta2, float64(c.Step)))
	return w*(1-c.LR*c.Decay) - c.LR*mHat/(math.Sqrt(vHat)+c.Eps), m, v
}

func adamWCases() (cases []*Case) {
	for _, n := range []int{1, 7, 64, 255, 256, 257, 5003} {
		for _, step := range []int{1, 10, 100000} {
			cases = append(cases, adamWCase(tensor.F32, n, step, false))
			for _, t := range []tensor.DType{tensor.BF16, tensor.F16} {
				cases = append(cases, adamWCase(t, n, step, false), adamWCase(t, n, step, true))
			}
		}
	}
	return cases
}
