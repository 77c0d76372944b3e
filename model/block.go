package model

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// A block is one layer: attention and an MLP, each behind a norm, each adding to the residual stream.
//
//	mid = h   + O(Attention(RoPE(QKV(x1)))),  x1 = RMSNorm(h)
//	out = mid + Down(SwiGLU(GateUp(x2))),     x2 = RMSNorm(mid)
type block struct {
	norm1, norm2 pair // [dim]
	qkv          linear
	qNorm, kNorm pair // [headDim], of Qwen3; no tensors in the others
	o            linear
	gateUp, down linear

	below bool // something below this block is trained, so that its backward pass must go on to there
}

func newBlock(c Config, pairs map[string]pair, i int) block {
	at := func(name string) string { return fmt.Sprintf("model.layers.%d.%s", i, name) }
	b := block{
		norm1:  need(pairs, at("input_layernorm.weight")),
		norm2:  need(pairs, at("post_attention_layernorm.weight")),
		qkv:    newLinear(pairs, at("self_attn.q_proj")),
		o:      newLinear(pairs, at("self_attn.o_proj")),
		gateUp: newLinear(pairs, at("mlp.gate_proj")),
		down:   newLinear(pairs, at("mlp.down_proj")),
	}
	if c.QKNorm {
		b.qNorm, b.kNorm = need(pairs, at("self_attn.q_norm.weight")), need(pairs, at("self_attn.k_norm.weight"))
	}
	return b
}

func (b *block) attentionTrained() bool {
	return b.norm1.dw.Ok() || b.qkv.trained() || b.qNorm.dw.Ok() || b.kNorm.dw.Ok() || b.o.trained()
}

func (b *block) trained() bool {
	return b.attentionTrained() || b.norm2.dw.Ok() || b.gateUp.trained() || b.down.trained()
}

// acts are what a block's backward pass reads of its forward pass. Sizes are of rows tokens.
type acts struct {
	h tensor.Tensor // [rows, dim] the residual stream as it comes in
	attentionActs
	mlpActs
}

type attentionActs struct {
	rstd1 tensor.Tensor // [rows] F32
	x1    tensor.Tensor // [rows, dim]
	raw   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim] q, k, v before Qwen3's norms
	rstdQ tensor.Tensor // [rows, heads+kvHeads] F32 of those norms
	qkv   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim], q and k rotated
	lse   tensor.Tensor // [heads, rows] F32
	y     tensor.Tensor // [rows, heads·headDim] what attention gives
}

type mlpActs struct {
	mid    tensor.Tensor // [rows, dim] the residual stream between the halves
	rstd2  tensor.Tensor // [rows] F32
	x2     tensor.Tensor // [rows, dim]
	gateUp tensor.Tensor // [rows, 2·inner]
	act    tensor.Tensor // [rows, inner] SwiGLU
}

func (c Config) qkvDim() int { return (c.Heads + 2*c.KVHeads) * c.HeadDim }

func cutAttention(a *kernels.Arena, c Config, t tensor.DType, rows int) (s attentionActs) {
	s.rstd1 = a.New("rstd1", tensor.F32, rows)
	s.x1 = a.New("x1", t, rows, c.Dim)
	if c.QKNorm {
		s.raw = a.New("raw", t, rows, c.qkvDim())
		s.rstdQ = a.New("rstdQ", tensor.F32, rows, c.Heads+c.KVHeads)
	}
	s.qkv = a.New("qkv", t, rows, c.qkvDim())
	s.lse = a.New("lse", tensor.F32, c.Heads, rows)
	s.y = a.New("y", t, rows, c.Heads*c.HeadDim)
	return s
}

func cutMLP(a *kernels.Arena, c Config, t tensor.DType, rows int) (s mlpActs) {
	s.mid = a.New("mid", t, rows, c.Dim)
	s.rstd2 = a.New("rstd2", tensor.F32, rows)
	s.x2 = a.New("x2", t, rows, c.Dim)
	s.gateUp = a.New("gateUp", t, rows, 2*c.Inner)
	s.act = a.New("act", t, rows, c.Inner)
	return s
}

// forward computes a block from a.h, whose norm a.x1 is there already, and leaves its output as a sum: a.mid + t. Whoever
// comes next adds them, together with the norm that it begins with.
func (m *Llama) blockForward(b *block, a *acts, p placed, t tensor.Tensor) {
	m.attentionForward(b, &a.attentionActs, p)
	m.mlpForward(b, a, t)
	b.down.forward(m.d, t, a.act)
}

func (m *Llama) attentionForward(b *block, a *attentionActs, p placed) {
	d, c := m.d, m.c
	if c.QKNorm {
		b.qkv.forward(d, a.raw, a.x1)
		d.QKNorm(a.qkv, a.rstdQ, a.raw, b.qNorm.w, b.kNorm.w, c.Heads, c.KVHeads, c.NormEps)
	} else {
		b.qkv.forward(d, a.qkv, a.x1)
	}
	d.RoPE(a.qkv, p.positions, m.rope.cos, m.rope.sin, c.Heads, c.KVHeads)
	d.Attention(a.y, a.lse, a.qkv, m.mask(p.starts))
}

// mlpForward goes from what attention gives to what the MLP's last product reads. t is scratch.
func (m *Llama) mlpForward(b *block, a *acts, t tensor.Tensor) {
	d := m.d
	b.o.forward(d, t, a.y)
	d.AddRMSNorm(a.x2, a.rstd2, a.mid, a.h, t, b.norm2.w, m.c.NormEps)
	b.gateUp.forward(d, a.gateUp, a.x2)
	d.SwiGLU(a.act, a.gateUp)
}

// grads are where the backward pass of every block has its gradients of activations.
type grads struct {
	dx      tensor.Tensor // [rows, dim] of x1 and x2
	dqkv    tensor.Tensor
	dy      tensor.Tensor // [rows, heads·headDim]
	dgateUp tensor.Tensor
	dact    tensor.Tensor
}

func cutGrads(a *kernels.Arena, c Config, t tensor.DType, rows int) (g grads) {
	g.dx = a.New("dx", t, rows, c.Dim)
	mark := a.Mark() // the two halves are never at work at once
	g.dgateUp = a.New("dgateUp", t, rows, 2*c.Inner)
	g.dact = a.New("dact", t, rows, c.Inner)
	end := a.Mark()
	a.Release(mark)
	g.dqkv = a.New("dqkv", t, rows, c.qkvDim())
	g.dy = a.New("dy", t, rows, c.Heads*c.HeadDim)
	if end > a.Mark() {
		a.Release(mark)
		a.New("the larger half", tensor.U8, end-mark)
	}
	return g
}

// blockBackward takes in dh the gradient of the block's output and leaves there the one of its input.
func (m *Llama) blockBackward(b *block, a *acts, p placed, dh tensor.Tensor, g grads) {
	below := b.below || b.attentionTrained()
	m.mlpBackward(b, a, dh, g, below)
	if below {
		m.attentionBackward(b, a, p, dh, g)
	}
}

func (m *Llama) mlpBackward(b *block, a *acts, dh tensor.Tensor, g grads, below bool) {
	d := m.d
	b.down.backward(d, g.dact, dh, a.act)
	d.SwiGLUBackward(g.dgateUp, g.dact, a.gateUp)
	if !below && !b.norm2.dw.Ok() {
		b.gateUp.backward(d, tensor.Tensor{}, g.dgateUp, a.x2)
		return
	}
	b.gateUp.backward(d, g.dx, g.dgateUp, a.x2)
	d.AddRMSNormBackward(dh, b.norm2.dw, g.dx, a.mid, b.norm2.w, a.rstd2)
}

func (m *Llama) attentionBackward(b *block, a *acts, p placed, dh tensor.Tensor, g grads) {
	d, c := m.d, m.c
	b.o.backward(d, g.dy, dh, a.y)
	d.AttentionBackward(g.dqkv, g.dy, a.y, a.lse, a.qkv, m.mask(p.starts))
	d.RoPEBackward(g.dqkv, p.positions, m.rope.cos, m.rope.sin, c.Heads, c.KVHeads)
	if c.QKNorm {
		// In place: a head's gradient is read whole before it is written.
		d.QKNormBackward(g.dqkv, b.qNorm.dw, b.kNorm.dw, g.dqkv, a.raw, b.qNorm.w, b.kNorm.w, a.rstdQ, c.Heads, c.KVHeads)
	}
	if !b.below && !b.norm1.dw.Ok() {
		b.qkv.backward(d, tensor.Tensor{}, g.dqkv, a.x1)
		return
	}
	b.qkv.backward(d, g.dx, g.dqkv, a.x1)
	d.AddRMSNormBackward(dh, b.norm1.dw, g.dx, a.h, b.norm1.w, a.rstd1)
}

func (m *Llama) mask(starts []int32) kernels.Mask {
	return kernels.Mask{CuSeqlens: starts, Heads: m.c.Heads, KVHeads: m.c.KVHeads, HeadDim: m.c.HeadDim, Window: m.c.Window}
}
