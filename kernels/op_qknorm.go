package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// QKNorm applies RMSNorm to every head of q and k, as Qwen3 does before RoPE, and copies v. For each row and each of
// its heads, q with wq and k with wk:
//
//	rstd[r,h] = 1 / √(Σᵢ x[r,h,i]² / headDim + eps)
//	y[r,h,i] = x[r,h,i] · rstd[r,h] · w[i]
//
// y and qkv are [rows, (heads + 2·kvHeads) · headDim], wq and wk are [headDim], all of one type; rstd is
// [rows, heads + kvHeads] F32, kept for the backward pass. y may be qkv.
func (d *Device) QKNorm(y, rstd, qkv, wq, wk tensor.Tensor, heads, kvHeads int, eps float32) {
	checkQKNorm("QKNorm", "y", y, rstd, qkv, wq, wk, heads, kvHeads)
	d.ran("qknorm")
	if d.gpu != nil {
		m, g := normForward(perHead(y, wq), wq)
		d.launch(kernel{"op_qknorm.cu", "qknorm", m}, g, addr(y), addr(rstd), addr(qkv), addr(wq), addr(wk),
			i32(y.Rows()), i32(heads), i32(kvHeads), f32(eps))
		return
	}
	cpu.QKNorm(y, rstd, qkv, wq, wk, heads, kvHeads, eps)
}

// QKNormBackward computes the gradient of QKNorm: RMSNorm's for every head of q and k, and dy itself for v. dqkv and dy
// have qkv's shape and type. dwq and dwk, which accumulate over all rows and heads, are [headDim] F32, or the zero
// Tensor if that weight is frozen. dqkv may be dy.
func (d *Device) QKNormBackward(dqkv, dwq, dwk, dy, qkv, wq, wk, rstd tensor.Tensor, heads, kvHeads int) {
	const op = "QKNormBackward"
	checkQKNorm(op, "dqkv", dqkv, rstd, qkv, wq, wk, heads, kvHeads)
	want(op, "dy", dy, qkv.DType, qkv.Len())
	defer d.release(d.mark())
	var partials tensor.Tensor
	if dwq.Ok() {
		want(op, "dwq", dwq, tensor.F32, wq.Len())
	}
	if dwk.Ok() {
		want(op, "dwk", dwk, tensor.F32, wk.Len())
	}
	d.ran("qknorm_backward")
	if d.gpu != nil {
		m, g := d.normBackwardGrid(perHead(dqkv, wq), wq)
		if dwq.Ok() || dwk.Ok() {
			partials = normScratch(d.scratch, g.blocks.X, 2*wq.Len())
		}
		d.launch(kernel{"op_qknorm.cu", "qknorm_backward", m}, g, addr(dqkv), addr(partials), addr(dy), addr(qkv), addr(wq),
			addr(wk),
			addr(rstd), i32(dqkv.Rows()), i32(heads), i32(kvHeads))
		d.addPartials(partials, dwq, dwk)
		return
	}
	if dwq.Ok() || dwk.Ok() {
		partials = normScratch(d.scratch, cpu.NormPartials(dqkv.Rows(), dqkv.Dim(-1)), 2*wq.Len())
	}
	cpu.QKNormBackward(dqkv, dwq, dwk, dy, qkv, wq, wk, rstd, partials, heads, kvHeads)
}

// perHead returns qkv as a matrix with a row for each head.
func perHead(qkv, w tensor.Tensor) tensor.Tensor { return qkv.View(qkv.Len()/w.Len(), w.Len()) }

func checkQKNorm(op, name string, y, rstd, qkv, wq, wk tensor.Tensor, heads, kvHeads int) {
	floating(op, name, y)
	headDim := headSize(op, name, y, heads, kvHeads)
	want(op, "qkv", qkv, y.DType, y.Len())
	want(op, "wq", wq, y.DType, headDim)
	want(op, "wk", wk, y.DType, headDim)
	want(op, "rstd", rstd, tensor.F32, y.Rows(), heads+kvHeads)
}
