package kernels

import (
	"fmt"
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Mask says which keys each query sees: of its own sequence, those at or before it, and of these the last Window.
type Mask struct {
	// CuSeqlens is where sequences that lie end to end begin: n+1 offsets for n of them, from 0 to the number of rows, on
	// the host. A sequence may be empty.
	CuSeqlens []int32
	// Query head h reads key and value head h / (Heads / KVHeads).
	Heads, KVHeads, HeadDim int
	// Window is how many keys a query sees at most, itself counted. 0: all.
	Window int
}

// width is the number of columns of qkv.
func (m Mask) width() int { return (m.Heads + 2*m.KVHeads) * m.HeadDim }

// check panics with the operation's name unless the sizes fit each other.
func (m Mask) check(op string) {
	if m.Heads < 1 || m.KVHeads < 1 || m.Heads%m.KVHeads != 0 || m.HeadDim < 2 || m.HeadDim%2 != 0 || m.Window < 0 {
		panic(fmt.Sprintf("%s: %d heads, %d key/value heads, head dimension %d, window %d", op, m.Heads, m.KVHeads, m.HeadDim, m.Window))
	}
}

// checkRows panics with the operation's name unless the sequences make up all rows.
func (m Mask) checkRows(op string, rows int) {
	n := len(m.CuSeqlens)
	if n == 0 || m.CuSeqlens[0] != 0 || int(m.CuSeqlens[n-1]) != rows || !slices.IsSorted(m.CuSeqlens) {
		panic(fmt.Sprintf("%s: sequences %v of %d rows", op, m.CuSeqlens, rows))
	}
}

// Attention is causal attention within each of several sequences that lie end to end, qkv [rows, (heads+2·kvHeads)·headDim]
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
func (d *Device) Attention(y, lse, qkv tensor.Tensor, m Mask) {
	d.onlyCPU("Attention")
	m.check("Attention")
	floating("Attention", "qkv", qkv)
	rows := qkv.Rows()
	m.checkRows("Attention", rows)
	want("Attention", "qkv", qkv, qkv.DType, rows, m.width())
	want("Attention", "y", y, qkv.DType, rows, m.Heads*m.HeadDim)
	want("Attention", "lse", lse, tensor.F32, m.Heads, rows)
	if !d.fused("attention") {
		d.attentionEager(y, lse, qkv, m)
		return
	}
	d.ran("attention")
	a := m.args(qkv, y, lse)
	defer d.release(d.mark())
	a.Forward(attentionScratch(d.scratch, a.ForwardSpace()))
}

// attentionScratch lays out the working memory of a fused kernel, which says how much it needs, and returns its address.
func attentionScratch(cut cut, bytes int) uintptr { return cut("attention", tensor.U8, bytes).Addr }

// args has queries, keys and values lie side by side in qkv.
func (m Mask) args(qkv, y, lse tensor.Tensor) cpu.AttentionArgs {
	a := cpu.AttentionArgs{
		Y: cpu.Operand{Addr: y.Addr, Stride: m.Heads * m.HeadDim}, LSE: lse.Addr, CuSeqlens: m.CuSeqlens,
		Heads: m.Heads, KVHeads: m.KVHeads, HeadDim: m.HeadDim, Window: m.Window, BF16: qkv.DType == tensor.BF16,
	}
	a.Q, a.K, a.V = m.parts(qkv)
	return a
}

// parts is where queries, keys and values lie.
func (m Mask) parts(qkv tensor.Tensor) (q, k, v cpu.Operand) {
	at := func(head int) cpu.Operand {
		return cpu.Operand{Addr: qkv.Addr + uintptr(head*m.HeadDim*qkv.DType.Size()), Stride: m.width()}
	}
	return at(0), at(m.Heads), at(m.Heads + m.KVHeads)
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
func (d *Device) AttentionBackward(dqkv, dy, y, lse, qkv tensor.Tensor, m Mask) {
	d.onlyCPU("AttentionBackward")
	m.check("AttentionBackward")
	floating("AttentionBackward", "qkv", qkv)
	rows := qkv.Rows()
	m.checkRows("AttentionBackward", rows)
	want("AttentionBackward", "qkv", qkv, qkv.DType, rows, m.width())
	want("AttentionBackward", "dqkv", dqkv, qkv.DType, rows, m.width())
	want("AttentionBackward", "dy", dy, qkv.DType, rows, m.Heads*m.HeadDim)
	want("AttentionBackward", "y", y, qkv.DType, rows, m.Heads*m.HeadDim)
	want("AttentionBackward", "lse", lse, tensor.F32, m.Heads, rows)
	if !d.fused("attention") {
		d.attentionEagerBackward(dqkv, dy, y, lse, qkv, m)
		return
	}
	d.ran("attention_backward")
	a := m.args(qkv, y, lse)
	a.DQ, a.DK, a.DV = m.parts(dqkv)
	a.DY = cpu.Operand{Addr: dy.Addr, Stride: m.Heads * m.HeadDim}
	defer d.release(d.mark())
	a.Backward(attentionScratch(d.scratch, a.BackwardSpace()))
}
