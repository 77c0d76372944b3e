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
// of y, or the zero Tensor if no backward pass needs it. There may be a Pair.
//
// Fused ("linear_activation"), on the CPU, and on a GPU in BF16 with restyle's own products of more than a few rows, it
// is one kernel that rounds y once. Otherwise it is two, and pre is rounded to the type between them. For the backward
// pass, see ActivationBackward, LinearBackward, LinearGradient and BiasGradient.
func (d *Device) LinearActivation(y, pre, x, w, bias tensor.Tensor, act Activation, pair ...Pair) {
	const op = "LinearActivation"
	in, out := checkLinear(op, y, x, w)
	wantWeights(op, w, x.DType, out, in)
	want(op, "y", y, x.DType, y.Len())
	if bias.Ok() {
		want(op, "bias", bias, x.DType, out)
	}
	if pre.Ok() {
		want(op, "pre", pre, y.DType, y.Len())
	}
	checkActivation(op, act)
	if !d.fused("linear_activation") || w.DType.Quantized() {
		if !pre.Ok() {
			pre = y
		}
		d.Linear(pre.View(y.Shape...), x, w, bias, pair...)
		d.activation(y, pre, act)
		return
	}
	d.ran("linear_activation")
	p := cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr, Act: act, Pre: pre.Addr}
	d.product(paired(op, p, pair))
}

func checkActivation(op string, act Activation) {
	if act < GELUExact || act > SiLU {
		panic(fmt.Sprintf("%s: activation %d: must be GELUExact, GELUTanh or SiLU", op, act))
	}
}

// activation computes y = act(pre).
func (d *Device) activation(y, pre tensor.Tensor, act Activation) {
	if act == SiLU {
		d.SiLU(y, pre)
		return
	}
	d.GELU(y, pre, act == GELUTanh)
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

// maxGateUpRows is the maximum number of rows of gates and ups, or of gradients of activations, that are in scratch
// memory at a time.
const maxGateUpRows = 2048

// LinearSwiGLU is a linear layer of gates and ups, followed by SwiGLU:
//
//	gateUp = x·wᵀ + bias
//	y = SwiGLU(gateUp)
//
// x is [rows, in], w [2·inner, in], bias [2·inner] or the zero Tensor, and y [rows, inner], all of one type. gateUp is
// [rows, 2·inner], or the zero Tensor if no backward pass needs it. There may be a Pair. Gates and ups are one product,
// which reads x once.
//
// Fused, on a GPU of compute capability 9.0, in BF16 and F16, it is one kernel, which rounds y once, and with
// SetRowsAlone leaves gateUp as it is: no backward pass follows. Otherwise it is two, and without a gateUp, at most
// 2,048 rows of gates and ups are in scratch memory at a time.
func (d *Device) LinearSwiGLU(y, gateUp, x, w, bias tensor.Tensor, pair ...Pair) {
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
	if d.gpu != nil && d.fused("swiglu") && (rows > maxMatvecRows || d.rowsAlone) {
		p := paired(op, cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr}, pair)
		var keep tensor.Matrix
		if gateUp.Ok() && !d.rowsAlone {
			keep = gateUp.View(rows, w.Rows()).Matrix()
		}
		product := d.wgmma
		if d.codesActivations(p) {
			product = d.wgmmaINT8
		}
		if product(p, keep, true) {
			d.ran("linear")
			d.ran("swiglu")
			return
		}
	}
	if gateUp.Ok() {
		d.Linear(gateUp, x, w, bias, pair...)
		d.SwiGLU(y, gateUp)
		return
	}
	defer d.release(d.mark())
	gateUp = gateUpScratch(d.scratch, x.DType, rows, w.Rows())
	for from := 0; from < rows; from += maxGateUpRows {
		to := min(from+maxGateUpRows, rows)
		d.Linear(gateUp.Slice(0, to-from), x.Slice(from, to), w, bias, rowsOfPair(pair, from, to)...)
		d.SwiGLU(y.Slice(from, to), gateUp.Slice(0, to-from))
	}
}

// gateUpScratch lays out the gates and ups of some of the rows.
func gateUpScratch(cut cut, t tensor.DType, rows, outputs int) tensor.Tensor {
	return cut("gate and up", t, min(rows, maxGateUpRows), outputs)
}

// ActivationLinearBackward computes the gradient of a linear layer after an activation, Linear(act(pre), w), with
// respect to pre:
//
//	dact = dy·w
//	dpre = dact · act′(pre)
//
// dy is [rows, out], w [out, in], and dpre and pre [rows, in], all of one type; w may be quantized instead. dpre must
// not overlap the others. There may be a Pair.
//
// Fused ("linear_activation"), on a GPU of compute capability 9.0, in BF16 and F16, it is one kernel, which does not
// round dact. Otherwise it is two, and at most 2,048 rows of dact are in scratch memory at a time. The CPU always does
// that: the tiles of a product would read and write pre and dpre in short pieces, which took longer than dact does.
func (d *Device) ActivationLinearBackward(dpre, dy, w, pre tensor.Tensor, act Activation, pair ...Pair) {
	const op = "ActivationLinearBackward"
	in, out := checkLinear(op, dy, dpre, w)
	wantWeights(op, w, dy.DType, out, in)
	want(op, "dpre", dpre, dy.DType, dpre.Len())
	want(op, "pre", pre, dy.DType, dpre.Len())
	checkActivation(op, act)
	pre, dpre, dy = pre.View(dy.Rows(), in), dpre.View(dy.Rows(), in), dy.View(dy.Rows(), out)
	if d.fused("linear_activation") && d.fusesGradient(dy, w) {
		p := paired(op, cpu.Product{C: dpre.Matrix(), A: dy.Matrix(), B: w.Matrix(), Act: act, Pre: pre.Addr}, pair)
		if d.wgmmaFollowed(p, tensor.Matrix{}, false, true) {
			d.ran("linear_dx")
			if act == SiLU {
				d.ran("silu_backward")
			} else {
				d.ran("gelu_backward")
			}
			return
		}
	}
	d.inputGradients(dy, w, pair, func(dact tensor.Tensor, from, to int) {
		d.ActivationBackward(dpre.Slice(from, to), dact, pre.Slice(from, to), act)
	})
}

// SwiGLULinearBackward computes the gradient of a linear layer after SwiGLU, Linear(SwiGLU(gateUp), w), with respect to
// gateUp:
//
//	dact = dy·w
//	dGateUp = SwiGLUBackward(dact, gateUp)
//
// dy is [rows, out], w [out, inner], and dGateUp and gateUp [rows, 2·inner], all of one type; w may be quantized
// instead. dGateUp must not overlap the others. There may be a Pair.
//
// Fused ("swiglu"), it is one kernel if ActivationLinearBackward is. Otherwise at most 2,048 rows of dact are in
// scratch memory at a time.
func (d *Device) SwiGLULinearBackward(dGateUp, dy, w, gateUp tensor.Tensor, pair ...Pair) {
	const op = "SwiGLULinearBackward"
	floating(op, "dy", dy)
	rows, out, inner := dy.Rows(), dy.Dim(-1), w.Dim(-1)
	wantWeights(op, w, dy.DType, out, inner)
	want(op, "dGateUp", dGateUp, dy.DType, rows, 2*inner)
	want(op, "gateUp", gateUp, dy.DType, rows, 2*inner)
	gateUp, dGateUp, dy = gateUp.View(rows, 2*inner), dGateUp.View(rows, 2*inner), dy.View(rows, out)
	if d.fused("swiglu") && d.fusesGradient(dy, w) {
		dgate, dup := halves(dGateUp)
		p := paired(op, cpu.Product{C: dgate, A: dy.Matrix(), B: w.Matrix(), Act: actSwiGLU, Pre: gateUp.Addr}, pair)
		if d.wgmmaFollowed(p, dup, false, true) {
			d.ran("linear_dx")
			d.ran("swiglu_backward")
			return
		}
	}
	d.inputGradients(dy, w, pair, func(dact tensor.Tensor, from, to int) {
		d.SwiGLUBackward(dGateUp.Slice(from, to), dact, gateUp.Slice(from, to))
	})
}

// fusesGradient reports whether wgmma may compute the gradient of a layer's input and what precedes it.
func (d *Device) fusesGradient(dy, w tensor.Tensor) bool {
	return d.gpu != nil && dy.Rows() > maxMatvecRows && !w.DType.Quantized()
}

// inputGradients calls f with the gradient of the input of a linear layer, in scratch memory, of some rows at a time.
func (d *Device) inputGradients(dy, w tensor.Tensor, pair []Pair, f func(dx tensor.Tensor, from, to int)) {
	defer d.release(d.mark())
	rows := dy.Rows()
	dx := inputGradientScratch(d.scratch, dy.DType, rows, w.Dim(-1))
	for from := 0; from < rows; from += maxGateUpRows {
		to := min(from+maxGateUpRows, rows)
		d.LinearBackward(dx.Slice(0, to-from), dy.Slice(from, to), w, false, rowsOfPair(pair, from, to)...)
		f(dx.Slice(0, to-from), from, to)
	}
}

// inputGradientRows returns the maximum number of rows with which a pass calls inputGradients.
func (d *Device) inputGradientRows(fused bool, t tensor.DType, rows, dim, inner int) int {
	if fused && d.hasWGMMA() && t.Half() && (dim|inner)%8 == 0 {
		return min(rows, maxMatvecRows)
	}
	return rows
}

// inputGradientScratch lays out the gradient of the input of a layer, of some of the rows.
func inputGradientScratch(cut cut, t tensor.DType, rows, inner int) tensor.Tensor {
	return cut("gradient of the activation", t, min(rows, maxGateUpRows), inner)
}
