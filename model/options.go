package model

import (
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
	// RecomputeLayer keeps only the input of each layer.
	RecomputeLayer Recompute = "layer"
)

// ParseRecompute reads none, attention or layer. The former name of layer, block, is still accepted.
func ParseRecompute(s string) (Recompute, error) {
	switch r := Recompute(s); r {
	case RecomputeNone, RecomputeAttention, RecomputeLayer:
		return r, nil
	case "block":
		return RecomputeLayer, nil
	}
	return "", fmt.Errorf("recompute %q: must be none, attention or layer", s)
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
	// Context is the most positions of caches (NewKVCache) for which memory is counted and set aside beforehand. Default 0: it
	// is taken when a cache is made.
	Context int
	// Train gives the model gradients, and Gradient the activations that it needs.
	Train bool
	// Trainable chooses by Hugging Face name the parameters that get one. Nil: all.
	Trainable func(name string) bool
	// Recompute is what is not kept for the backward pass. Default none.
	Recompute Recompute
	// ReuseGradients has the gradients of all blocks lie in the same memory, one block's at a time: who needs them takes them
	// in Gradients.After. Default: all are kept.
	ReuseGradients bool
	// GradType is the type of the gradients of matrices that a batch writes once: F32, the default, or BF16, which halves them and
	// suits a step of one batch. They are those in blocks, and that of an untied head if MaxTokens rows of logits are one piece (see
	// HeadBytes). All others are sums, and stay F32.
	GradType tensor.DType
	// HeadBytes bounds the memory for logits: as many rows at a time are multiplied with the head as fit, at least one.
	// Default 512 MiB, and on a GPU a 32nd of its memory, but no more than 4 GiB: a piece costs the head's gradient being read and
	// written once, so it should have hundreds of rows, and thousands on a large GPU.
	HeadBytes int
	// Fill has passes, and rows of the head, be filled up to one of at most 16 numbers of tokens: a GPU's library of matrix products
	// has an algorithm for each number, so they should be few. What is filled up changes no loss, and gradients only by the rounding
	// of sums. Default: they are as many as the batch has.
	PadPasses bool
}

const defaultHeadBytes, maxHeadBytes = 512 << 20, 4 << 30

// HeadBytes is the default of Options.HeadBytes on a GPU with so much memory.
func HeadBytes(memory int) int { return min(memory/32, maxHeadBytes) }

// on is the options with what depends on the device.
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
	if o.DType != tensor.BF16 && o.DType != tensor.F32 {
		return o, fmt.Errorf("model: type %v is neither BF16 nor F32", o.DType)
	}
	if o.GradType == 0 {
		o.GradType = tensor.F32
	}
	if o.GradType != tensor.BF16 && o.GradType != tensor.F32 {
		return o, fmt.Errorf("model: gradients of type %v, which is neither BF16 nor F32", o.GradType)
	}
	if o.Recompute == "" {
		o.Recompute = RecomputeNone
	}
	var err error
	if o.Recompute, err = ParseRecompute(string(o.Recompute)); err != nil {
		return o, err
	}
	if o.Trainable == nil {
		o.Trainable = func(string) bool { return true }
	}
	if o.HeadBytes <= 0 {
		o.HeadBytes = defaultHeadBytes
	}
	if o.MaxTokens < 0 || o.Longest < 0 || o.Context < 0 || o.Context > cfg.MaxPositions {
		return o, fmt.Errorf("model: %d tokens at once, sequences of %d, a cache of %d: there are %d positions", o.MaxTokens, o.Longest, o.Context, cfg.MaxPositions)
	}
	if most := min(o.MaxTokens, cfg.MaxPositions); o.Longest == 0 || o.Longest > most {
		o.Longest = most
	}
	return o, nil
}

// builder cuts from these arenas what the options ask for.
func (o Options) builder(cfg Config, weights, gradients *kernels.Arena) *builder {
	if !o.Train {
		gradients = nil
	}
	b := &builder{weights: weights, gradients: gradients, dtype: o.DType, gradType: o.GradType, headType: tensor.F32, matrices: tensor.F32,
		trainable: o.Trainable, layer: Outside}
	if o.logitsChunk(cfg, o.MaxTokens) >= o.MaxTokens {
		b.headType = o.GradType
	}
	return b
}

// fillings is how many numbers of tokens there are with Fill, at most.
const maxPassSizes = 16

// Rows is how many rows a pass of so many tokens has: with Fill a multiple of a sixteenth of MaxTokens, or MaxTokens.
func (o Options) Rows(tokens int) int {
	if !o.PadPasses {
		return tokens
	}
	const grain = 16 // what tensor cores multiply at once
	step := (o.MaxTokens + maxPassSizes*grain - 1) / (maxPassSizes * grain) * grain
	return min(o.MaxTokens, (tokens+step-1)/step*step)
}

// Fillings are the numbers of rows that passes have with Fill, the largest last; without it they have any, and the largest is told.
func (o Options) PassSizes() (list []int) {
	if !o.PadPasses {
		return []int{o.MaxTokens}
	}
	for n := 0; n < o.MaxTokens; list = append(list, n) {
		n = o.Rows(n + 1)
	}
	return list
}

// positions is how far RoPE's table has to reach for what the model was opened for.
func (o Options) positions() int { return max(o.Longest, o.Context) }
