package model

import (
	"errors"

	"restyle/kernels"
	"restyle/tensor"
)

// Model is a model that Config describes, on one device.
type Model struct {
	cfg  Config
	opts Options
	dev  *kernels.Device
	parts
	params      []Param
	rope        ropeTable
	weightArena *kernels.Arena
	gradArena   *kernels.Arena // nil without Train
	actArena    *kernels.Arena // nil without MaxTokens
	extendArena *kernels.Arena // of Extend; made when it is first called
	extendPass  *pass          // its last

	// OnHidden, when it is set, is shown the residual stream of Loss, Gradient and Logits as it comes to be: "embed", "block.0"
	// and so on, and "norm", each [rows, dim]. The tensor changes after the call.
	OnHidden func(name string, h tensor.Tensor)
}

// New allocates a model whose weights are not yet anything. Load them into Params.
func New(dev *kernels.Device, cfg Config, opts Options) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts, err := opts.on(dev).withDefaults(cfg)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, opts: opts, dev: dev}
	fail := func(err error) (*Model, error) { return nil, errors.Join(err, m.Close()) }
	size := MemoryOf(dev, dev.Fused(), cfg, opts)
	if m.weightArena, err = dev.NewArena("weights", size.Weights); err != nil {
		return fail(err)
	}
	if opts.Train {
		if m.gradArena, err = dev.NewArena("gradients", size.Gradients); err != nil {
			return fail(err)
		}
	}
	if opts.MaxTokens > 0 {
		if m.actArena, err = dev.NewArena("activations", size.Activations); err != nil {
			return fail(err)
		}
	}
	b := opts.builder(cfg, m.weightArena, m.gradArena)
	m.parts, m.params = newParts(cfg, b, opts.ReuseGradients), b.params
	m.zeroGradients()
	if n := opts.positions(); n > 0 {
		if err := m.ropeFor(n); err != nil {
			return fail(err)
		}
	}
	if err := dev.ReserveScratch(size.Scratch); err != nil {
		return fail(err)
	}
	return m, nil
}

// Config is the model's configuration.
func (m *Model) Config() Config { return m.cfg }

// Device is where the model is.
func (m *Model) Device() *kernels.Device { return m.dev }

// DType is the type of its weights and activations.
func (m *Model) DType() tensor.DType { return m.opts.DType }

// Rows is how many rows a pass of so many tokens has: see Options.Fill.
func (m *Model) Rows(tokens int) int { return m.opts.Rows(tokens) }

// Params are all parameters, in the order in which they lie in memory. A tied head is not one: it is the embedding.
func (m *Model) Params() []Param { return m.params }

// Close gives the model's memory back.
func (m *Model) Close() error {
	return errors.Join(m.weightArena.Close(), m.gradArena.Close(), m.actArena.Close(), m.extendArena.Close(), m.rope.arena.Close())
}

func (m *Model) zeroGradients() {
	for _, p := range m.params {
		if p.Trainable() {
			m.dev.Zero(p.Grad)
		}
	}
}
