package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// attention is a block's first half:
//
//	h += O(Attention(RoPE(QKV(RMSNorm(h)))))
type attention struct {
	norm norm
	qkv  linear
	// RMSNorms over each head of q and of k, [headDim], of Qwen3; no tensors in the others.
	qNorm, kNorm weight
	rotary       rotary
	o            linear

	c     Config
	layer int // whose keys and values a cache holds
}

func newAttention(c Config, b *builder) attention {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := attention{c: c, layer: b.block, rotary: rotary{c.Heads, c.KVHeads}}
	a.norm = norm{b.norm("input_layernorm", c.Dim), c.NormEps}
	a.qkv = b.linear(c.Dim, c.QKVBias, rows{"self_attn.q_proj", q}, rows{"self_attn.k_proj", kv}, rows{"self_attn.v_proj", kv})
	if c.QKNorm {
		a.qNorm = b.norm("self_attn.q_norm", c.HeadDim)
		a.kNorm = b.norm("self_attn.k_norm", c.HeadDim)
	}
	a.o = b.linear(q, c.OutBias, rows{"self_attn.o_proj", c.Dim})
	return a
}

// attentionActs are what the backward pass reads of the forward pass.
type attentionActs struct {
	normActs
	raw   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim] q, k, v before Qwen3's norms
	rstdQ tensor.Tensor // [rows, heads+kvHeads] F32 of those norms
	qkv   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim], q and k rotated
	lse   tensor.Tensor // [heads, rows] F32
	y     tensor.Tensor // [rows, heads·headDim] what attention gives
}

func (c Config) qkvDim() int { return (c.Heads + 2*c.KVHeads) * c.HeadDim }

// cutAttention lays out all of them but the residual stream.
func cutAttention(a *kernels.Arena, c Config, t tensor.DType, rows int) (s attentionActs) {
	s.rstd = a.New("rstd1", tensor.F32, rows)
	s.x = a.New("x1", t, rows, c.Dim)
	if c.QKNorm {
		s.raw = a.New("raw", t, rows, c.qkvDim())
		s.rstdQ = a.New("rstdQ", tensor.F32, rows, c.Heads+c.KVHeads)
	}
	s.qkv = a.New("qkv", t, rows, c.qkvDim())
	s.lse = a.New("lse", tensor.F32, c.Heads, rows)
	s.y = a.New("y", t, rows, c.Heads*c.HeadDim)
	return s
}

func (l *attention) forward(p *pass, a *attentionActs, s stream) stream {
	l.attend(p, a, s)
	l.o.forward(p.d, p.branch, a.y)
	return stream{a.h, p.branch}
}

// attend is all of forward but its last product, which nothing in the backward pass needs.
func (l *attention) attend(p *pass, a *attentionActs, s stream) {
	d, c := p.d, l.c
	l.norm.forward(d, a.normActs, s)
	if c.QKNorm {
		l.qkv.forward(d, a.raw, a.x)
		d.QKNorm(a.qkv, a.rstdQ, a.raw, l.qNorm.w, l.kNorm.w, c.Heads, c.KVHeads, c.NormEps)
	} else {
		l.qkv.forward(d, a.qkv, a.x)
	}
	l.rotary.forward(p, a.qkv)
	if cache := p.cache; cache != nil {
		k, v := cache.k[l.layer], cache.v[l.layer]
		d.AppendKV(k, v, a.qkv, c.Heads, c.KVHeads, cache.n)
		d.AttentionCached(a.y, a.qkv, k, v, cache.n, c.spec())
		return
	}
	d.Attention(a.y, a.lse, a.qkv, p.spec(c))
}

// backward takes in p.dh the gradient of the half's output and leaves there that of its input, if below says that it is wanted.
func (l *attention) backward(p *pass, a *attentionActs, below bool) {
	d, c, g := p.d, l.c, p.grads
	l.o.backward(d, g.dy, false, p.dh, a.y, p.overwrite)
	d.AttentionBackward(g.dqkv, g.dy, a.y, a.lse, a.qkv, p.spec(c))
	l.rotary.backward(p, g.dqkv)
	if c.QKNorm {
		l.qNorm.begin(d, p.overwrite)
		l.kNorm.begin(d, p.overwrite)
		// In place: a head's gradient is read whole before it is written.
		d.QKNormBackward(g.dqkv, l.qNorm.whole(), l.kNorm.whole(), g.dqkv, a.raw, l.qNorm.w, l.kNorm.w, a.rstdQ, c.Heads, c.KVHeads)
	}
	l.norm.backwardThrough(p, l.qkv, g.dqkv, a.normActs, below)
}

func (l *attention) trained() bool {
	return l.norm.trained() || l.qkv.trained() || l.qNorm.trained() || l.kNorm.trained() || l.o.trained()
}

// flops is linear.flops for the half, whose attention takes two operations for each pair of positions in a context of this
// length forward, and four backward.
func (l *attention) flops(below bool, context float64) float64 {
	below = below || l.norm.trained()
	n := l.qkv.flops(below)
	below = below || l.qkv.trained() || l.qNorm.trained() || l.kNorm.trained()
	pairs := float64(l.c.Heads*l.c.HeadDim) * context
	n += l.o.flops(below) + 2*pairs
	if below {
		n += 4 * pairs
	}
	return n
}

// spec is what attends to what, but for the sequences.
func (c Config) spec() kernels.AttentionSpec {
	return kernels.AttentionSpec{Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Window: c.Window}
}

// spec is what attends to what in a pass.
func (p *pass) spec(c Config) kernels.AttentionSpec {
	s := c.spec()
	s.CuSeqlens, s.Offsets = p.starts, p.offsets
	return s
}
