package model

import (
	"errors"
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// Recompute says which activations the backward pass computes again instead of keeping them (gradient checkpointing).
// The results are the same, bit for bit.
type Recompute string

const (
	// RecomputeNone keeps everything.
	RecomputeNone Recompute = "none"
	// RecomputeAttention recomputes the attention half of each layer: norm, q, k, v and attention. It keeps the MLP's.
	RecomputeAttention Recompute = "attention"
	// RecomputeLayer keeps only the input of each layer.
	RecomputeLayer Recompute = "layer"
)

// ParseRecompute parses none, attention or layer.
func ParseRecompute(s string) (Recompute, error) {
	switch r := Recompute(s); r {
	case RecomputeNone, RecomputeAttention, RecomputeLayer:
		return r, nil
	}
	return "", fmt.Errorf("recompute %q: must be none, attention or layer", s)
}

// Options configure how a model is held in memory. The zero value is for inference in BF16 by Extend only.
type Options struct {
	// DType is the type of weights and activations, BF16, F16 or F32. Default BF16.
	DType tensor.DType
	// Quantization is the type of the weights that are quantized. Default: none. These cannot be trained.
	Quantization Quantization
	// MaxTokens is the maximum number of tokens of a batch for Loss, Gradient and Logits. Default 0: these cannot be
	// called, the model can only extend KV caches.
	MaxTokens int
	// Longest is the longest sequence of a batch. Default 0: the smaller of MaxTokens and the model's positions.
	Longest int
	// Context is the capacity of KV caches for which New reserves scratch memory and MemoryOf counts a cache. Default 0: a
	// cache takes all its memory when it is made.
	Context int
	// Train allocates gradients, and the activations that Gradient needs.
	Train bool
	// Trainable reports, by Hugging Face name, whether a parameter gets a gradient. Nil: all do.
	Trainable func(name string) bool
	// Adapter returns the rank of a linear layer's adapter and the scale of its product, by the layer's Hugging Face name,
	// such as "model.layers.0.self_attn.q_proj"; ok is false if it has none. With Train, adapters are trained whatever
	// Trainable says. Nil: no layer has one.
	Adapter func(module string) (rank int, scale float64, ok bool)
	// AdapterRoom is how many columns there are for adapters that share the model's weights, in steps of a Pool: see
	// SetAdapter. It is a multiple of 16; such a model has no adapter of its own, and is not trained. Default 0: none.
	AdapterRoom int
	// AdapterDropout is the share of the elements of an adapter's input that Gradient drops, see kernels.Device.Dropout.
	// Default 0.
	AdapterDropout float64
	// Recompute is what the backward pass recomputes. Default RecomputeNone.
	Recompute Recompute
	// ReuseGradients is how many adjacent layers have memory for gradients of their own; the layers before them use the
	// same memory again. The caller must use the gradients in Gradients.After. The gradients of layers are then always a
	// batch's own, whatever Gradients.Overwrite says. Default 0: every layer has its own memory.
	ReuseGradients int
	// ReuseWeights is how many adjacent layers have memory for weights of their own; the layers after them use the same
	// memory again. The caller must have the weights of a layer there when they are used: in LossByLayer's step, or in
	// Model.Before, without which only LossByLayer can run. If ReuseGradients is not 0, it must be the same. Default 0:
	// every layer has its own memory.
	ReuseWeights int
	// GradType is the type of the gradients of matrices that a batch writes only once, F32 or BF16. BF16 halves their
	// memory and suits a step of one batch. They are the matrices in layers, and the matrix of an untied head if
	// MaxTokens rows of logits are one chunk (see HeadBytes). All other gradients are sums and stay F32. Default F32.
	GradType tensor.DType
	// HeadBytes limits the memory of logits: the head multiplies as many rows at once as fit, at least one. Default 512
	// MiB; on a GPU 1/32 of its memory, at most 4 GiB. Each chunk reads and writes the gradient of the head once, so a
	// chunk should have hundreds of rows, on a large GPU thousands.
	HeadBytes int
	// PadPasses pads passes and rows of the head to one of at most 16 numbers of tokens, because a GPU's library of matrix
	// products chooses an algorithm for each number. Padding changes no loss, and gradients only in the rounding of sums.
	// Default false: a pass has as many rows as the batch has tokens.
	PadPasses bool
}

const defaultHeadBytes, maxHeadBytes = 512 << 20, 4 << 30

// HeadBytes returns the default of Options.HeadBytes on a GPU with memory bytes.
func HeadBytes(memory int) int { return min(memory/32, maxHeadBytes) }

// on sets the defaults that depend on the device.
func (o Options) on(dev *kernels.Device) Options {
	if n := dev.Capacity(); n > 0 && o.HeadBytes <= 0 {
		o.HeadBytes = HeadBytes(n)
	}
	return o
}

func (o Options) withDefaults(cfg Config) (Options, error) {
	if o.DType == 0 {
		o.DType = tensor.BF16
	}
	if !o.DType.Computes() {
		return o, fmt.Errorf("model: DType %v: must be BF16, F16 or F32", o.DType)
	}
	if o.GradType == 0 {
		o.GradType = tensor.F32
	}
	if o.GradType != tensor.BF16 && o.GradType != tensor.F32 {
		return o, fmt.Errorf("model: GradType %v: must be BF16 or F32", o.GradType)
	}
	if o.Recompute == "" {
		o.Recompute = RecomputeNone
	}
	var err error
	if o.Recompute, err = ParseRecompute(string(o.Recompute)); err != nil {
		return o, err
	}
	if err := o.Quantization.validate(o.DType); err != nil {
		return o, err
	}
	if o.ReuseGradients > 0 && o.ReuseWeights > 0 && o.ReuseGradients != o.ReuseWeights {
		return o, fmt.Errorf("model: ReuseGradients %d with ReuseWeights %d: must be the same", o.ReuseGradients,
			o.ReuseWeights)
	}
	if o.Adapter != nil && o.ReuseWeights > 0 {
		return o, errors.New("model: Adapter with ReuseWeights: the adapters of all layers are in memory")
	}
	if o.AdapterRoom < 0 || o.AdapterRoom%adapterUnit != 0 || o.AdapterRoom > 0 && (o.Adapter != nil || o.Train ||
		o.ReuseWeights > 0) {
		return o, fmt.Errorf("model: AdapterRoom %d: must be a multiple of %d, and excludes Adapter, Train and ReuseWeights",
			o.AdapterRoom, adapterUnit)
	}
	if o.Trainable == nil {
		o.Trainable = func(string) bool { return true }
	}
	if o.HeadBytes <= 0 {
		o.HeadBytes = defaultHeadBytes
	}
	if o.MaxTokens < 0 || o.Longest < 0 || o.Context < 0 || o.Context > cfg.Positions() {
		return o, fmt.Errorf("model: MaxTokens %d, Longest %d, Context %d: none may be negative, "+
			"and Context may not exceed the model's %d positions", o.MaxTokens, o.Longest, o.Context, cfg.Positions())
	}
	if limit := min(o.MaxTokens, cfg.Positions()); o.Longest == 0 || o.Longest > limit {
		o.Longest = limit
	}
	return o, nil
}

// builder returns a builder that allocates from these arenas.
func (o Options) builder(cfg Config, weights, gradients *kernels.Arena) *builder {
	if !o.Train {
		gradients = nil
	}
	b := &builder{weights: weights, gradients: gradients, trainable: o.Trainable, adapters: o.Adapter, room: o.AdapterRoom,
		layer: Outside,
		dtype: o.DType, quantization: o.Quantization, gradType: o.GradType, headType: tensor.F32, matrixGrads: tensor.F32,
		codable: map[string]bool{}}
	if o.logitsChunk(cfg, o.MaxTokens) >= o.MaxTokens {
		b.headType = o.GradType
	}
	return b
}

// maxPassSizes is the maximum number of pass sizes with PadPasses.
const maxPassSizes = 16

// Rows returns the number of rows of a pass over tokens tokens: with PadPasses a multiple of 1/16 of MaxTokens, or
// MaxTokens.
func (o Options) Rows(tokens int) int {
	if !o.PadPasses {
		return tokens
	}
	const grain = 16 // rows that a tensor core instruction multiplies
	step := (o.MaxTokens + maxPassSizes*grain - 1) / (maxPassSizes * grain) * grain
	return min(o.MaxTokens, (tokens+step-1)/step*step)
}

// PassSizes returns the numbers of rows that a pass may have with PadPasses, ascending; without it, only the largest.
func (o Options) PassSizes() (list []int) {
	if !o.PadPasses {
		return []int{o.MaxTokens}
	}
	for n := 0; n < o.MaxTokens; list = append(list, n) {
		n = o.Rows(n + 1)
	}
	return list
}

// positions returns the positions that RoPE's table needs.
func (o Options) positions() int { return max(o.Longest, o.Context) }
