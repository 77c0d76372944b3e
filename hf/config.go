package hf

import (
	"cmp"
	"fmt"
	"slices"

	"restyle/model"
)

// family is what a config.json of one model_type means, especially if keys are absent. The values come from the
// configuration classes of transformers 5.23. parseConfig has the ones that all families share.
type family struct {
	class       string // in "architectures"
	vocab       int
	dim, layers int // 0: 4096, 32
	inner       int
	kvHeads     int // 0: the same as heads
	headDim     int // 0: hidden_size / num_attention_heads
	positions   int
	bos, eos    []int32
	hasBias     bool // attention_bias is read, and gives all four projections a bias
	hasMLPBias  bool // mlp_bias is read
	qkvBias     bool // q, k and v always have biases, without a key in config.json
	qkNorm      bool
	// of sliding_window; noWindow: none unless it is given; 0: there is no such key
	window int
	// sliding_window counts only with use_sliding_window
	windowSwitch bool
	windowFrom   bool                                                  // and only from layer max_window_layers on
	eps          float64                                               // of the norms; 0: 1e-6
	theta        float64                                               // of RoPE; 0: 10,000
	mixture      func(o *object, layers int, inner int) *model.Mixture // nil: there are no experts
	gpt          bool                                                  // it is a GPT-2: see object.gpt
}

var families = map[string]family{
	"llama": {class: "LlamaForCausalLM", vocab: 32000, inner: 11008, positions: 2048, bos: []int32{1}, eos: []int32{2},
		hasBias: true, hasMLPBias: true},
	"mistral": {class: "MistralForCausalLM", vocab: 32000, inner: 14336, positions: 131072, bos: []int32{1},
		eos:     []int32{2},
		kvHeads: 8, window: 4096},
	"qwen2": {class: "Qwen2ForCausalLM", vocab: 151936, inner: 22016, positions: 32768,
		kvHeads: 32, qkvBias: true, window: 4096, windowSwitch: true, windowFrom: true},
	"qwen3": {class: "Qwen3ForCausalLM", vocab: 151936, inner: 22016, positions: 32768,
		kvHeads: 32, headDim: 128, hasBias: true, qkNorm: true, window: 4096, windowSwitch: true, windowFrom: true},
	"mixtral": {class: "MixtralForCausalLM", vocab: 32000, inner: 14336, positions: 131072, bos: []int32{1},
		eos:     []int32{2},
		kvHeads: 8, window: noWindow, eps: 1e-5, theta: 1e6, mixture: (*object).mixtral},
	"qwen3_moe": {class: "Qwen3MoeForCausalLM", vocab: 151936, dim: 2048, inner: 6144, layers: 24, positions: 32768,
		kvHeads: 4, hasBias: true, qkNorm: true, window: 4096, windowSwitch: true, mixture: (*object).qwenExperts},
	"gpt2": {class: "GPT2LMHeadModel", vocab: 50257, positions: 1024, bos: []int32{50256}, eos: []int32{50256},
		gpt: true},
	"nanogpt": {class: "GPT", vocab: 50304, positions: 1024, gpt: true},
}

// maxListed limits the layers that a list of them names; Config.Validate refuses more.
const maxListed = 1 << 13

// noWindow is a family's window if sliding_window has no default.
const noWindow = -1

// activations has the supported values of GPT-2's activation_function.
var activations = map[string]model.GELU{"gelu_new": model.GELUTanh, "gelu_pytorch_tanh": model.GELUTanh,
	"gelu_python_tanh": model.GELUTanh, "gelu_fast": model.GELUTanh, "gelu_accurate": model.GELUTanh,
	"gelu": model.GELUExact, "gelu_python": model.GELUExact}

// unsupported lists keys that change what a model computes: the values that have no effect (null never has one), and
// what to do about other values.
var unsupported = []struct {
	key  string
	fine []string
	do   string
}{
	{"compression_config", nil, "compressed weights are not supported: use the repository of the original model"},
	{"pretraining_tp", []string{"1"}, "products in slices are not supported: set it to 1, which differs only by rounding"},
	{"is_encoder_decoder", []string{"false"}, "only decoders are supported"},
	{"per_layer_config", nil, "layers that differ are not supported"},
	{"attention_chunk_size", nil, "attention in chunks is not supported"},
	{"add_cross_attention", []string{"false"}, "only decoders are supported"},
}

// ParseConfig reads a config.json. Absent and null keys mean what they mean to transformers 5.23. RoPE may have its
// older spelling (rope_theta, rope_scaling) or its newer (rope_parameters). If the package would not compute the model
// as transformers does, that is an error that names the key. ParseConfig ignores keys that affect only training
// (attention_dropout, initializer_range) and keys that these models do not have.
func ParseConfig(data []byte) (model.Config, error) {
	o := parseObject(data)
	c := o.config()
	if o.err == nil {
		o.err = c.Validate()
	}
	if o.err != nil {
		return model.Config{}, fmt.Errorf("config.json: %w", o.err)
	}
	return c, nil
}

func (o *object) config() model.Config {
	f := o.family()
	if f.gpt {
		return o.gpt(f)
	}
	c := model.Config{
		Family:       optional(o, "model_type", ""),
		Vocab:        get(o, "vocab_size", f.vocab),
		Dim:          get(o, "hidden_size", cmp.Or(f.dim, 4096)),
		Inner:        get(o, "intermediate_size", f.inner),
		Layers:       get(o, "num_hidden_layers", cmp.Or(f.layers, 32)),
		Heads:        get(o, "num_attention_heads", 32),
		MaxPositions: get(o, "max_position_embeddings", f.positions),
		NormEps:      float32(get(o, "rms_norm_eps", cmp.Or(f.eps, 1e-6))),
		Tied:         get(o, "tie_word_embeddings", false),
		OutBias:      f.hasBias && get(o, "attention_bias", false),
		MLPBias:      f.hasMLPBias && get(o, "mlp_bias", false),
		QKNorm:       f.qkNorm,
		PadID:        -1,
		BOS:          o.ids("bos_token_id", f.bos),
		EOS:          o.ids("eos_token_id", f.eos),
	}
	c.QKVBias = f.qkvBias || c.OutBias
	c.KVHeads = c.Heads
	if !o.null("num_key_value_heads") && (f.kvHeads > 0 || o.has("num_key_value_heads")) {
		c.KVHeads = get(o, "num_key_value_heads", f.kvHeads)
	}
	if o.err == nil && (c.Heads < 1 || c.Layers < 1) {
		o.err = c.Validate() // before dividing by its values
	}
	if o.err == nil {
		c.HeadDim = o.headDim(f, c)
		c.PadID = o.padID(c.Vocab)
		c.Window = o.window(f, c.Layers)
		c.RoPETheta, c.RoPEScaling = o.rope(c.MaxPositions, cmp.Or(f.theta, 10000))
		if f.mixture != nil {
			c.Mixture = f.mixture(o, c.Layers, c.Inner)
		}
	}
	return c
}

// mixtral returns the experts of a Mixtral, which all layers have.
func (o *object) mixtral(_, inner int) *model.Mixture {
	return &model.Mixture{
		Experts:  get(o, "num_experts", get(o, "num_local_experts", 8)),
		PerToken: get(o, "num_experts_per_tok", 2), Inner: inner, Normalized: true, Balance: o.balance(),
	}
}

// balance returns the factor of the auxiliary loss.
func (o *object) balance() float64 { return optional(o, "router_aux_loss_coef", 0.001) }

// qwenExperts returns the experts of a Qwen3-MoE, or nil if all layers are dense.
func (o *object) qwenExperts(layers, _ int) *model.Mixture {
	m := &model.Mixture{
		Experts:    get(o, "num_local_experts", get(o, "num_experts", 128)),
		PerToken:   get(o, "num_experts_per_tok", 8),
		Inner:      get(o, "moe_intermediate_size", 768),
		Normalized: get(o, "norm_topk_prob", false),
		Balance:    o.balance(),
	}
	dense, step := optional(o, "mlp_only_layers", []int(nil)), get(o, "decoder_sparse_step", 1)
	if step < 1 {
		o.fail("decoder_sparse_step is %d: it must be positive", step)
		return nil
	}
	for i := range min(layers, maxListed) {
		if slices.Contains(dense, i) || (i+1)%step != 0 {
			m.Dense = append(m.Dense, i)
		}
	}
	if m.Experts == 0 || len(m.Dense) == layers {
		return nil
	}
	return m
}

// gpt returns the configuration of a GPT-2: as transformers has it, or of nanogpt, whose files store matrices as
// [out, in], whose biases can be left out, and whose GELU is exact. Like transformers, it takes Llama's names of some
// keys as well, and prefers them.
func (o *object) gpt(f family) model.Config {
	name := optional(o, "model_type", "")
	c := model.Config{
		Family:           name,
		Vocab:            get(o, "vocab_size", f.vocab),
		Dim:              get(o, "hidden_size", get(o, "n_embd", 768)),
		Layers:           get(o, "num_hidden_layers", get(o, "n_layer", 12)),
		Heads:            get(o, "num_attention_heads", get(o, "n_head", 12)),
		MaxPositions:     get(o, "max_position_embeddings", get(o, "n_positions", f.positions)),
		LearnedPositions: true,
		NormEps:          float32(get(o, "layer_norm_epsilon", 1e-5)),
		LayerNorm:        true,
		Tied:             get(o, "tie_word_embeddings", true),
		Unscaled:         !get(o, "scale_attn_weights", true),
		ByLayer:          get(o, "scale_attn_by_inverse_layer_idx", false),
		PadID:            -1, // the padding token's row gets a gradient like any other
		BOS:              o.ids("bos_token_id", f.bos),
		EOS:              o.ids("eos_token_id", f.eos),
	}
	biased, activation := true, "gelu_new"
	if name == "nanogpt" {
		biased, activation = get(o, "bias", true), "gelu"
	}
	c.NormBias, c.QKVBias, c.OutBias, c.MLPBias = biased, biased, biased, biased
	activation = get(o, "activation_function", activation)
	if c.GELU = activations[activation]; c.GELU == "" {
		o.fail("activation_function %.60q: only gelu and gelu_new, under any of their names, are supported", activation)
	}
	c.Inner = optional(o, "n_inner", 4*c.Dim)
	if c.KVHeads = c.Heads; c.Heads > 0 {
		if c.HeadDim = c.Dim / c.Heads; c.Dim%c.Heads != 0 {
			o.fail("n_embd %d is no multiple of the %d attention heads", c.Dim, c.Heads)
		}
	}
	return c
}

// family returns the model's family, and refuses other models.
func (o *object) family() family {
	const supported = "llama, mistral, mixtral, qwen2, qwen3, qwen3_moe and gpt2 are supported"
	name := optional(o, "model_type", "")
	f, ok := families[name]
	classes := optional(o, "architectures", []string(nil))
	switch act := get(o, "hidden_act", "silu"); {
	case name == "":
		o.fail("there is no model_type: %s", supported)
	case !ok:
		o.fail("model_type %.60q: %s", name, supported)
	case len(classes) > 0 && !slices.Contains(classes, f.class):
		o.fail("architectures %.60q: of %s models only %s is supported", classes, name, f.class)
	case act != "silu" && act != "swish":
		o.fail("hidden_act %.60q: only silu is supported", act)
	}
	o.quantization() // refuses another program's
	for _, u := range unsupported {
		if o.has(u.key) && !slices.Contains(u.fine, string(o.keys[u.key])) {
			o.fail("%s is %.60s: %s", u.key, o.keys[u.key], u.do)
		}
	}
	return f
}

func (o *object) headDim(f family, c model.Config) int {
	// The class for Llama refuses this even if head_dim is given, so no such model exists.
	if c.Dim%c.Heads != 0 && (c.Family == "llama" || !o.has("head_dim") && f.headDim == 0) {
		o.fail("hidden_size %d is no multiple of the %d attention heads", c.Dim, c.Heads)
	}
	if f.headDim > 0 {
		return get(o, "head_dim", f.headDim)
	}
	return optional(o, "head_dim", c.Dim/c.Heads)
}

// padID counts a negative id from the end, as PyTorch's embedding does.
func (o *object) padID(vocab int) int {
	if !o.has("pad_token_id") {
		return -1
	}
	id := get(o, "pad_token_id", 0)
	if id < -vocab || id >= vocab {
		o.fail("pad_token_id %d is outside the vocabulary of %d: set it to null", id, vocab)
	}
	if id < 0 {
		id += vocab
	}
	return id
}

// window returns the width of the attention window, 0 if there is none. A window in only some of the layers is an
// error.
func (o *object) window(f family, layers int) int {
	width, first := 0, 0 // first is the first layer that has it
	switch {
	case f.window == 0 && !o.has("sliding_window"):
	case f.window == 0:
		o.fail("sliding_window is %.60s: these models have none; set it to null", o.keys["sliding_window"])
	case f.windowSwitch && !get(o, "use_sliding_window", false), o.null("sliding_window"),
		f.window == noWindow && !o.has("sliding_window"):
	default:
		width = optional(o, "sliding_window", f.window)
		if width < 1 {
			o.fail("sliding_window is %d: it must be positive, or null for none", width)
		}
		if f.windowFrom {
			first = max(get(o, "max_window_layers", 28), 0)
		}
	}
	sliding := layers - min(first, layers)
	if width == 0 {
		sliding = 0
	}
	if types := optional(o, "layer_types", []string(nil)); types != nil {
		listed := 0
		for _, t := range types {
			switch t {
			case "sliding_attention":
				listed++
			case "full_attention", "attention":
			default:
				o.fail("layer_types has %.60q: only full_attention and sliding_attention are supported", t)
			}
		}
		switch {
		case len(types) != layers:
			o.fail("layer_types has %d entries for %d layers", len(types), layers)
		case listed != sliding && (!f.windowSwitch || width == 0):
			// Classes without use_sliding_window do not read layer_types.
			o.fail("layer_types has a sliding window in %d layers, the other keys have one in %d: make them agree", listed,
				sliding)
		}
		sliding = listed
	}
	switch sliding {
	case 0:
		return 0
	case layers:
		return width
	}
	o.fail("%d of %d layers have a sliding window: it is supported in all or in none", sliding, layers)
	return 0
}

// ropeScaling reads the scaling of a kind from r, which belongs to the config o.
func (o *object) ropeScaling(r *object, kind model.RoPEKind, positions int) *model.RoPEScaling {
	required := map[model.RoPEKind][]string{
		model.RoPELinear: {"factor"}, model.RoPEDynamic: {"factor"}, model.RoPEYaRN: {"factor"},
		model.RoPELong:   {"short_factor", "long_factor"},
		model.RoPELlama3: {"factor", "low_freq_factor", "high_freq_factor"},
	}
	keys, known := required[kind]
	if !known {
		r.fail("rope_type %.60q: must be default, linear, dynamic, yarn, longrope or llama3", kind)
	}
	for _, k := range keys {
		if _, there := r.keys[k]; !there {
			r.fail("%s is missing", k)
		}
	}
	s := &model.RoPEScaling{Kind: kind}
	// Next to the object it wins over the one inside.
	original := get(o, "original_max_position_embeddings", get(r, "original_max_position_embeddings", positions))
	if kind != model.RoPELinear && kind != model.RoPEDynamic {
		s.OriginalMaxPositions = original
	}
	if kind == model.RoPEYaRN || kind == model.RoPELong { // the ratio of the lengths if there is none
		s.Factor = optional(r, "factor", float64(positions)/float64(max(1, original)))
		if s.AttentionFactor = optional(r, "attention_factor", 0.0); r.has("attention_factor") && s.AttentionFactor == 0 {
			r.fail("attention_factor is 0: it must be positive")
		}
	} else {
		s.Factor = get(r, "factor", 0.0)
	}
	switch kind {
	case model.RoPEYaRN:
		s.BetaFast = cmp.Or(optional(r, "beta_fast", 32.0), 32)
		s.BetaSlow = cmp.Or(optional(r, "beta_slow", 1.0), 1)
		s.Untruncated = !optional(r, "truncate", true)
		s.MScale, s.MScaleAllDim = optional(r, "mscale", 0.0), optional(r, "mscale_all_dim", 0.0)
	case model.RoPELong:
		s.Short, s.Long = get(r, "short_factor", []float64(nil)), get(r, "long_factor", []float64(nil))
	case model.RoPELlama3:
		s.LowFreqFactor, s.HighFreqFactor = get(r, "low_freq_factor", 0.0), get(r, "high_freq_factor", 0.0)
	}
	return s
}

// rope reads the base of RoPE and its scaling, which is nil if there is none.
func (o *object) rope(positions int, base float64) (theta float64, scaling *model.RoPEScaling) {
	key := "rope_parameters"
	if o.has("rope_scaling") && string(o.keys["rope_scaling"]) != "{}" {
		key = "rope_scaling" // if both are there, the older key wins
	}
	r := &object{}
	if o.has(key) {
		r = parseObject(o.keys[key])
	}
	theta = get(r, "rope_theta", get(o, "rope_theta", base))
	for _, k := range []string{"full_attention", "sliding_attention"} {
		if r.has(k) {
			r.fail("%s: RoPE that differs between layers is not supported", k)
		}
	}
	if kind := get(r, "rope_type", get(r, "type", "default")); kind != "default" {
		// Without scaling, the models of these families turn whole heads in spite of it.
		if part := optional(r, "partial_rotary_factor", optional(o, "partial_rotary_factor", 1.0)); part != 1 {
			r.fail("partial_rotary_factor is %v: RoPE over a part of the head is not supported", part)
		}
		scaling = o.ropeScaling(r, model.RoPEKind(kind), positions)
	}
	if r.err != nil {
		o.fail("%s: %w", key, r.err)
	}
	return theta, scaling
}
