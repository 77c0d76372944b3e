package model

import (
	"errors"

	"restyle/kernels"
	"restyle/tensor"
)

// A Model is a model on one device.
type Model struct {
	cfg  Config
	opts Options
	dev  *kernels.Device
	parts
	params      []Param
	adapters    []*adapter
	factors     *kernels.FactorList // of all adapters; nil: there are none
	arriving    arrivals            // of adapters of others
	fresh       bool                // the factors of adapters that products use have been made
	rope        ropeTable
	weightArena *kernels.Arena
	gradArena   *kernels.Arena // nil without Train
	actArena    *kernels.Arena // nil without MaxTokens
	extendArena *kernels.Arena // of Extend; nil until its first call
	extendPass  *pass          // the last one of Extend

	// Before, if not nil, is called before what uses the weights of a layer is queued: with Outside at the start of the
	// forward pass, then with the first layer and so on, and in the backward pass with the last layer and so on. If the
	// model has adapters, their weights are used after the first call. LossByLayer does not call it, nor Extend with
	// one token, unless there is ReuseWeights.
	Before func(layer int)

	// OnHidden, if not nil, is called with the residual stream as Loss, Gradient and Logits compute it: "embed", "block.0"
	// and so on, and "norm", each [rows, dim]. The tensor is only valid during the call.
	OnHidden func(name string, h tensor.Tensor)

	// OnInputs, if not nil, is called with the inputs x [rows, in] of each linear layer in the model's layers, and its
	// weight w, as Loss, LossByLayer, Gradient and Logits compute them. Experts and routers are left out. The
	// tensors are only valid during the call.
	OnInputs func(w, x tensor.Tensor)
	// OnRouting, if not nil, is called for each layer with a mixture of experts, with the router's logits, [rows, experts]
	// F32, and the routing. They are only valid during the call.
	OnRouting func(layer int, logits tensor.Tensor, r kernels.Routing)
}

// New allocates a model. The caller must load its weights into Params, or call Init.
func New(dev *kernels.Device, cfg Config, opts Options) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts, err := opts.on(dev).withDefaults(cfg)
	if err == nil {
		err = CheckOptions(cfg, opts)
	}
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
	m.parts, m.params, m.adapters = newParts(cfg, b, opts), b.params, b.built
	m.arriving = b.arriving
	for layer := Outside; layer < cfg.Layers; layer++ {
		m.zeroGradients(layer, true)
	}
	m.listFactors(b.factors)
	if n := opts.positions(); n > 0 {
		if err := m.ropeFor(n, n); err != nil {
			return fail(err)
		}
	}
	if err := dev.ReserveScratch(size.Scratch); err != nil {
		return fail(err)
	}
	return m, nil
}

// Config returns the model's configuration.
func (m *Model) Config() Config { return m.cfg }

// Device returns the model's device.
func (m *Model) Device() *kernels.Device { return m.dev }

// DType returns the type of weights and activations.
func (m *Model) DType() tensor.DType { return m.opts.DType }

// Quantization returns the types of quantized weights.
func (m *Model) Quantization() Quantization { return m.opts.Quantization }

// Adapter returns which layers have adapters: Options.Adapter.
func (m *Model) Adapter() func(module string) (rank int, scale float64, ok bool) {
	return m.opts.Adapter
}

// ReuseWeights returns how many layers have memory for their weights: Options.ReuseWeights.
func (m *Model) ReuseWeights() int { return m.opts.ReuseWeights }

// Rows returns the number of rows of a pass over tokens tokens: see Options.PadPasses.
func (m *Model) Rows(tokens int) int { return m.opts.Rows(tokens) }

// Params returns all parameters in memory order. A tied head is not among them: it is the embedding.
func (m *Model) Params() []Param { return m.params }

// Close frees the model's memory.
func (m *Model) Close() error {
	return errors.Join(m.weightArena.Close(), m.gradArena.Close(), m.actArena.Close(), m.extendArena.Close(),
		m.rope.arena.Close())
}

// zeroGradients sets the gradients of a layer as a batch without targets would, which overwrites them or adds to
// them.
func (m *Model) zeroGradients(layer int, overwrite bool) {
	for _, p := range m.params {
		if p.Layer == layer && p.Trainable() && overwrite {
			m.dev.Zero(p.Grad)
		}
	}
}
