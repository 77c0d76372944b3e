package kernels

import (
	"fmt"
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AttentionSpec says which keys each query attends to: the keys of its own sequence up to its own position, unless
// Window or Bidirectional changes that.
type AttentionSpec struct {
	// CuSeqlens holds the offsets of sequences laid end to end, on the host: n+1 offsets for n sequences, from 0 to the
	// number of rows. A sequence may be empty.
	CuSeqlens []int32
	// Offsets is CuSeqlens on the device, I32 [n+1]. Only a GPU uses it.
	Offsets tensor.Tensor
	// Query head h reads key and value head h / (Heads / KVHeads).
	Heads, KVHeads, HeadDim int
	// Window is the maximum number of keys that a query sees: the last ones, including its own (Beltagy et al. 2020). 0:
	// all.
	Window int
	// Divisor divides the products of queries and keys. 0: √HeadDim.
	Divisor float64
	// Bidirectional lets a query also see the keys after its position. It cannot be combined with Window.
	Bidirectional bool
}

// Width returns the number of columns of qkv: the query heads, then the key heads, then the value heads.
func (s AttentionSpec) Width() int { return (s.Heads + 2*s.KVHeads) * s.HeadDim }

// widestWindow is wider than any sequence, yet small enough that distances from its ends fit 32 bits.
const widestWindow = 1 << 30

// checked returns s with a window of at most widestWindow. It panics with the operation's name unless the sizes fit
// each other.
func (s AttentionSpec) checked(op string) AttentionSpec {
	if s.Heads < 1 || s.KVHeads < 1 || s.Heads%s.KVHeads != 0 || s.HeadDim < 1 ||
		s.Window < 0 || !(s.divisor() > 0) || s.Bidirectional && s.Window > 0 {
		panic(fmt.Sprintf("%s: %d heads, %d key/value heads, head dimension %d, window %d, bidirectional %t", op, s.Heads,
			s.KVHeads, s.HeadDim, s.Window, s.Bidirectional))
	}
	s.Window = min(s.Window, widestWindow)
	return s
}

// checkSequences panics with the operation's name unless the sequences make up all rows, and Offsets is given if the
// device needs it.
func (d *Device) checkSequences(op string, s AttentionSpec, rows int) {
	n := len(s.CuSeqlens)
	if n == 0 || s.CuSeqlens[0] != 0 || int(s.CuSeqlens[n-1]) != rows || !slices.IsSorted(s.CuSeqlens) {
		panic(fmt.Sprintf("%s: sequences %v of %d rows", op, s.CuSeqlens, rows))
	}
	if d.gpu != nil {
		want(op, "offsets", s.Offsets, tensor.I32, n)
	}
}

// Attention computes attention within each of several sequences that are laid end to end in qkv [rows,
// (heads+2·kvHeads)·headDim]. RoPE has been applied to qkv already.
//
//	s[i,j] = q[i]·k[j] / divisor          for the j that i sees
//	y[i]   = Σⱼ exp(s[i,j] - lse[i]) v[j],  lse[i] = log Σⱼ exp(s[i,j])
//
// A key with the score -∞ has weight 0. In a row with a NaN or an infinite largest score, y is NaN. Scores may be as
// large as F32 allows; if they are over 10⁷, only y and lse are accurate, and gradients are merely finite.
//
// y is [rows, heads·headDim] of the same type. lse is [heads, rows] F32, kept for the backward pass.
//
// Fused ("attention") it is one kernel, an online softmax over key blocks (Dao et al. 2022): only one key block of the
// scores exists at a time. Unfused, for each sequence: scores, softmax, values. The scores are in scratch memory,
// [heads, len, len] F32, and so are the weights, in the type of qkv. Either way scores and softmax are in float32. In
// BF16 the weights are rounded before they are multiplied by the values, if the CPU has bfloat16 dot products.
func (d *Device) Attention(y, lse, qkv tensor.Tensor, s AttentionSpec) {
	s = s.checked("Attention")
	floating("Attention", "qkv", qkv)
	rows := qkv.Rows()
	d.checkSequences("Attention", s, rows)
	want("Attention", "qkv", qkv, qkv.DType, rows, s.Width())
	want("Attention", "y", y, qkv.DType, rows, s.Heads*s.HeadDim)
	want("Attention", "lse", lse, tensor.F32, s.Heads, rows)
	if !d.fused("attention") {
		d.attentionEager(y, lse, qkv, s)
		return
	}
	d.ran("attention")
	if d.gpu != nil {
		_, k, v := s.parts(qkv)
		d.attentionGPU(y, lse, qkv, k, v, 0, s)
		return
	}
	a := s.args(qkv, y, lse)
	defer d.release(d.mark())
	a.Forward(attentionScratch(d.scratch, a.ForwardScratch()))
}

// attentionScratch lays out the scratch memory of a fused kernel, which says how many bytes it needs, and returns its
// address.
func attentionScratch(cut cut, bytes int) uintptr { return cut("attention", tensor.U8, bytes).Addr }

// sizes returns the arguments without operands: enough to tell how much scratch memory they need.
func (s AttentionSpec) sizes() cpu.AttentionArgs {
	return cpu.AttentionArgs{
		CuSeqlens: s.CuSeqlens, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Causal: !s.Bidirectional,
		Window: s.Window, Divisor: s.divisor(),
	}
}

// args returns the arguments for queries, keys and values next to each other in qkv.
func (s AttentionSpec) args(qkv, y, lse tensor.Tensor) cpu.AttentionArgs {
	a := s.sizes()
	a.Q, a.K, a.V = s.parts(qkv)
	a.Y, a.LSE = s.columns(y, 0, s.Heads), lse.Addr
	return a
}

// parts returns the queries, keys and values of qkv.
func (s AttentionSpec) parts(qkv tensor.Tensor) (q, k, v tensor.Matrix) {
	qkv = qkv.View(qkv.Rows(), s.Width())
	return s.columns(qkv, 0, s.Heads), s.columns(qkv, s.Heads, s.KVHeads), s.columns(qkv, s.Heads+s.KVHeads, s.KVHeads)
}

// columns returns the columns of n heads from head h on.
func (s AttentionSpec) columns(x tensor.Tensor, h, n int) tensor.Matrix {
	return x.Columns(h*s.HeadDim, (h+n)*s.HeadDim)
}

// AttentionBackward computes the gradients of Attention with respect to its queries, keys and values, which together
// make up dqkv:
//
//	p[i,j]  = exp(s[i,j] - lse[i])
//	dv[j]   = Σᵢ p[i,j] dy[i]
//	ds[i,j] = p[i,j] (dy[i]·v[j] - dy[i]·y[i])
//	dq[i]   = Σⱼ ds[i,j] k[j] / divisor,  dk[j] = Σᵢ ds[i,j] q[i] / divisor
//
// The sums for k and v also run over the query heads that share them. dy, y and dqkv have the type of qkv.
//
// Fused ("attention") it is one kernel that recomputes the scores one query or key block at a time. Unfused, for each
// sequence: scores, weights, gradients of values, weights, scores, queries and keys, each over all heads and in scratch
// memory.
func (d *Device) AttentionBackward(dqkv, dy, y, lse, qkv tensor.Tensor, s AttentionSpec) {
	s = s.checked("AttentionBackward")
	floating("AttentionBackward", "qkv", qkv)
	rows := qkv.Rows()
	d.checkSequences("AttentionBackward", s, rows)
	want("AttentionBackward", "qkv", qkv, qkv.DType, rows, s.Width())
	want("AttentionBackward", "dqkv", dqkv, qkv.DType, rows, s.Width())
	want("AttentionBackward", "dy", dy, qkv.DType, rows, s.Heads*s.HeadDim)
	want("AttentionBackward", "y", y, qkv.DType, rows, s.Heads*s.HeadDim)
	want("AttentionBackward", "lse", lse, tensor.F32, s.Heads, rows)
	if !d.fused("attention") {
		d.attentionEagerBackward(dqkv, dy, y, lse, qkv, s)
		return
	}
	d.ran("attention_backward")
	if d.gpu != nil {
		d.attentionBackwardGPU(dqkv, dy, y, lse, qkv, s)
		return
	}
	a := s.args(qkv, y, lse)
	a.DQ, a.DK, a.DV = s.parts(dqkv)
	a.DY = s.columns(dy, 0, s.Heads)
	defer d.release(d.mark())
	a.Backward(attentionScratch(d.scratch, a.BackwardScratch()))
}
