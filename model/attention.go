package model

import (
	"cmp"
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

// attention is the first half of a layer:
//
//	h += O(Attention(RoPE(QKV(Norm(h)))))
//
// With learned positions there is no RoPE.
type attention struct {
	norm norm
	qkv  linear
	// The weights of the RMSNorms over each head of q and of k, [headDim] (Qwen3). Other families have zero tensors here.
	qNorm, kNorm weight
	rotary       *rotary // nil if positions are learned
	o            linear

	cfg   Config
	layer int // index of the layer's keys and values in a KVCache
}

func newAttention(cfg Config, b *builder) attention {
	q, kv := cfg.Heads*cfg.HeadDim, cfg.KVHeads*cfg.HeadDim
	names := cfg.names()
	a := attention{cfg: cfg, layer: b.layer}
	if !cfg.LearnedPositions {
		a.rotary = &rotary{cfg.Heads, cfg.KVHeads}
	}
	a.norm = b.norm(cfg, names.norm1)
	a.qkv = b.linear(cfg.Dim, cfg.QKVBias, split(names.qkv, q, kv, kv)...)
	if cfg.QKNorm {
		a.qNorm = b.scale("self_attn.q_norm", cfg.HeadDim)
		a.kNorm = b.scale("self_attn.k_norm", cfg.HeadDim)
	}
	a.o = b.linear(q, cfg.OutBias, rows{names.o, cfg.Dim})
	return a
}

// attentionActs holds the activations that the backward pass needs.
type attentionActs struct {
	normActs
	raw   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim] q, k, v before Qwen3's norms
	rstdQ tensor.Tensor // [rows, heads+kvHeads] F32, 1/RMS of those norms
	qkv   tensor.Tensor // [rows, (heads+2·kvHeads)·headDim], q and k rotated
	lse   tensor.Tensor // [heads, rows] F32
	y     tensor.Tensor // [rows, heads·headDim], output of the attention
}

func (c Config) qkvDim() int { return (c.Heads + 2*c.KVHeads) * c.HeadDim }

// allocAttention allocates all of attentionActs except h, the residual stream.
func allocAttention(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) (acts attentionActs) {
	acts.normActs = allocNorm(arena, cfg, t, rows, "1")
	if cfg.QKNorm {
		acts.raw = arena.New("raw", t, rows, cfg.qkvDim())
		acts.rstdQ = arena.New("rstdQ", tensor.F32, rows, cfg.Heads+cfg.KVHeads)
	}
	acts.qkv = arena.New("qkv", t, rows, cfg.qkvDim())
	acts.lse = arena.New("lse", tensor.F32, cfg.Heads, rows)
	acts.y = arena.New("y", t, rows, cfg.Heads*cfg.HeadDim)
	return acts
}

func (l *attention) forward(p *pass, acts *attentionActs, s stream) stream {
	l.attend(p, acts, s)
	l.o.forward(p, p.branch, acts.y)
	return stream{acts.h, p.branch}
}

// attend computes forward without its last product. The backward pass does not need the output of that product.
func (l *attention) attend(p *pass, acts *attentionActs, s stream) {
	dev, cfg := p.dev, l.cfg
	l.norm.forward(dev, acts.normActs, s)
	if cfg.QKNorm {
		l.qkv.forward(p, acts.raw, acts.x)
		dev.QKNorm(acts.qkv, acts.rstdQ, acts.raw, l.qNorm.w, l.kNorm.w, cfg.Heads, cfg.KVHeads, cfg.NormEps)
	} else {
		l.qkv.forward(p, acts.qkv, acts.x)
	}
	if l.rotary != nil {
		l.rotary.forward(p, acts.qkv)
	}
	if cache := p.cache; cache != nil {
		k, v := cache.k[l.layer], cache.v[l.layer]
		dev.AppendKV(k, v, acts.qkv, cfg.Heads, cfg.KVHeads, cache.n)
		dev.AttentionCached(acts.y, acts.qkv, k, v, cache.n, l.spec())
		return
	}
	if rows := p.paged; rows != nil {
		k, v := rows.k[l.layer], rows.v[l.layer]
		dev.AppendPaged(k, v, acts.qkv, rows.slots, cfg.Heads, cfg.KVHeads)
		dev.AttentionPaged(acts.y, acts.qkv, k, v, rows.tables, rows.places, rows.reach, l.spec())
		return
	}
	p.besideAttention()
	dev.Attention(acts.y, acts.lse, acts.qkv, l.specOf(p))
}

// backward expects the gradient of the half's output in p.dh. If below is true, it replaces that with the gradient of
// the half's input.
func (l *attention) backward(p *pass, acts *attentionActs, below bool) {
	dev, cfg, g := p.dev, l.cfg, p.actGrads
	l.o.backward(p, g.dy, false, p.dh, acts.y, p.overwrite)
	p.besideAttention()
	dev.AttentionBackward(g.dqkv, g.dy, acts.y, acts.lse, acts.qkv, l.specOf(p))
	if l.rotary != nil {
		l.rotary.backward(p, g.dqkv)
	}
	if cfg.QKNorm {
		l.qNorm.zeroIf(dev, p.overwrite)
		l.kNorm.zeroIf(dev, p.overwrite)
		// In place: the kernel reads the whole gradient of a head before it writes it.
		dev.QKNormBackward(g.dqkv, l.qNorm.whole(), l.kNorm.whole(), g.dqkv, acts.raw, l.qNorm.w, l.kNorm.w, acts.rstdQ,
			cfg.Heads, cfg.KVHeads)
	}
	l.norm.backwardThrough(p, l.qkv, g.dqkv, acts.normActs, below)
}

func (l *attention) trainable() bool {
	return l.norm.trainable() || l.qkv.trainable() || l.qNorm.trainable() || l.kNorm.trainable() || l.o.trainable()
}

// flops returns what linear.flops does, for this half. Per pair of a position and one of its context positions,
// attention takes two operations forward and four backward, times heads · headDim.
func (l *attention) flops(below bool, context float64) float64 {
	below = below || l.norm.trainable()
	n := l.qkv.flops(below)
	below = below || l.qkv.trainable() || l.qNorm.trainable() || l.kNorm.trainable()
	pairs := float64(l.cfg.Heads*l.cfg.HeadDim) * context
	n += l.o.flops(below) + 2*pairs
	if below {
		n += 4 * pairs
	}
	return n
}

// spec returns the model's attention spec without the sequences.
func (c Config) spec() kernels.AttentionSpec {
	s := kernels.AttentionSpec{Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Window: c.Window}
	if c.Unscaled {
		s.Divisor = 1
	}
	return s
}

// spec returns the attention spec of the layer without the sequences.
func (l *attention) spec() kernels.AttentionSpec {
	s := l.cfg.spec()
	if l.cfg.ByLayer {
		s.Divisor = cmp.Or(s.Divisor, math.Sqrt(float64(s.HeadDim))) * float64(l.layer+1)
	}
	return s
}

// specOf returns the attention spec of the layer in a pass.
func (l *attention) specOf(p *pass) kernels.AttentionSpec {
	s := l.spec()
	s.CuSeqlens, s.Offsets = p.cuSeqlens, p.offsets
	return s
}
