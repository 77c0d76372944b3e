package kernels

import (
	"fmt"
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AttentionSpec is what attends to what: a query to the keys of its own sequence up to its own position, unless it says otherwise.
type AttentionSpec struct {
	// CuSeqlens is where sequences that lie end to end begin: n+1 offsets for n of them, from 0 to the number of rows, on
	// the host. A sequence may be empty.
	CuSeqlens []int32
	// Offsets is CuSeqlens on the device, I32 [n+1]. Only a GPU looks at it.
	Offsets tensor.Tensor
	// Query head h reads key and value head h / (Heads / KVHeads).
	Heads, KVHeads, HeadDim int
	// Window is how many keys a query sees at most, the last ones, itself counted (Beltagy et al. 2020). 0: all.
	Window int
	// Bidirectional has a query see the keys behind its position too. It goes with no Window.
	Bidirectional bool
}

// Width is the number of columns of qkv: its query heads, then those of keys, then those of values.
func (s AttentionSpec) Width() int { return (s.Heads + 2*s.KVHeads) * s.HeadDim }

// widestWindow is wider than any sequence, and yet 32 bits are enough for what is counted from its ends.
const widestWindow = 1 << 30

// checked is s with a window that is no wider than that. It panics with the operation's name unless the sizes fit each other.
func (s AttentionSpec) checked(op string) AttentionSpec {
	if s.Heads < 1 || s.KVHeads < 1 || s.Heads%s.KVHeads != 0 || s.HeadDim < 2 || s.HeadDim%2 != 0 ||
		s.Window < 0 || s.Bidirectional && s.Window > 0 {
		panic(fmt.Sprintf("%s: %d heads, %d key/value heads, head dimension %d, window %d, bidirectional %t", op, s.Heads, s.KVHeads, s.HeadDim, s.Window, s.Bidirectional))
	}
	s.Window = min(s.Window, widestWindow)
	return s
}

// checkSequences panics with the operation's name unless the sequences make up all rows, and are known where they have to be.
func (d *Device) checkSequences(op string, s AttentionSpec, rows int) {
	n := len(s.CuSeqlens)
	if n == 0 || s.CuSeqlens[0] != 0 || int(s.CuSeqlens[n-1]) != rows || !slices.IsSorted(s.CuSeqlens) {
		panic(fmt.Sprintf("%s: sequences %v of %d rows", op, s.CuSeqlens, rows))
	}
	if d.gpu != nil {
		want(op, "offsets", s.Offsets, tensor.I32, n)
	}
}

// Attention is attention within each of several sequences that lie end to end, qkv [rows, (heads+2·kvHeads)·headDim]
// with its positions rotated in:
//
//	s[i,j] = q[i]·k[j] / √headDim         for the j that i sees
//	y[i]   = Σⱼ exp(s[i,j] - lse[i]) v[j],  lse[i] = log Σⱼ exp(s[i,j])
//
// y is [rows, heads·headDim], of the same type, and lse [heads, rows] in F32: the backward pass needs it.
//
// Fused ("attention") it is one kernel, an online softmax over blocks of keys (Dao et al. 2022): of the scores only a block
// at a time exists. Unfused, for each sequence: scores, softmax, values; the scores lie in scratch memory, [heads, len, len]
// in F32, and the weights in the type of qkv. Either way scores and softmax are in float32, and in BF16 the weights are
// rounded before they meet the values where the CPU has dot products of bfloat16.
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

// attentionScratch lays out the working memory of a fused kernel, which says how much it needs, and returns its address.
func attentionScratch(cut cut, bytes int) uintptr { return cut("attention", tensor.U8, bytes).Addr }

// sizes is the arguments without operands: enough to say how much working memory they need.
func (s AttentionSpec) sizes() cpu.AttentionArgs {
	return cpu.AttentionArgs{
		CuSeqlens: s.CuSeqlens, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Causal: !s.Bidirectional, Window: s.Window,
	}
}

// args has queries, keys and values lie side by side in qkv.
func (s AttentionSpec) args(qkv, y, lse tensor.Tensor) cpu.AttentionArgs {
	a := s.sizes()
	a.Q, a.K, a.V = s.parts(qkv)
	a.Y, a.LSE = s.columns(y, 0, s.Heads), lse.Addr
	return a
}

// parts is where queries, keys and values lie.
func (s AttentionSpec) parts(qkv tensor.Tensor) (q, k, v tensor.Matrix) {
	qkv = qkv.View(qkv.Rows(), s.Width())
	return s.columns(qkv, 0, s.Heads), s.columns(qkv, s.Heads, s.KVHeads), s.columns(qkv, s.Heads+s.KVHeads, s.KVHeads)
}

// columns are those of n heads from head h on.
func (s AttentionSpec) columns(x tensor.Tensor, h, n int) tensor.Matrix {
	return x.Columns(h*s.HeadDim, (h+n)*s.HeadDim)
}

// AttentionBackward is the gradient of Attention by its queries, keys and values, all of dqkv:
//
//	p[i,j]  = exp(s[i,j] - lse[i])
//	dv[j]   = Σᵢ p[i,j] dy[i]
//	ds[i,j] = p[i,j] (dy[i]·v[j] - dy[i]·y[i])
//	dq[i]   = Σⱼ ds[i,j] k[j] / √headDim,  dk[j] = Σᵢ ds[i,j] q[i] / √headDim
//
// The sums for k and v go over the query heads that share them too. dy, y and dqkv are of the type of qkv.
//
// Fused ("attention") it is one kernel that computes the scores again, block by block. Unfused, for each sequence: scores,
// weights, gradients of values, weights, scores, queries and keys, each over all heads and in scratch memory.
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
