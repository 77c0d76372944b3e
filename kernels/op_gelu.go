package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// GELU computes the Gaussian error linear unit (Hendrycks & Gimpel 2016), x times the probability Φ(x) that a normal
// variable is less than x:
//
//	y = x · Φ(x) = x · erfc(−x / √2) / 2
//
// With tanh it uses an approximation of Φ (Hugging Face's gelu_new and gelu_pytorch_tanh):
//
//	y = x · (1 + tanh u) / 2,  u = √(2/π) · (x + 0.044715 · x³)
//
// y and x are of the same type and length; y may be x. GELU of −∞ is −0, of +∞ +∞, of NaN NaN.
func (d *Device) GELU(y, x tensor.Tensor, tanh bool) {
	floating("GELU", "x", x)
	want("GELU", "y", y, x.DType, x.Len())
	d.ran("gelu")
	if d.gpu != nil {
		n := vectors(x.Matrix())
		d.launch(kernel{"op_gelu.cu", "gelu", vectorsOf(x.Matrix())}, each(n), addr(y), addr(x), i64(n), flag(tanh))
		return
	}
	cpu.GELU(y.View(x.Shape...), x, tanh)
}

// GELUTanhApprox is GELU with tanh, computed on a GPU with the instruction tanh.approx, which is off by up to 2⁻¹¹ of
// its result: y is off by up to 2.5e-4·|x|. That is less than half an ulp of BF16 for x above 0, but more than an ulp
// for x below -2, where 1 + tanh u cancels. On the CPU it is GELU with tanh. y and x are as in GELU; the gradient is
// GELUBackward's with tanh.
func (d *Device) GELUTanhApprox(y, x tensor.Tensor) {
	floating("GELUTanhApprox", "x", x)
	want("GELUTanhApprox", "y", y, x.DType, x.Len())
	d.ran("gelu_tanh_approx")
	if d.gpu == nil {
		cpu.GELU(y.View(x.Shape...), x, true)
		return
	}
	n := vectors(x.Matrix())
	d.launch(kernel{"op_gelu.cu", "gelu_tanh_approx", vectorsOf(x.Matrix())}, each(n), addr(y), addr(x), i64(n))
}

// GELUBackward computes the gradient of GELU:
//
//	dx = dy · (Φ(x) + x · Φ′(x)),  Φ′(x) = e^(−x²/2) / √(2π)
//
// and with tanh, where σ = (1 + tanh u) / 2 takes the place of Φ:
//
//	dx = dy · (σ + x · 2σ · (1 − σ) · u′),  u′ = √(2/π) · (1 + 3 · 0.044715 · x²)
//
// dx, dy and x are of the same type and length; dx may be dy or x.
func (d *Device) GELUBackward(dx, dy, x tensor.Tensor, tanh bool) {
	const op = "GELUBackward"
	floating(op, "x", x)
	want(op, "dy", dy, x.DType, x.Len())
	want(op, "dx", dx, x.DType, x.Len())
	d.ran("gelu_backward")
	if d.gpu != nil {
		n := vectors(x.Matrix())
		d.launch(kernel{"op_gelu.cu", "gelu_backward", vectorsOf(x.Matrix())}, each(n),
			addr(dx), addr(dy), addr(x), i64(n), flag(tanh))
		return
	}
	cpu.GELUBackward(dx.View(x.Shape...), dy.View(x.Shape...), x, tanh)
}
