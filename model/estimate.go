package model

import "restyle/kernels"

// Memory is the memory of a model by purpose, in bytes.
type Memory struct {
	Weights, Gradients, Activations int
	Angles                          int // cos and sin for RoPE
	KVCache                         int // a cache of Options.Context positions, and the activations of Extend
	Scratch                         int // of operations while they run; all models of a device share it
}

// MemoryOf returns what New would allocate on a device with these fused operations, and a KV cache of Options.Context
// positions. It runs the code that allocates with arenas that only count.
func MemoryOf(dev *kernels.Device, f kernels.Fused, cfg Config, opts Options) Memory {
	opts, err := opts.on(dev).withDefaults(cfg)
	if err != nil {
		return Memory{}
	}
	m := &Model{cfg: cfg, opts: opts, dev: dev}
	var s Memory
	s.Weights = kernels.SizeOf(func(w *kernels.Arena) {
		s.Gradients = kernels.SizeOf(func(g *kernels.Arena) {
			b := opts.builder(cfg, w, g)
			newParts(cfg, b, opts)
			m.adapters = b.built
		})
	})
	if n := opts.positions(); n > 0 && !cfg.LearnedPositions {
		s.Angles = kernels.SizeOf(func(arena *kernels.Arena) { ropeTensors(arena, ropeRows(n), cfg.HeadDim/2) })
	}
	if opts.Context > 0 {
		s.KVCache = kernels.SizeOf(func(arena *kernels.Arena) { m.allocCache(arena, opts.Context) }) +
			kernels.SizeOf(func(arena *kernels.Arena) { m.allocExtend(arena, m.PrefillChunk()) })
	}
	sizes := m.sizes()
	if opts.MaxTokens > 0 {
		s.Activations = kernels.SizeOf(func(arena *kernels.Arena) {
			m.allocPass(arena, extent{maxTokens: opts.MaxTokens, rows: opts.MaxTokens, targets: opts.MaxTokens,
				logits: opts.logitsChunk(cfg, opts.MaxTokens), keep: opts.Train})
		})
		s.Scratch = dev.ScratchOf(f, sizes)
	}
	if opts.Context > 0 { // prefill goes through in chunks
		rows := min(m.PrefillChunk(), opts.Context)
		sizes.Rows, sizes.Longest, sizes.Pairs = rows, rows, cfg.pairs(rows)
		sizes.Logits, sizes.Backward, sizes.Context = 0, false, opts.Context
		s.Scratch = max(s.Scratch, dev.ScratchOf(f, sizes))
	}
	return s
}

// PoolBytesOf returns what Model.PoolBytes would return for a model that New opens on a device.
func PoolBytesOf(dev *kernels.Device, cfg Config, opts Options, o PoolOptions) (block, rest int, err error) {
	if opts, err = opts.on(dev).withDefaults(cfg); err != nil {
		return 0, 0, err
	}
	return (&Model{cfg: cfg, opts: opts, dev: dev}).PoolBytes(o)
}

// sizes returns the sizes of the largest operations of a batch.
func (m *Model) sizes() kernels.Sizes {
	cfg, opts := m.cfg, m.opts
	swiGLU, gelu := cfg.Inner, 0
	if cfg.GELU != "" {
		swiGLU, gelu = 0, cfg.Inner
	}
	s := kernels.Sizes{
		Type: opts.DType, Rows: opts.MaxTokens, Longest: opts.Longest, Logits: opts.logitsChunk(cfg, opts.MaxTokens),
		Dim: cfg.Dim, Inner: swiGLU, GELU: gelu, Vocab: cfg.Vocab, Biased: cfg.widestBias(),
		Pairs: cfg.pairs(opts.MaxTokens), Expert: cfg.expertInner(),
		Attention: cfg.spec(), LayerNorm: cfg.LayerNorm, QKNorm: cfg.QKNorm, Backward: opts.Train,
	}
	if codings := opts.Quantization.Types(); codings != nil {
		s.Quantized, s.Codings = cfg.widest(), codings
		s.Pair = opts.Adapter != nil || opts.AdapterRoom > 0
	}
	return s
}

// expertInner returns the width inside an expert; 0 without a mixture.
func (c Config) expertInner() int {
	if c.Mixture == nil {
		return 0
	}
	return c.Mixture.Inner
}

// widestBias returns the number of outputs of the widest linear layer that has a bias.
func (c Config) widestBias() (widest int) {
	if c.QKVBias {
		widest = c.spec().Width()
	}
	if c.OutBias {
		widest = max(widest, c.Dim)
	}
	if c.MLPBias {
		widest = max(widest, c.gateUpDim(), c.Dim)
	}
	return widest
}

// ParamsOf lists the parameters of a model as Model.Params does, without backing memory, for estimates.
func ParamsOf(cfg Config, opts Options) (params []Param) {
	opts, err := opts.withDefaults(cfg)
	if err != nil {
		return nil
	}
	opts.count(cfg, func(_ parts, b *builder) { params = b.params })
	return params
}

// FLOPs returns the floating-point operations that training takes per token. Each weight of a matrix takes two in the
// forward pass, two for the gradient of its input if anything before it is trainable, and two for its own gradient if
// it is trainable: usually six. Every token also counts in the head, as in llm.c and llmq. Causal attention over
// context positions takes two per pair forward and four backward.
func FLOPs(cfg Config, opts Options, context float64) (total float64) {
	opts, err := opts.withDefaults(cfg)
	if err != nil {
		return 0
	}
	opts.count(cfg, func(p parts, _ *builder) {
		below := p.embed.trainable()
		for i := range p.layers {
			total += p.layers[i].flops(context)
			below = below || p.layers[i].trainable()
		}
		total += p.head.flops(below || p.norm.trainable())
	})
	return total
}

// count calls f with the parts of a model, without backing memory.
func (o Options) count(cfg Config, f func(parts, *builder)) {
	kernels.SizeOf(func(w *kernels.Arena) {
		kernels.SizeOf(func(g *kernels.Arena) {
			b := o.builder(cfg, w, g)
			f(newParts(cfg, b, o), b)
		})
	})
}
