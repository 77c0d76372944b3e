package kernels

import (
	"fmt"
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AdamW is one step of Adam with decoupled weight decay (Loshchilov & Hutter 2019), in PyTorch's order of operations. For
// each element, with t = step, which is 1 for the first:
//
//	g ← g · gradScale
//	w ← w − lr · decay · w
//	m ← β₁ · m + (1 − β₁) · g
//	v ← β₂ · v + (1 − β₂) · g²
//	w ← w − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)
//
// w is F32 or BF16, rounded to nearest; m, v and g are F32 of its length. g stays as it is. The factors that are the same
// for all elements are computed in float64. In BF16 an update below half a unit in the last place of its weight is lost.
func (d *Device) AdamW(w, m, v, g tensor.Tensor, lr, beta1, beta2, eps, decay, gradScale float64, step int) {
	d.onlyCPU("AdamW")
	const op = "AdamW"
	floating(op, "w", w)
	want(op, "m", m, tensor.F32, w.Len())
	want(op, "v", v, tensor.F32, w.Len())
	want(op, "g", g, tensor.F32, w.Len())
	if step < 1 {
		panic(fmt.Sprintf("%s: step %d is before the first, which is 1", op, step))
	}
	d.ran("adamw")
	t := float64(step)
	cpu.AdamW(w, m, v, g, cpu.AdamWFactors{
		GradScale: float32(gradScale),
		Keep:      float32(1 - lr*decay),
		Beta1:     float32(beta1), Rest1: float32(1 - beta1),
		Beta2: float32(beta2), Rest2: float32(1 - beta2),
		Rate: float32(lr / (1 - math.Pow(beta1, t))),
		Root: float32(1 / math.Sqrt(1-math.Pow(beta2, t))),
		Eps:  float32(eps),
	})
}
