package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// RoPE rotates the heads of q and k by their positions (Su et al. 2021), in place. Element i of a head and element i +
// headDim/2 are a pair, as in Hugging Face's layout; with p = positions[r], c = cos[p,i] and s = sin[p,i]:
//
//	x[i]             ← x[i] · c − x[i + headDim/2] · s
//	x[i + headDim/2] ← x[i + headDim/2] · c + x[i] · s
//
// qkv is [rows, (heads + 2·kvHeads) · headDim]; v stays as it is. positions is [rows] I32; cos and sin are [positions,
// headDim/2] F32. A position without a row in cos and sin is a programming error.
func (d *Device) RoPE(qkv, positions, cos, sin tensor.Tensor, heads, kvHeads int) {
	d.checkRoPE("RoPE", qkv, positions, cos, sin, heads, kvHeads)
	d.ran("rope")
	d.rope(qkv, positions, cos, sin, heads, kvHeads, false)
}

// RoPEBackward computes the gradient of RoPE, in place: the reverse rotation, which is RoPE with −sin.
func (d *Device) RoPEBackward(dqkv, positions, cos, sin tensor.Tensor, heads, kvHeads int) {
	d.checkRoPE("RoPEBackward", dqkv, positions, cos, sin, heads, kvHeads)
	d.ran("rope_backward")
	d.rope(dqkv, positions, cos, sin, heads, kvHeads, true)
}

func (d *Device) rope(qkv, positions, cos, sin tensor.Tensor, heads, kvHeads int, back bool) {
	if d.gpu == nil {
		cpu.RoPE(qkv, positions, cos, sin, heads, kvHeads, back)
		return
	}
	// the first halves of all heads
	half := tensor.Matrix{Rows: qkv.Rows() * (heads + kvHeads), Cols: cos.Dim(-1), DType: qkv.DType}
	angles := min(cos.Bytes(), qkv.Rows()*cos.Dim(-1)*cos.DType.Size())
	d.launch(kernel{"op_rope.cu", "rope", rowsOf(half)}, each(vectors(half)),
		addr(qkv).moves(2*2*half.Rows*half.Cols*half.DType.Size()), addr(positions), addr(cos).moves(angles),
		addr(sin).moves(angles), i32(qkv.Rows()), i32(heads+kvHeads), i32(qkv.Dim(-1)/width(half.DType, half.Cols)),
		flag(back))
}

func (d *Device) checkRoPE(op string, qkv, positions, cos, sin tensor.Tensor, heads, kvHeads int) {
	floating(op, "qkv", qkv)
	headDim := headSize(op, "qkv", qkv, heads, kvHeads)
	if headDim%2 != 0 {
		panic(fmt.Sprintf("%s: head dimension %d: must be even", op, headDim))
	}
	want(op, "positions", positions, tensor.I32, qkv.Rows())
	want(op, "cos", cos, tensor.F32, cos.Len())
	want(op, "sin", sin, tensor.F32, cos.Len())
	if cos.Dim(-1) != headDim/2 {
		panic(fmt.Sprintf("%s: cos is %v: must be [positions, %d]", op, cos, headDim/2))
	}
	d.within(op, "positions", positions, cos.Rows())
}

// headSize returns the number of elements of a head, for rows that hold the heads of q, k and v.
func headSize(op, name string, qkv tensor.Tensor, heads, kvHeads int) int {
	n := heads + 2*kvHeads
	if heads < 1 || kvHeads < 1 || qkv.Dim(-1)%n != 0 {
		panic(fmt.Sprintf("%s: %s is %v: its rows cannot hold %d heads, %d key heads and as many value heads", op, name, qkv,
			heads, kvHeads))
	}
	return qkv.Dim(-1) / n
}
