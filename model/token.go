package model

import (
	"encoding/binary"

	"restyle/kernels"
	"restyle/tensor"
)

// On a GPU, decoding a token is so little work that launching its kernels one by one would take longer than they run.
// So there are few kernels, they read the token from GPU memory, and one graph of them is launched for token after
// token.

// tokenGraph is what a KVCache needs for that.
type tokenGraph struct {
	// I32 [3]: the next token and its position, the model's choice until the host uploads another; and the choice itself
	token    tensor.Tensor
	parts    tensor.Tensor // partial results of attention
	counters tensor.Tensor // of attention's thread blocks, 0 between kernels

	chooseScratch tensor.Tensor

	last  [2]int32 // token and position of the last choice
	known bool     // token holds last
	done  bool     // the last Extend chose a token
	ahead bool     // the step for last is already queued

	graph  *kernels.Graph // nil until it is captured
	reach  int            // it serves positions below this
	angles uintptr        // address of RoPE's table when it was captured
}

// minReach is the number of positions that the first graph serves. Each later one serves twice as many, up to the
// cache's capacity.
var minReach = 512 // tests set it

// reachOf returns the reach of a graph that has to serve at least n positions.
func (c *KVCache) reachOf(n int) int {
	reach := minReach
	for reach < n {
		reach *= 2
	}
	return min(reach, c.Capacity())
}

// decodes reports whether the device has kernels for decoding single tokens of this model, whose weights are all in
// memory.
func (m *Model) decodes() bool {
	return m.opts.ReuseWeights == 0 && !m.cfg.LayerNorm && m.cfg.GELU == "" && !m.cfg.LearnedPositions &&
		!m.cfg.ByLayer && m.OnRouting == nil &&
		!m.cfg.ropeByLength() && // the next token is computed ahead, with the table as it is
		m.dev.Decodes(m.opts.DType, m.opts.Quantization.Types(), m.cfg.Dim, m.cfg.Inner, m.cfg.expertInner(),
			m.cfg.Heads*m.cfg.HeadDim)
}

// captured reports whether the cache's graph serves its next position.
func (m *Model) captured(c *KVCache) bool {
	return c.graph != nil && c.n < c.reach && c.angles == m.rope.cos.Addr
}

// decode computes the logits of one more token, and chooses the token after it. If the step was queued ahead and
// choiceOnly, decode does nothing: the choice is there, but another pass may have overwritten the logits since.
func (m *Model) decode(c *KVCache, p *pass, id int32, choiceOnly bool) {
	token := [2]int32{id, int32(c.n)}
	if c.done = true; choiceOnly && c.ahead && c.last == token {
		return
	}
	c.ahead = false
	if !c.known || c.last != token {
		m.dev.UploadI32(c.token.Part(0, 2), token[:])
	}
	c.known = false
	if c.n == 0 {
		m.refreshAdapters()
	}
	if m.captured(c) {
		c.graph.Launch()
		return
	}
	m.launch(c, p, c.reachOf(c.n+1)) // compiles missing kernels, which is not possible during a capture
	_ = c.graph.Close()              // the device keeps an error
	c.reach, c.angles = c.reachOf(c.n+2), m.rope.cos.Addr
	c.graph = m.dev.Capture(func() { m.launch(c, p, c.reach) })
}

// launch launches the kernels that decode a token at a position below reach.
func (m *Model) launch(c *KVCache, p *pass, reach int) {
	dev, h := m.dev, p.layers[0].attention.h
	dev.Embedding(h, m.embed.w, c.token.Part(0, 1))
	for i := range m.layers {
		layer, acts := &m.layers[i], &p.layers[i]
		second := layer.feedForward()
		layer.attention.decode(p, c, &acts.attention, h, second.first(), reach)
		second.decode(p, acts, h)
	}
	m.head.decode(p, p.head.logits, h, m.norm)
	dev.ChooseNext(c.token, p.head.logits, c.chooseScratch)
}

// decode computes forward for one token, in place. next is the layer that decode reads next, which a GPU prefetches.
func (l *attention) decode(p *pass, cache *KVCache, acts *attentionActs, h tensor.Tensor, next linear, reach int) {
	dev, rope, cfg, qkv := p.dev, p.rope, l.cfg, acts.qkv
	if cfg.QKNorm {
		qkv = acts.raw
	}
	l.qkv.decode(p, qkv, h, l.norm)
	if cfg.QKNorm {
		dev.QKNorm(acts.qkv, acts.rstdQ, acts.raw, l.qNorm.w, l.kNorm.w, cfg.Heads, cfg.KVHeads, cfg.NormEps)
	}
	dev.AttentionNext(acts.y, acts.qkv, cache.k[l.layer], cache.v[l.layer], cache.token.Part(1, 1), rope.cos, rope.sin,
		cache.parts.Part(0, cfg.spec().NextParts(reach)...), cache.counters, reach, cfg.spec())
	l.o.decodeAddBefore(p, next, h, acts.y)
}

// first returns the linear layer that decode reads first.
func (l *mlp) first() linear { return l.gateUp }

// decode computes forward for one token, in place.
func (l *mlp) decode(p *pass, acts *layerActs, h tensor.Tensor) {
	y := acts.mlp.act
	l.gateUp.decodeSwiGLU(p, y, acts.mlp.gateUp, h, l.norm)
	l.down.decodeAdd(p, h, y)
}

// first returns the linear layer that decode reads first.
func (l *mixture) first() linear { return l.router }

// decode computes forward for one token, in place. The GPU chooses the experts, so one graph serves for all tokens.
func (l *mixture) decode(p *pass, acts *layerActs, h tensor.Tensor) {
	l.activate(p, acts, stream{h: h})
	l.combine(p, acts)
	p.dev.Add(h, h, p.branch)
}

// Greedy is Extend followed by the choice of the most likely token: the highest logit, and the lowest id among equals.
// The device chooses it. A GPU is fastest if the next call appends exactly this token. logits is nil, unless a logit is
// NaN or +Inf or all are -Inf: then id is -1 and logits are as from Extend.
func (m *Model) Greedy(c *KVCache, ids []int32) (id int32, logits []float32, err error) {
	defer m.tokenRange(ids)()
	x, err := m.extendBy(c, ids, true)
	if err != nil {
		return -1, nil, err
	}
	if !c.done {
		c.known = false
		m.dev.UploadI32(c.token, []int32{0, int32(c.n - 1), 0})
		m.dev.ChooseNext(c.token, x, c.chooseScratch)
	}
	wasAhead := c.ahead
	m.dev.StartDownload(c.token)
	m.queueAhead(c)
	var token [12]byte
	if err := m.dev.FinishDownload(token[:]); err != nil {
		return -1, nil, err
	}
	if id = int32(binary.NativeEndian.Uint32(token[8:])); id < 0 {
		if wasAhead || c.ahead { // another step may have overwritten the logits
			c.n--
			if x, err = m.extendBy(c, ids[len(ids)-1:], false); err != nil {
				return -1, nil, err
			}
		}
		if err := m.dev.Download(c.next, x); err != nil {
			return -1, nil, err
		}
		return -1, c.next, nil
	}
	c.last, c.known = [2]int32{id, int32(c.n)}, !c.ahead
	return id, nil, nil
}

// queueAhead queues the step for the token that the GPU chooses, before the host knows which one that is. So the GPU
// does not wait for the host between two tokens. If the answer continues with another token, the step does no harm: the
// cache's length does not include its keys and values, and the next step overwrites them.
func (m *Model) queueAhead(c *KVCache) {
	// After a prompt the activations are laid out for its length, not as the graph has them.
	c.ahead = m.captured(c) && m.extendPass.rows == 1
	if c.ahead {
		c.graph.Launch()
	}
}
