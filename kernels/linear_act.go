package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// An Activation may follow a linear layer.
type Activation = cpu.Activation

// The activations: both forms of GELU, and SiLU, x / (1 + e⁻ˣ).
const (
	GELUExact = cpu.ActGELU
	GELUTanh  = cpu.ActGELUTanh
	SiLU      = cpu.ActSiLU
)

// LinearActivation is a linear layer and the activation that follows it:
//
//	pre = x·wᵀ + bias
//	y = act(pre)
//
// x is [rows, in], w [out, in], bias [out] or the zero Tensor, and y [rows, out], all of one type. pre is of the shape
// of y, or the zero Tensor if no backward pass needs it.
//
// On the CPU, and on a GPU in BF16 with restyle's own products of more than a few rows, it is one kernel that rounds y
// once. Otherwise it is two, and pre is rounded to the type between them. For the backward pass, see
// ActivationBackward, LinearBackward, LinearGradient and BiasGradient.
func (d *Device) LinearActivation(y, pre, x, w, bias tensor.Tensor, act Activation) {
	const op = "LinearActivation"
	in, out := checkLinear(op, y, x, w)
	want(op, "w", w, x.DType, out, in)
	want(op, "y", y, x.DType, y.Len())
	if bias.Ok() {
		want(op, "bias", bias, x.DType, out)
	}
	if pre.Ok() {
		want(op, "pre", pre, y.DType, y.Len())
	}
	if act < GELUExact || act > SiLU {
		panic(fmt.Sprintf("%s: activation %d: must be GELUExact, GELUTanh or SiLU", op, act))
	}
	d.ran("linear_activation")
	d.product(cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr, Act: act,
		Pre: pre.Addr})
}

// ActivationBackward computes the gradient of an activation, dpre = dy · act′(pre). All are of the same type and
// length; dpre may be dy or pre.
func (d *Device) ActivationBackward(dpre, dy, pre tensor.Tensor, act Activation) {
	if act != SiLU {
		d.GELUBackward(dpre, dy, pre, act == GELUTanh)
		return
	}
	const op = "ActivationBackward"
	floating(op, "pre", pre)
	want(op, "dy", dy, pre.DType, pre.Len())
	want(op, "dpre", dpre, pre.DType, pre.Len())
	d.siluBackward(dpre.View(pre.Shape...).Matrix(), dy.View(pre.Shape...).Matrix(), pre.Matrix())
}

// maxGateUpRows is the maximum number of rows of gates and ups that LinearSwiGLU has in memory at a time.
const maxGateUpRows = 2048

// LinearSwiGLU is a linear layer of gates and ups, and SwiGLU behind it:
//
//	gateUp = x·wᵀ + bias
//	y = SwiGLU(gateUp)
//
// x is [rows, in], w [2·inner, in], bias [2·inner] or the zero Tensor, and y [rows, inner], all of one type. gateUp is
// [rows, 2·inner], or the zero Tensor if no backward pass needs it. Gates and ups are one product, which reads x once.
//
// Fused, on a GPU of compute capability 9.0, in BF16 and F16, it is one kernel, which rounds y once. Otherwise it is
// two, and without a gateUp, at most 2,048 rows of gates and ups are in scratch memory at a time.
func (d *Device) LinearSwiGLU(y, gateUp, x, w, bias tensor.Tensor) {
	const op = "LinearSwiGLU"
	floating(op, "x", x)
	rows, in := x.Rows(), x.Dim(-1)
	wantWeights(op, w, x.DType, w.Rows(), in)
	want(op, "y", y, x.DType, rows, w.Rows()/2)
	if gateUp.Ok() {
		want(op, "gateUp", gateUp, x.DType, rows, w.Rows())
	}
	if bias.Ok() {
		want(op, "bias", bias, x.DType, w.Rows())
	}
	x, y = x.View(rows, in), y.View(rows, w.Rows()/2)
	if d.gpu != nil && d.fused("swiglu") && rows > maxMatvecRows {
		p := cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr}
		var keep tensor.Matrix
		if gateUp.Ok() {
			keep = gateUp.View(rows, w.Rows()).Matrix()
		}
		if d.wgmma(p, keep, true) {
			d.ran("linear")
			d.ran("swiglu")
			return
		}
	}
	if gateUp.Ok() {
		d.Linear(gateUp, x, w, bias)
		d.SwiGLU(y, gateUp)
		return
	}
	defer d.release(d.mark())
	gateUp = gateUpScratch(d.scratch, x.DType, rows, w.Rows())
	for from := 0; from < rows; from += maxGateUpRows {
		to := min(from+maxGateUpRows, rows)
		d.Linear(gateUp.Slice(0, to-from), x.Slice(from, to), w, bias)
		d.SwiGLU(y.Slice(from, to), gateUp.Slice(0, to-from))
	}
}

// gateUpScratch lays out the gates and ups of some of the rows.
func gateUpScratch(cut cut, t tensor.DType, rows, outputs int) tensor.Tensor {
	return cut("gate and up", t, min(rows, maxGateUpRows), outputs)
}
