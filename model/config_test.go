package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// llama1B returns the configuration of Llama-3.2-1B.
func llama1B() Config {
	return Config{Family: "llama", Vocab: 128256, Dim: 2048, Inner: 8192, Layers: 16, Heads: 32, KVHeads: 8, HeadDim: 64,
		MaxPositions: 131072, NormEps: 1e-5, RoPETheta: 500000, RoPEScaling: &RoPEScaling{Kind: RoPELlama3,
			Factor: 32, LowFreqFactor: 1,
			HighFreqFactor: 4, OriginalMaxPositions: 8192}, Tied: true,
		PadID: -1, BOS: []int32{128000}, EOS: []int32{128001, 128008, 128009}}
}

func TestParamCount(t *testing.T) {
	if cfg := llama1B(); cfg.Validate() != nil || cfg.ParamCount() != 1_235_814_400 || cfg.TensorCount() != 146 {
		t.Errorf("Llama-3.2-1B: %v, %d parameters in %d tensors", cfg.Validate(), cfg.ParamCount(), cfg.TensorCount())
	}
	// For every configuration, the list of tensors has as many parameters, and each name once.
	r := rand.New(rand.NewPCG(1, 2))
	yes := func() bool { return r.IntN(2) == 0 }
	for range 300 {
		cfg := llama1B()
		cfg.Vocab, cfg.Dim, cfg.Inner, cfg.Layers = 1+r.IntN(99), 1+r.IntN(99), 1+r.IntN(99), 1+r.IntN(4)
		cfg.KVHeads, cfg.HeadDim = 1+r.IntN(4), 2+2*r.IntN(9)
		cfg.Heads = cfg.KVHeads * (1 + r.IntN(3))
		cfg.Tied, cfg.QKVBias, cfg.OutBias, cfg.MLPBias, cfg.QKNorm = yes(), yes(), yes(), yes(), yes()
		if yes() {
			cfg.MLPBias = false
			cfg.Mixture = &Mixture{Experts: 1 + r.IntN(3), PerToken: 1, Inner: 1 + r.IntN(99)}
			for i := range cfg.Layers {
				if yes() {
					cfg.Mixture.Dense = append(cfg.Mixture.Dense, i)
				}
			}
		}
		expect.OK(t, cfg.Validate())
		sum, names := int64(0), map[string]bool{}
		for _, s := range cfg.Params() {
			n := int64(1)
			for _, d := range s.W.Shape {
				n *= int64(d)
			}
			sum += n
			names[s.Name] = true
			if norm := strings.Contains(s.Name, "norm"); s.Norm != norm ||
				s.Decay == (norm || strings.HasSuffix(s.Name, ".bias")) || (len(s.W.Shape) == 2) != s.Decay {
				t.Errorf("%+v", s)
			}
		}
		if sum != cfg.ParamCount() || len(names) != cfg.TensorCount() || len(cfg.Params()) != len(names) {
			t.Errorf("%+v: %d parameters in %d tensors, counted as %d in %d", cfg, sum, len(names), cfg.ParamCount(),
				cfg.TensorCount())
		}
	}
}

// TestTensorsInOrder checks the order on which the merged matrices rely.
func TestTensorsInOrder(t *testing.T) {
	llama, mixtral := llama1B(), llama1B()
	llama.Layers, llama.Tied, llama.QKNorm = 1, false, true
	llama.QKVBias, llama.OutBias, llama.MLPBias = true, true, true
	mixtral.Layers, mixtral.Family, mixtral.Mixture = 1, "mixtral", &Mixture{Experts: 2, PerToken: 1, Inner: 8}
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{llama, []string{"model.embed_tokens.weight", "input_layernorm.weight",
			"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
			"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias", "self_attn.q_norm.weight",
			"self_attn.k_norm.weight", "self_attn.o_proj.weight", "self_attn.o_proj.bias", "post_attention_layernorm.weight",
			"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.weight",
			"mlp.down_proj.bias", "model.norm.weight", "lm_head.weight"}},
		{mixtral, []string{"model.embed_tokens.weight", "input_layernorm.weight", // the gates are w1
			"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.o_proj.weight",
			"post_attention_layernorm.weight", "block_sparse_moe.gate.weight",
			"block_sparse_moe.experts.0.w1.weight", "block_sparse_moe.experts.0.w3.weight",
			"block_sparse_moe.experts.1.w1.weight", "block_sparse_moe.experts.1.w3.weight",
			"block_sparse_moe.experts.0.w2.weight", "block_sparse_moe.experts.1.w2.weight", "model.norm.weight"}},
	} {
		var got []string
		for _, s := range c.cfg.Params() {
			got = append(got, strings.TrimPrefix(s.Name, "model.layers.0."))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got  %v\nwant %v", c.cfg.Family, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Vocab = 0 }, "vocab_size 0: must be 1 to"},
		{func(c *Config) { c.Dim = -1 }, "hidden_size -1"},
		{func(c *Config) { c.Inner = math.MaxInt }, "intermediate_size 9223372036854775807"},
		{func(c *Config) { c.Layers = 1 << 13 }, "num_hidden_layers 8192"},
		{func(c *Config) { c.Heads = 0 }, "num_attention_heads 0"},
		{func(c *Config) { c.KVHeads = 5 }, "num_attention_heads 32: must be a multiple of num_key_value_heads 5"},
		{func(c *Config) { c.KVHeads = 64 }, "num_attention_heads 32: must be a multiple of num_key_value_heads 64"},
		{func(c *Config) { c.HeadDim = 63 }, "head_dim 63: must be even"},
		{func(c *Config) { c.HeadDim = 1 << 20 }, "must be at most"},
		{func(c *Config) { c.MaxPositions = 1 << 40 }, "max_position_embeddings 1099511627776"},
		{func(c *Config) { c.NormEps = float32(math.NaN()) }, "rms_norm_eps NaN"},
		{func(c *Config) { c.RoPETheta = 0 }, "rope_theta 0"},
		{func(c *Config) { c.RoPETheta = math.Inf(1) }, "rope_theta +Inf"},
		{func(c *Config) { c.RoPEScaling.Factor = math.NaN() }, "rope_scaling: factor NaN"},
		{func(c *Config) { c.RoPEScaling.OriginalMaxPositions = 0 }, "rope_scaling: original_max_position_embeddings 0"},
		{func(c *Config) { c.RoPEScaling.Kind = "ntk" }, `rope_type "ntk"`},
		{func(c *Config) { c.RoPEScaling.HighFreqFactor = 1 }, "low_freq_factor: must be less than high_freq_factor"},
		{func(c *Config) { c.Window = -1 }, "sliding_window -1"},
		{func(c *Config) { c.PadID = 128256 }, "pad_token_id 128256: outside the vocabulary of 128256"},
		{func(c *Config) { c.Dim, c.Inner, c.Layers = maxWidth, maxWidth, maxLayers }, "parameters: more than"},
	} {
		cfg := llama1B()
		test.edit(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// FuzzValidate checks with integers of any size that no sum or product of a valid configuration overflowed.
func FuzzValidate(f *testing.F) {
	f.Add(128256, 2048, 8192, 16, 32, 8, 64, true)
	f.Add(maxVocab, maxWidth, maxWidth, maxLayers, maxWidth/2, maxWidth/2, 2, false)
	f.Add(1, 1, 1, 1, 1, 1, 2, false)
	f.Fuzz(func(t *testing.T, vocab, dim, inner, layers, heads, kvHeads, headDim int, has bool) {
		cfg := llama1B()
		cfg.Vocab, cfg.Dim, cfg.Inner, cfg.Layers, cfg.Heads, cfg.KVHeads, cfg.HeadDim = vocab, dim, inner, layers, heads,
			kvHeads, headDim
		cfg.Tied, cfg.QKVBias, cfg.OutBias, cfg.MLPBias, cfg.QKNorm = !has, has, has, has, has
		if cfg.Validate() != nil {
			return
		}
		product := func(factors ...int) *big.Int {
			p := big.NewInt(1)
			for _, f := range factors {
				p.Mul(p, big.NewInt(int64(f)))
			}
			return p
		}
		sum := product(vocab, dim)
		sum.Add(sum, product(dim))
		for _, p := range []*big.Int{product(2, dim), product(2, dim, heads, headDim), product(2, dim, kvHeads, headDim),
			product(3, dim, inner)} {
			sum.Add(sum, p.Mul(p, big.NewInt(int64(layers))))
		}
		if has {
			sum.Add(sum, product(vocab, dim))
			for _, p := range []*big.Int{product(heads, headDim), product(2, kvHeads, headDim), product(2, dim),
				product(2, inner), product(2, headDim)} {
				sum.Add(sum, p.Mul(p, big.NewInt(int64(layers))))
			}
		}
		if !sum.IsInt64() || sum.Int64() != cfg.ParamCount() || sum.BitLen() > 57 {
			t.Errorf("%+v: %v parameters, counted as %d", cfg, sum, cfg.ParamCount())
		}
	})
}
