package model

import (
	"errors"

	"restyle/kernels"
	"restyle/tensor"
)

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
	extend  *pass          // its last

	// OnHidden, when it is set, is shown the residual stream of Loss, Gradient and Logits as it comes to be: "embed", "block.0"
	// and so on, and "norm", each [rows, dim]. The tensor changes after the call.
	OnHidden func(name string, h tensor.Tensor)
}

// New allocates a model whose weights are not yet anything. Load them into Params.
func New(d *kernels.Device, c Config, o Options) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	o, err := o.on(d).withDefaults(c)
	if err != nil {
		return nil, err
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
	b := o.builder(c, m.weights, m.grads)
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

// Config is the model's configuration.
func (m *Model) Config() Config { return m.c }

// Device is where the model is.
func (m *Model) Device() *kernels.Device { return m.d }

// DType is the type of its weights and activations.
func (m *Model) DType() tensor.DType { return m.o.DType }

// Rows is how many rows a pass of so many tokens has: see Options.Fill.
func (m *Model) Rows(tokens int) int { return m.o.Rows(tokens) }

// Params are all parameters, in the order in which they lie in memory. A tied head is not one: it is the embedding.
func (m *Model) Params() []Param { return m.params }

// Close gives the model's memory back.
func (m *Model) Close() error {
	return errors.Join(m.weights.Close(), m.grads.Close(), m.acts.Close(), m.infer.Close(), m.rope.arena.Close())
}

func (m *Model) zeroGradients() {
	for _, p := range m.params {
		if p.Trainable() {
			m.d.Zero(p.Grad)
		}
	}
}
