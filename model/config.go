package model

import (
	"errors"
	"fmt"
	"math"
)

// Config describes a model of the Llama family (Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3-MoE) or a GPT-2. Every
// field has its effective value: package hf, which reads config.json, fills in what the file leaves out.
type Config struct {
	// Family is "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gpt2" or "nanogpt". It decides which names
	// files give to parameters, and whether they store matrices transposed. The other fields describe how the models
	// differ.
	Family string

	Vocab   int // rows of the embedding
	Dim     int // width of the residual stream
	Inner   int // width inside the MLP
	Layers  int
	Heads   int // query heads
	KVHeads int // key and value heads; query head h reads key head h / (Heads / KVHeads)
	HeadDim int // width of a head, often but not always Dim / Heads

	// MaxPositions is the longest sequence that the model was made for. It does not affect how much memory New allocates,
	// unless positions are learned.
	MaxPositions int

	// LearnedPositions adds a row of a table of MaxPositions to each embedding. Without it, positions come from RoPE.
	LearnedPositions bool

	NormEps   float32 // added to the mean square, or to the variance, in every norm
	LayerNorm bool    // norms are LayerNorm; without it, RMSNorm
	NormBias  bool    // norms have biases; only LayerNorm can

	// Mixture makes the MLP of most layers a mixture of experts; nil: all layers have an ordinary one.
	Mixture *Mixture

	// GELU makes the MLP Down(GELU(Up(x))). "": it is Down(SwiGLU(GateUp(x))).
	GELU GELU

	RoPETheta   float64      // base of the rotary frequencies
	RoPEScaling *RoPEScaling // nil if there is none

	Tied     bool // the head's weight is the embedding's
	QKVBias  bool // q_proj, k_proj and v_proj have biases
	OutBias  bool // o_proj has a bias
	MLPBias  bool // gate_proj, up_proj and down_proj have biases
	Unscaled bool // attention's scores are not divided by √HeadDim (GPT-2's scale_attn_weights is false)
	ByLayer  bool // layer i also divides attention's scores by i+1 (GPT-2's scale_attn_by_inverse_layer_idx)
	QKNorm   bool // RMSNorm over each head of q and of k before RoPE, one weight of HeadDim for all heads (Qwen3)
	Window   int  // sliding window of every layer: a position attends to itself and the Window-1 before it; 0 for no limit
	PadID    int  // this row of the embedding gets no gradient from the input side, as in PyTorch; -1 if there is none
	BOS, EOS []int32
}

// GELU is a form of the Gaussian error linear unit.
type GELU string

// The forms of kernels.Device.GELU.
const (
	GELUExact GELU = "exact"
	GELUTanh  GELU = "tanh"
)

// Upper bounds on sizes. They are far above the sizes of any model, and keep the products of two sizes, the number of
// parameters and the number of their bytes within 63 bits.
const (
	maxWidth     = 1 << 22
	maxVocab     = 1 << 28
	maxLayers    = 1 << 12
	maxParams    = 1 << 45
	maxPositions = 1 << 24 // up to here float32, in which other implementations compute RoPE's angles, is exact
)

// Validate reports the first field that no model could have, by its key in config.json, with its value. If it returns
// nil, all sizes are positive, the head counts divide, and neither ParamCount nor any size in bytes overflows.
func (c Config) Validate() error {
	for _, size := range []struct {
		name       string
		value, max int
	}{
		{"vocab_size", c.Vocab, maxVocab},
		{"hidden_size", c.Dim, maxWidth},
		{"intermediate_size", c.Inner, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"num_attention_heads", c.Heads, maxWidth},
		{"num_key_value_heads", c.KVHeads, maxWidth},
		{"head_dim", c.HeadDim, maxWidth},
		{"max_position_embeddings", c.MaxPositions, maxPositions},
	} {
		if size.value < 1 || size.value > size.max {
			return fmt.Errorf("%s %d: must be 1 to %d", c.key(size.name), size.value, size.max)
		}
	}
	if m := c.Mixture; m != nil {
		if err := m.validate(c.Layers); err != nil {
			return err
		}
	}
	switch {
	case c.GELU != "" && c.GELU != GELUExact && c.GELU != GELUTanh:
		return fmt.Errorf("GELU %q: must be %s or %s", c.GELU, GELUExact, GELUTanh)
	case c.NormBias && !c.LayerNorm:
		return errors.New("norms with biases: only LayerNorm has them")
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads %d: must be a multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0 && !c.LearnedPositions:
		return fmt.Errorf("head_dim %d: must be even, because RoPE rotates pairs", c.HeadDim)
	case c.Heads*c.HeadDim > maxWidth:
		return fmt.Errorf("num_attention_heads %d times head_dim %d: must be at most %d", c.Heads, c.HeadDim, maxWidth)
	case !(c.NormEps >= 0) || math.IsInf(float64(c.NormEps), 0):
		return fmt.Errorf("%s %v: must be 0 or a small positive number", c.key("rms_norm_eps"), c.NormEps)
	case !c.LearnedPositions && (!(c.RoPETheta > 0) || math.IsInf(c.RoPETheta, 0)):
		return fmt.Errorf("rope_theta %v: must be positive", c.RoPETheta)
	case c.Window < 0:
		return fmt.Errorf("sliding_window %d: must be positive, or absent", c.Window)
	case c.PadID < -1 || c.PadID >= c.Vocab:
		return fmt.Errorf("pad_token_id %d: outside the vocabulary of %d", c.PadID, c.Vocab)
	case c.ParamCount() > maxParams:
		return fmt.Errorf("%d parameters: more than %d, which no machine can hold", c.ParamCount(), int64(maxParams))
	}
	if s := c.RoPEScaling; s != nil {
		if err := s.validate(c); err != nil {
			return fmt.Errorf("rope_scaling: %w", err)
		}
	}
	return nil
}

// ParamCount returns the number of parameters; a tied head counts once. It is exact for every valid Config.
func (c Config) ParamCount() (n int64) {
	c.eachTensor(func(p Param, times int) { n += int64(p.W.Len()) * int64(times) })
	return n
}

// TensorCount returns len(c.Params()), but builds the parameters of only one layer.
func (c Config) TensorCount() (n int) {
	c.eachTensor(func(_ Param, times int) { n += times })
	return n
}

// OneOfEach returns a model with one layer of each kind that c has, and for each how many of c's layers are like it.
func (c Config) OneOfEach() (one Config, times []int) {
	one = c
	if one.Layers = 1; c.Mixture == nil || len(c.Mixture.Dense) == 0 {
		return one, []int{c.Layers}
	}
	kinds, dense := *c.Mixture, len(c.Mixture.Dense)
	kinds.Dense, one.Mixture = []int{0}, &kinds
	if dense == c.Layers {
		return one, []int{dense}
	}
	one.Layers = 2
	return one, []int{dense, c.Layers - dense}
}

// eachTensor calls f with every parameter of OneOfEach, and how often the parameter occurs in c.
func (c Config) eachTensor(f func(p Param, times int)) {
	one, times := c.OneOfEach()
	for _, p := range ParamsOf(one, Options{}) {
		if p.Layer == Outside {
			f(p, 1)
		} else {
			f(p, times[p.Layer])
		}
	}
}

// Params lists the model's parameters in memory order, without backing memory. The weights of q, k and v are
// adjacent, and so are their biases. The same holds for gate and up. Each such run is one matrix.
func (c Config) Params() []Param { return ParamsOf(c, Options{}) }
