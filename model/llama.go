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
	// Train gives the model gradients, and Gradient the activations that it needs.
	Train bool
	// Trained chooses by Hugging Face name the parameters that get one. Nil: all.
	Trained func(name string) bool
	// Recompute is what is not kept for the backward pass. Default none.
	Recompute Recompute
	// HeadBytes bounds the memory for logits: as many rows at a time are multiplied with the head as fit, at least one.
	// Default 64 MiB.
	HeadBytes int
}

const defaultHeadBytes = 64 << 20

// Llama is a model of the family that Config describes, on one device.
type Llama struct {
	c       Config
	o       Options
	d       *kernels.Device
	params  []Param
	embed   pair // [vocab, dim]
	blocks  []block
	norm    pair // [dim]
	head    pair // [vocab, dim]; the same as embed where they are tied
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
func New(d *kernels.Device, c Config, o Options) (*Llama, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if !d.IsCPU() {
		return nil, fmt.Errorf("model: %s: only a few operations have kernels for a GPU yet: open it on the CPU", d.Name())
	}
	m := &Llama{c: c, o: o, d: d}
	fail := func(err error) (*Llama, error) { return nil, errors.Join(err, m.Close()) }
	size := MemoryOf(c, o)
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
	var pairs map[string]pair
	pairs, m.params = allocate(c, o.DType, m.weights, m.grads, o.Trained)
	m.embed = need(pairs, "model.embed_tokens.weight")
	m.norm = need(pairs, "model.norm.weight")
	m.head = m.embed
	if !c.Tied {
		m.head = need(pairs, "lm_head.weight")
	}
	for i := range c.Layers {
		m.blocks = append(m.blocks, newBlock(c, pairs, i))
	}
	m.findLowest()
	m.ZeroGrad()
	return m, nil
}

func (o Options) withDefaults() (Options, error) {
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
	if o.MaxTokens < 0 {
		return o, fmt.Errorf("model: %d tokens at once", o.MaxTokens)
	}
	return o, nil
}

// Memory is what a model takes by purpose, in bytes.
type Memory struct{ Weights, Gradients, Activations int }

// MemoryOf is what New would allocate. It is the same arithmetic, and allocates nothing.
func MemoryOf(c Config, o Options) Memory {
	o, err := o.withDefaults()
	if err != nil {
		return Memory{}
	}
	m := &Llama{c: c, o: o}
	var s Memory
	s.Weights = kernels.SizeOf(func(w *kernels.Arena) {
		g := kernels.SizeOf(func(g *kernels.Arena) {
			if !o.Train {
				g = nil
			}
			allocate(c, o.DType, w, g, o.Trained)
		})
		s.Gradients = g
	})
	if o.MaxTokens > 0 {
		s.Activations = kernels.SizeOf(func(a *kernels.Arena) { m.cut(a, o.MaxTokens, o.MaxTokens) })
	}
	return s
}

// Config is the model's configuration.
func (m *Llama) Config() Config { return m.c }

// Device is where the model is.
func (m *Llama) Device() *kernels.Device { return m.d }

// DType is the type of its weights and activations.
func (m *Llama) DType() tensor.DType { return m.o.DType }

// Params are all parameters, in the order in which they lie in memory. A tied head is not one: it is the embedding.
func (m *Llama) Params() []Param { return m.params }

// ZeroGrad sets all gradients to zero: the beginning of a step.
func (m *Llama) ZeroGrad() {
	for _, p := range m.params {
		if p.Trained() {
			m.d.Zero(p.Grad)
		}
	}
}

// Close gives the model's memory back.
func (m *Llama) Close() error {
	return errors.Join(m.weights.Close(), m.grads.Close(), m.acts.Close(), m.infer.Close(), m.rope.arena.Close())
}

// findLowest tells each block whether anything below it is trained: where nothing is, the backward pass stops.
func (m *Llama) findLowest() {
	below := m.embed.dw.Ok()
	for i := range m.blocks {
		b := &m.blocks[i]
		b.below = below
		below = below || b.trained()
	}
}
