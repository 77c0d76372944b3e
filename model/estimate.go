package model

import "restyle/kernels"

// Memory is what a model takes by purpose, in bytes.
type Memory struct {
	Weights, Gradients, Activations int
	Angles                          int // RoPE's table
	KVCache                         int // of Options.Context positions, and what is computed beside it: taken by NewKVCache and Extend
	Scratch                         int // of operations, while they run; the device's, which all its models share
}

// MemoryOf is what New would allocate on a device with these fused operations, and with Options.Context a cache. It is the same
// arithmetic, and allocates nothing.
func MemoryOf(d *kernels.Device, f kernels.Fused, c Config, o Options) Memory {
	o, err := o.on(d).withDefaults(c)
	if err != nil {
		return Memory{}
	}
	m := &Model{c: c, o: o, d: d}
	var s Memory
	s.Weights = kernels.SizeOf(func(w *kernels.Arena) {
		s.Gradients = kernels.SizeOf(func(g *kernels.Arena) { newParts(c, o.builder(c, w, g), o.ReuseGradients) })
	})
	if n := o.positions(); n > 0 {
		s.Angles = kernels.SizeOf(func(a *kernels.Arena) { ropeTensors(a, ropeRows(n), c.HeadDim/2) })
	}
	if o.Context > 0 {
		s.KVCache = kernels.SizeOf(func(a *kernels.Arena) { m.cutCache(a, o.Context) }) +
			kernels.SizeOf(func(a *kernels.Arena) { m.cutExtend(a, min(chunk, c.MaxPositions)) })
	}
	sizes := kernels.Sizes{
		Type: o.DType, Rows: o.MaxTokens, Longest: o.Longest, Logits: o.piece(c, o.MaxTokens), Dim: c.Dim, Inner: c.Inner, Vocab: c.Vocab,
		Biased:    c.biased(),
		Attention: c.spec(), QKNorm: c.QKNorm, Backward: o.Train,
	}
	if o.MaxTokens > 0 {
		s.Activations = kernels.SizeOf(func(a *kernels.Arena) {
			m.cut(a, extent{most: o.MaxTokens, rows: o.MaxTokens, trained: o.MaxTokens, logits: o.piece(c, o.MaxTokens), keep: o.Train})
		})
		s.Scratch = d.ScratchOf(f, sizes)
	}
	if o.Context > 0 { // the prompt of an answer goes through in chunks
		sizes.Rows, sizes.Longest, sizes.Logits, sizes.Backward, sizes.Context = min(chunk, o.Context), min(chunk, o.Context), 0, false, o.Context
		s.Scratch = max(s.Scratch, d.ScratchOf(f, sizes))
	}
	return s
}

// biased is how many outputs the widest layer has that has a bias.
func (c Config) biased() (widest int) {
	if c.QKVBias {
		widest = c.spec().Width()
	}
	if c.OutBias {
		widest = max(widest, c.Dim)
	}
	if c.MLPBias {
		widest = max(widest, 2*c.Inner, c.Dim)
	}
	return widest
}

// ParamsOf lists the parameters of a model as Params does, with no memory behind them: for estimates.
func ParamsOf(c Config, o Options) (params []Param) {
	o, err := o.withDefaults(c)
	if err != nil {
		return nil
	}
	o.count(c, func(_ parts, b *builder) { params = b.params })
	return params
}

// FLOPs is how many floating-point operations a token takes in training. Each weight that multiplies takes two forward, two
// for the gradient of its input where anything before it is trained, and two for its own where it is trained itself: six as a
// rule (llm.c and llmq count so, and every token in the head, too). Attention over a causal context of this many positions
// takes two for each pair forward and four backward.
func FLOPs(c Config, o Options, context float64) (total float64) {
	o, err := o.withDefaults(c)
	if err != nil {
		return 0
	}
	o.count(c, func(p parts, _ *builder) {
		below := p.embed.trained()
		for i := range p.blocks {
			total += p.blocks[i].flops(context)
			below = below || p.blocks[i].trained()
		}
		total += p.head.flops(below || p.norm.trained())
	})
	return total
}

// count makes the parts of a model with no memory behind them.
func (o Options) count(c Config, f func(parts, *builder)) {
	kernels.SizeOf(func(w *kernels.Arena) {
		kernels.SizeOf(func(g *kernels.Arena) {
			b := o.builder(c, w, g)
			f(newParts(c, b, o.ReuseGradients), b)
		})
	})
}
