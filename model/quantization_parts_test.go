package model

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// mixedShape is a model with matrices of all kinds except experts, and mixtures are quantizations of its layers by
// which the parts of a matrix differ, or of which a layer or the embedding differs from others.
var mixedShape = Config{Family: "qwen3", Vocab: 40, Dim: 32, Inner: 48, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8,
	MaxPositions: 64, NormEps: 1e-5, RoPETheta: 10000, QKNorm: true, PadID: -1}

var mixtures = []struct {
	name          string
	tied, biased  bool
	layers, head  tensor.DType
	first, second map[string]tensor.DType // of the two layers' weights, without what all names have
	embedding     tensor.DType
}{
	{name: "v of another type", tied: true, layers: tensor.INT4, head: tensor.INT8,
		first: map[string]tensor.DType{"self_attn.v_proj": tensor.INT8}},
	{name: "all apart", biased: true, embedding: tensor.INT8,
		first: map[string]tensor.DType{"self_attn.q_proj": tensor.INT4Z, "self_attn.k_proj": tensor.NF4,
			"mlp.up_proj": tensor.INT8, "self_attn.o_proj": tensor.INT4},
		second: map[string]tensor.DType{"self_attn.k_proj": tensor.INT8, "mlp.gate_proj": tensor.NF4,
			"mlp.up_proj": tensor.INT4, "mlp.down_proj": tensor.INT4Z}},
	{name: "some plain", tied: true, biased: true, layers: tensor.INT8, embedding: tensor.INT4,
		first:  map[string]tensor.DType{"self_attn.q_proj": 0, "mlp.gate_proj": 0, "mlp.down_proj": tensor.INT4},
		second: map[string]tensor.DType{"self_attn.v_proj": 0, "mlp.up_proj": tensor.NF4, "mlp.down_proj": 0}},
	{name: "GGUF's", tied: true, layers: tensor.Q4_0, head: tensor.Q8_0,
		first:  map[string]tensor.DType{"self_attn.v_proj": tensor.Q5_0, "mlp.down_proj": 0},
		second: map[string]tensor.DType{"self_attn.k_proj": tensor.Q4_1, "mlp.up_proj": tensor.Q5_1, "mlp.down_proj": 0}},
}

// mixed returns the model and quantization of a row of mixtures.
func mixed(i int) (Config, Quantization) {
	c, cfg := mixtures[i], mixedShape
	cfg.Tied, cfg.QKVBias, cfg.OutBias, cfg.MLPBias = c.tied, c.biased, c.biased, c.biased
	q := Quantization{Layers: c.layers, Head: c.head, Weights: map[string]tensor.DType{}}
	if c.embedding != 0 {
		q.Weights["model.embed_tokens.weight"] = c.embedding
	}
	for layer, of := range map[string]map[string]tensor.DType{"0": c.first, "1": c.second} {
		for name, t := range of {
			q.Weights["model.layers."+layer+"."+name+".weight"] = t
		}
	}
	return cfg, q
}

// onDevices runs a test on the CPU, in F32, and on a GPU, in BF16, with everything fused.
func onDevices(t *testing.T, f func(t *testing.T, dev *kernels.Device, dtype tensor.DType)) {
	o := kernels.Options{Fused: kernels.All()}
	t.Run("unfused", func(t *testing.T) { f(t, device(t, kernels.Options{}), tensor.F32) })
	t.Run("CPU", func(t *testing.T) { f(t, device(t, o), tensor.F32) })
	t.Run("GPU", func(t *testing.T) { f(t, testGPU(t, o), tensor.BF16) })
}

// TestQuantization_Parts compares models whose matrices have parts of different types with the same models with the
// values of the weights: logits of a prompt and of tokens, on a GPU by a graph, and losses and gradients, of adapters
// or of what is not quantized. Memory is what was planned.
func TestQuantization_Parts(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *kernels.Device, dtype tensor.DType) {
		// Of few rows, the CPU rounds small activations by up to 2⁻¹⁵ of large ones. BF16 moves the logits of models with
		// one type by up to 0.02, and some tokens' by 0.1; a part in another's place moves all by 1.
		limit := 1e-4
		if dtype == tensor.BF16 {
			limit = 0.08
		}
		for i, c := range mixtures {
			cfg, q := mixed(i)
			for _, adapters := range []bool{i != 1, i == 1} {
				if adapters == (i == 1) && !dev.IsCPU() { // it is slow
					continue
				}
				opts := Options{DType: dtype, MaxTokens: 40, Context: 30, Train: true, Quantization: q}
				plain := map[string]bool{}
				for _, p := range ParamsOf(cfg, opts) {
					plain[p.Name] = !adapters && !p.W.DType.Quantized()
				}
				opts.Trainable = func(name string) bool { return plain[name] }
				if adapters {
					opts.Adapter, opts.AdapterDropout = adaptersOf, []float64{0, 0.3, 0, 0}[i]
				}
				coded := open(t, dev, cfg, opts)
				got := answers(t, coded, opts)
				opts.Quantization = Quantization{}
				m := open(t, dev, cfg, opts)
				giveValues(t, m, coded)
				for j, want := range answers(t, m, opts) {
					if off := distance(got[j], want); off > limit {
						t.Errorf("%s, adapters %t, result %d: %.2g off", c.name, adapters, j, off)
					}
				}
			}
		}
	})
}

// answers returns what a model computes: the logits of the last tokens of a sequence, all at once, and after a prompt
// one by one, and the losses and gradients of a batch.
func answers(t *testing.T, m *Model, opts Options) [][]float32 {
	t.Helper()
	const prompt = 14
	ids := sequence(m.cfg, 3, prompt+4).IDs
	var whole []float32
	err := m.Logits(OneSequence(ids), func(i int, logits []float32) {
		if i >= prompt-1 {
			whole = append(whole, logits...)
		}
	})
	expect.OK(t, err)
	cache := newCache(t, m, opts.Context)
	one := extend(t, m, cache, ids[:prompt]...)
	for _, id := range ids[prompt:] {
		one = append(one, extend(t, m, cache, id)...)
	}
	if graph := cache.graph != nil; graph == m.dev.IsCPU() {
		t.Errorf("a graph is %t", graph)
	}
	l := gradient(t, m, 1, Join(sequence(m.cfg, 1, 13), sequence(m.cfg, 2, 9)))
	checkMemory(t, m, cache, MemoryOf(m.dev, m.dev.Fused(), m.cfg, opts))
	return [][]float32{whole, one, l.Tokens, gradients(t, m)}
}

// TestQuantization_EqualParts checks that a model whose weights are listed, and have the types that another one has for
// all, computes the same bits.
func TestQuantization_EqualParts(t *testing.T) {
	cfg := mixedShape
	cfg.Tied = true
	onDevices(t, func(t *testing.T, dev *kernels.Device, dtype tensor.DType) {
		opts := Options{DType: dtype, MaxTokens: 40, Context: 30, Train: true, Adapter: adaptersOf,
			Trainable: func(string) bool { return false }, Quantization: Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}}
		listed := Quantization{Weights: map[string]tensor.DType{}}
		for _, p := range ParamsOf(cfg, opts) {
			if p.W.DType.Quantized() {
				listed.Weights[p.Name] = p.W.DType
			}
		}
		want := answers(t, open(t, dev, cfg, opts), opts)
		opts.Quantization = listed
		if !slices.EqualFunc(answers(t, open(t, dev, cfg, opts), opts), want, slices.Equal) {
			t.Error("other bits")
		}
	})
}

// TestQuantization_Refuses lists weights that the model does not have, or that cannot be of a type.
func TestQuantization_Refuses(t *testing.T) {
	expert := "model.layers.1.block_sparse_moe.experts.1."
	for _, c := range []struct {
		shape, name string
		t           tensor.DType
		want        string
	}{
		{"llama", "model.layers.1.self_attn.v_proj.weight", tensor.NF4, ""},
		{"llama", "model.layers.1.self_attn.v_proj.weight", tensor.BF16, ""},
		{"llama", "model.layers.1.self_attn.v_proj.weight", tensor.F16, "v_proj.weight is F16"},
		{"llama", "model.layers.2.self_attn.v_proj.weight", tensor.INT8,
			"layers.2.self_attn.v_proj.weight: the model has no"},
		{"llama", "lm_head.weight", tensor.INT8, "lm_head.weight: the model has no"},
		{"llama", "model.norm.weight", tensor.INT8, "model.norm.weight: the model has no"},
		{"biases, untied", "lm_head.weight", tensor.INT8, ""},
		{"biases, untied", "model.layers.0.self_attn.v_proj.bias", 0, "v_proj.bias: the model has no"},
		{"gpt2", "transformer.wpe.weight", tensor.INT8, "wpe.weight: the model has no"},
		{"mixtral", "model.layers.1.block_sparse_moe.gate.weight", tensor.INT8, "gate.weight: the model has no"},
		{"mixtral", expert + "w3.weight", tensor.INT8, expert + "w3.weight"},
		{"mixtral", expert + "w2.weight", tensor.INT8, "one type for all"},
	} {
		q := Quantization{Weights: map[string]tensor.DType{c.name: c.t}}
		err := CheckOptions(shapes[c.shape], Options{Quantization: q})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.shape, c.name, err, c.want)
		}
	}
}
