package model

import (
	"errors"
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// Recompute is what the forward pass does not keep for the backward pass, which computes it again. The results are the
// same, bit for bit.
type Recompute string

const (
	// RecomputeNone keeps everything.
	RecomputeNone Recompute = "none"
	// RecomputeAttention computes the attention half of a block again: norm, q, k, v and attention, not the MLP.
	RecomputeAttention Recompute = "attention"
	// RecomputeBlock keeps the input of each block alone.
	RecomputeBlock Recompute = "block"
)

// ParseRecompute reads one of none, attention and block.
func ParseRecompute(s string) (Recompute, error) {
	switch r := Recompute(s); r {
	case RecomputeNone, RecomputeAttention, RecomputeBlock:
		return r, nil
	}
	return "", fmt.Errorf("recompute %q: it is one of none, attention, block", s)
}

// Options are how a model is held in memory. The zero value holds one for inference in BF16.
type Options struct {
	// DType is the type of weights and activations: BF16, the default, or F32.
	DType tensor.DType
	// MaxTokens is the largest number of tokens in one batch for Loss, Gradient and Logits. Default 0: there are none, and the
	// model can only Extend caches.
	MaxTokens int
	// Longest is the longest sequence of a batch. Default 0: as long as MaxTokens and the model's positions allow.
	Longest int
	// Context is the most positions of caches (NewCache) for which memory is counted and set aside beforehand. Default 0: it
	// is taken when a cache is made.
	Context int
	// Train gives the model gradients, and Gradient the activations that it needs.
	Train bool
	// Trained chooses by Hugging Face name the parameters that get one. Nil: all.
	Trained func(name string) bool
	// Recompute is what is not kept for the backward pass. Default none.
	Recompute Recompute
	// ReuseGradients has the gradients of all blocks lie in the same memory, one block's at a time: who needs them takes them
	// in Gradients.After. Default: all are kept.
	ReuseGradients bool
	// HeadBytes bounds the memory for logits: as many rows at a time are multiplied with the head as fit, at least one.
	// Default 512 MiB: a piece costs the head's gradient being read and written once, so it should have hundreds of rows.
	HeadBytes int
}

const defaultHeadBytes = 512 << 20

// Model is a model that Config describes, on one device.
type Model struct {
	c Config
	o Options
	d *kernels.Device
	parts
	params  []Param
	rope    ropeTable
	weights *kernels.Arena
	grads   *kernels.Arena // nil without Train
	acts    *kernels.Arena // nil without MaxTokens
	infer   *kernels.Arena // of Extend; made when it is first called

	// Watch, when it is set, is shown the residual stream of Loss, Gradient and Logits as it comes to be: "embed", "block.0"
	// and so on, and "norm", each [rows, dim]. The tensor changes after the call.
	Watch func(name string, h tensor.Tensor)
}

// New allocates a model whose weights are not yet anything. Load them into Params.
func New(d *kernels.Device, c Config, o Options) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	o, err := o.withDefaults(c)
	if err != nil {
		return nil, err
	}
	if !d.IsCPU() {
		return nil, fmt.Errorf("model: %s: only a few operations have kernels for a GPU yet: open it on the CPU", d.Name())
	}
	m := &Model{c: c, o: o, d: d}
	fail := func(err error) (*Model, error) { return nil, errors.Join(err, m.Close()) }
	size := MemoryOf(d, d.Fused(), c, o)
	if m.weights, err = d.NewArena("weights", size.Weights); err != nil {
		return fail(err)
	}
	if o.Train {
		if m.grads, err = d.NewArena("gradients", size.Gradients); err != nil {
			return fail(err)
		}
	}
	if o.MaxTokens > 0 {
		if m.acts, err = d.NewArena("activations", size.Activations); err != nil {
			return fail(err)
		}
	}
	b := o.builder(m.weights, m.grads)
	m.parts, m.params = newParts(c, b, o.ReuseGradients), b.params
	m.zeroGradients()
	if n := o.positions(); n > 0 {
		if err := m.ropeFor(n); err != nil {
			return fail(err)
		}
	}
	if err := d.ReserveScratch(size.Scratch); err != nil {
		return fail(err)
	}
	return m, nil
}

func (o Options) withDefaults(c Config) (Options, error) {
	if o.DType == 0 {
		o.DType = tensor.BF16
	}
	if o.DType != tensor.BF16 && o.DType != tensor.F32 {
		return o, fmt.Errorf("model: type %v is neither BF16 nor F32", o.DType)
	}
	if o.Recompute == "" {
		o.Recompute = RecomputeNone
	}
	if _, err := ParseRecompute(string(o.Recompute)); err != nil {
		return o, err
	}
	if o.Trained == nil {
		o.Trained = func(string) bool { return true }
	}
	if o.HeadBytes <= 0 {
		o.HeadBytes = defaultHeadBytes
	}
	if o.MaxTokens < 0 || o.Longest < 0 || o.Context < 0 || o.Context > c.MaxPositions {
		return o, fmt.Errorf("model: %d tokens at once, sequences of %d, a cache of %d: there are %d positions", o.MaxTokens, o.Longest, o.Context, c.MaxPositions)
	}
	if most := min(o.MaxTokens, c.MaxPositions); o.Longest == 0 || o.Longest > most {
		o.Longest = most
	}
	return o, nil
}

// Memory is what a model takes by purpose, in bytes.
type Memory struct {
	Weights, Gradients, Activations int
	Angles                          int // RoPE's table
	Cache                           int // of Options.Context positions, and what is computed beside it: taken by NewCache and Extend
	Scratch                         int // of operations, while they run; the device's, which all its models share
}

// MemoryOf is what New would allocate on a device with these fused operations, and with Options.Context a cache. It is the same
// arithmetic, and allocates nothing.
func MemoryOf(d *kernels.Device, f kernels.Fused, c Config, o Options) Memory {
	o, err := o.withDefaults(c)
	if err != nil {
		return Memory{}
	}
	m := &Model{c: c, o: o}
	var s Memory
	s.Weights = kernels.SizeOf(func(w *kernels.Arena) {
		s.Gradients = kernels.SizeOf(func(g *kernels.Arena) { newParts(c, o.builder(w, g), o.ReuseGradients) })
	})
	if n := o.positions(); n > 0 {
		s.Angles = kernels.SizeOf(func(a *kernels.Arena) { ropeTensors(a, ropeRows(n), c.HeadDim/2) })
	}
	if o.Context > 0 {
		s.Cache = kernels.SizeOf(func(a *kernels.Arena) { m.cutCache(a, o.Context) }) +
			kernels.SizeOf(func(a *kernels.Arena) { m.cutExtend(a, min(chunk, c.MaxPositions)) })
	}
	sizes := kernels.Sizes{
		Type: o.DType, Rows: o.MaxTokens, Longest: o.Longest, Logits: m.piece(o.MaxTokens), Dim: c.Dim, Inner: c.Inner, Vocab: c.Vocab,
		Attention: c.spec(nil), QKNorm: c.QKNorm, Backward: o.Train,
	}
	if o.MaxTokens > 0 {
		s.Activations = kernels.SizeOf(func(a *kernels.Arena) {
			m.cut(a, extent{most: o.MaxTokens, rows: o.MaxTokens, trained: o.MaxTokens, logits: m.piece(o.MaxTokens), keep: o.Train})
		})
		s.Scratch = d.ScratchOf(f, sizes)
	}
	if o.Context > 0 { // the prompt of an answer goes through in chunks
		sizes.Rows, sizes.Longest, sizes.Logits, sizes.Backward, sizes.Context = min(chunk, o.Context), min(chunk, o.Context), 0, false, o.Context
		s.Scratch = max(s.Scratch, d.ScratchOf(f, sizes))
	}
	return s
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
			b := o.builder(w, g)
			f(newParts(c, b, o.ReuseGradients), b)
		})
	})
}

// builder cuts from these arenas what the options ask for.
func (o Options) builder(weights, gradients *kernels.Arena) *builder {
	if !o.Train {
		gradients = nil
	}
	return &builder{weights: weights, gradients: gradients, dtype: o.DType, trained: o.Trained, block: Outside}
}

// positions is how far RoPE's table has to reach for what the model was opened for.
func (o Options) positions() int { return max(o.Longest, o.Context) }

// Config is the model's configuration.
func (m *Model) Config() Config { return m.c }

// Device is where the model is.
func (m *Model) Device() *kernels.Device { return m.d }

// DType is the type of its weights and activations.
func (m *Model) DType() tensor.DType { return m.o.DType }

// Params are all parameters, in the order in which they lie in memory. A tied head is not one: it is the embedding.
func (m *Model) Params() []Param { return m.params }

// Close gives the model's memory back.
func (m *Model) Close() error {
	return errors.Join(m.weights.Close(), m.grads.Close(), m.acts.Close(), m.infer.Close(), m.rope.arena.Close())
}

func (m *Model) zeroGradients() {
	for _, p := range m.params {
		if p.Trained() {
			m.d.Zero(p.Grad)
		}
	}
}
