package model

import (
	"errors"
	"fmt"
	"math"
)

// Config is the shape of a Llama and of the models that are one with small changes: Mistral, Qwen2, Qwen3. Every field
// has the value that counts; what a config.json leaves out has been filled in (package hf reads them).
type Config struct {
	// Family is "llama", "mistral", "qwen2" or "qwen3", for messages. What sets a family apart is in the other fields.
	Family string

	Vocab   int // rows of the embedding
	Dim     int // width of the residual stream
	Inner   int // width inside the MLP
	Layers  int // blocks
	Heads   int // query heads
	KVHeads int // key and value heads; query head h reads key head h / (Heads / KVHeads)
	HeadDim int // width of a head, often but not always Dim / Heads

	// MaxPositions is the longest sequence that the model was made for. Nothing is allocated by it.
	MaxPositions int

	NormEps float32 // added to the mean square in every RMSNorm

	RoPETheta   float64        // base of the rotary frequencies
	RoPEScaling *Llama3Scaling // nil for none

	Tied     bool // the head's weight is the embedding's
	QKVBias  bool // q_proj, k_proj and v_proj have biases
	OutBias  bool // o_proj has a bias
	MLPBias  bool // gate_proj, up_proj and down_proj have biases
	QKNorm   bool // RMSNorm over each head of q and of k before RoPE, one weight of HeadDim for all heads (Qwen3)
	Window   int  // a position sees itself and the Window-1 before it, in every layer; 0 for all before it
	PadID    int  // the embedding's row of this id gets no gradient from the input side, as in PyTorch; -1 for none
	BOS, EOS []int32
}

// Llama3Scaling stretches the rotary frequencies of Llama 3.1 and later for contexts longer than the pretraining's.
// A frequency with wavelength w = 2π/f is
//
//	kept            where w < OriginalMaxPositions / HighFreqFactor
//	divided by Factor where w > OriginalMaxPositions / LowFreqFactor
//	blended between, by s = (OriginalMaxPositions/w - LowFreqFactor) / (HighFreqFactor - LowFreqFactor), to (1-s)·f/Factor + s·f
type Llama3Scaling struct {
	Factor, LowFreqFactor, HighFreqFactor float64
	OriginalMaxPositions                  int
}

// Bounds on sizes. They are far above any model's and keep every product of two of them, the number of parameters and
// their bytes within 63 bits.
const (
	maxWidth     = 1 << 22
	maxVocab     = 1 << 28
	maxLayers    = 1 << 12
	maxParams    = 1 << 45
	maxPositions = 1 << 24 // float32, in which others compute the angles of RoPE, counts exactly to here
)

// Validate says what keeps the configuration from being a model, naming the value. After it the sizes are positive, the
// heads divide, and neither ParamCount nor the number of bytes of anything overflows.
func (c Config) Validate() error {
	for _, size := range []struct {
		name       string
		value, max int
	}{
		{"vocabulary", c.Vocab, maxVocab},
		{"width", c.Dim, maxWidth},
		{"width of the MLP", c.Inner, maxWidth},
		{"number of layers", c.Layers, maxLayers},
		{"number of heads", c.Heads, maxWidth},
		{"number of key heads", c.KVHeads, maxWidth},
		{"head dimension", c.HeadDim, maxWidth},
		{"number of positions", c.MaxPositions, maxPositions},
	} {
		if size.value < 1 || size.value > size.max {
			return fmt.Errorf("the %s is %d: it must be from 1 to %d", size.name, size.value, size.max)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d query heads cannot share %d key heads: the one must be a multiple of the other", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("the head dimension %d is odd: RoPE turns pairs, so it must be even", c.HeadDim)
	case c.Heads*c.HeadDim > maxWidth:
		return fmt.Errorf("%d heads of %d are wider than %d", c.Heads, c.HeadDim, maxWidth)
	case !(c.NormEps >= 0) || math.IsInf(float64(c.NormEps), 0):
		return fmt.Errorf("the norm's epsilon is %v: it must be 0 or a small positive number", c.NormEps)
	case !(c.RoPETheta > 0) || math.IsInf(c.RoPETheta, 0):
		return fmt.Errorf("the base of RoPE is %v: it must be a positive number", c.RoPETheta)
	case c.Window < 0:
		return fmt.Errorf("the attention window is %d: it must be positive, or 0 for none", c.Window)
	case c.PadID < -1 || c.PadID >= c.Vocab:
		return fmt.Errorf("the padding id %d is outside the vocabulary of %d", c.PadID, c.Vocab)
	case c.ParamCount() > maxParams:
		return fmt.Errorf("%d parameters are more than the %d that any machine could hold", c.ParamCount(), int64(maxParams))
	}
	if s := c.RoPEScaling; s != nil {
		if err := s.validate(); err != nil {
			return fmt.Errorf("llama3 RoPE scaling: %w", err)
		}
	}
	return nil
}

func (s Llama3Scaling) validate() error {
	for _, f := range []float64{s.Factor, s.LowFreqFactor, s.HighFreqFactor, float64(s.OriginalMaxPositions)} {
		if !(f > 0) || math.IsInf(f, 0) {
			return fmt.Errorf("a factor or the original length is %v: all must be positive", f)
		}
	}
	if s.LowFreqFactor >= s.HighFreqFactor {
		return errors.New("low_freq_factor must be smaller than high_freq_factor")
	}
	return nil
}

// ParamCount is the number of parameters, a tied head counted once. It is exact for every Config that is valid.
func (c Config) ParamCount() (n int64) {
	c.eachTensor(func(p Param, times int) { n += int64(p.W.Len()) * int64(times) })
	return n
}

// TensorCount is the length of Params, of which it makes one block's only.
func (c Config) TensorCount() (n int) {
	c.eachTensor(func(_ Param, times int) { n += times })
	return n
}

// eachTensor calls f with every parameter that a model of one block has, and how many of its kind there are in all.
func (c Config) eachTensor(f func(p Param, times int)) {
	one := c
	one.Layers = 1
	for _, p := range ParamsOf(one, Options{}) {
		times := 1
		if p.Layer != Outside {
			times = c.Layers
		}
		f(p, times)
	}
}

// Params lists the model's parameters in the order in which they lie in memory, with no memory behind them. The weights of q, k and
// v follow each other, and so do their biases, and those of gate and up: each such run is one matrix.
func (c Config) Params() []Param { return ParamsOf(c, Options{}) }
