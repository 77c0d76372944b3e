package model

import (
	"slices"
	"strings"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// mixedShape is a model with matrices of all kinds but for experts, and mixtures are quantizations of its layers by
// which the parts of a matrix differ, or of which a layer or the embedding differs from others.
var mixedShape = Config{Family: "qwen3", Vocab: 64, Dim: 64, Inner: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
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

// TestQuantization_Parts compares models whose matrices have parts of different types with the same models with the
// values of the weights: logits of a prompt and of tokens, on a GPU by a graph, and losses and gradients, of adapters
// or of what is not quantized. Memory is what was planned.
func TestQuantization_Parts(t *testing.T) {
	for i, c := range mixtures {
		cfg, q := mixed(i)
		for _, adapters := range []bool{false, true} {
			for _, on := range []struct {
				dev   *kernels.Device
				dtype tensor.DType
				limit float64
			}{
				// Of few rows, the CPU rounds small activations by up to 2⁻¹⁵ of large ones.
				{device(t, kernels.Options{}), tensor.F32, 1e-4}, {device(t, kernels.Options{Fused: kernels.All()}), tensor.F32, 1e-4},
				// The values of weights are rounded to BF16, and so are products and gradients.
				{testGPU(t, kernels.Options{Fused: kernels.All()}), tensor.BF16, 0.03},
			} {
				run := func(q Quantization, coded *Model) (m *Model, results [][]float32) {
					opts := Options{DType: on.dtype, MaxTokens: 40, Context: 30, Train: true, Quantization: q}
					trained := slices.DeleteFunc(ParamsOf(cfg, opts), func(p Param) bool { return p.W.DType.Quantized() })
					if coded != nil {
						opts.Trainable = coded.opts.Trainable
					} else {
						opts.Trainable = func(name string) bool {
							return !adapters && slices.ContainsFunc(trained, func(p Param) bool { return p.Name == name })
						}
					}
					if adapters {
						opts.Adapter = adaptersOf
					}
					size := MemoryOf(on.dev, on.dev.Fused(), cfg, opts)
					m = open(t, on.dev, cfg, opts)
					if coded != nil {
						giveValues(t, m, coded)
					}
					return m, answers(t, m, cfg, size)
				}
				coded, got := run(q, nil)
				_, want := run(Quantization{}, coded)
				for j := range want {
					if off := distance(got[j], want[j]); off > on.limit {
						t.Errorf("%s, %s, adapters %t: result %d is %.2g off", c.name, on.dev.Name(), adapters, j, off)
					}
				}
			}
		}
	}
}

// answers returns what a model computes: the logits of the last tokens of a sequence, all at once, and after a prompt
// one by one, and the losses and gradients of a batch.
func answers(t *testing.T, m *Model, cfg Config, size Memory) (results [][]float32) {
	t.Helper()
	const prompt = 14
	ids := sequence(cfg, 3, prompt+4).IDs
	err := m.Logits(OneSequence(ids), func(i int, logits []float32) {
		if i >= prompt-1 {
			results = append(results, slices.Clone(logits))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	cache := newCache(t, m, 30)
	results = append(results, extend(t, m, cache, ids[:prompt]...))
	for _, id := range ids[prompt:] {
		results = append(results, extend(t, m, cache, id))
	}
	if graph := cache.graph != nil; graph == m.dev.IsCPU() {
		t.Errorf("%s: a graph is %t", m.dev.Name(), graph)
	}
	l := gradient(t, m, 1, Join(sequence(cfg, 1, 13), sequence(cfg, 2, 9)))
	results = append(results, l.Tokens, gradients(t, m))
	checkMemory(t, m, cache, size)
	return results
}

// TestQuantization_EqualParts checks that a model whose weights are listed, all with the same type, computes the bits
// of a model with one type for all.
func TestQuantization_EqualParts(t *testing.T) {
	cfg := mixedShape
	cfg.Tied = true
	one := Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}
	listed := Quantization{Weights: map[string]tensor.DType{}}
	for _, p := range ParamsOf(cfg, Options{Quantization: one}) {
		if p.W.DType.Quantized() {
			listed.Weights[p.Name] = p.W.DType
		}
	}
	for _, on := range []struct {
		dev   *kernels.Device
		dtype tensor.DType
	}{{device(t, kernels.Options{}), tensor.F32}, {testGPU(t, kernels.Options{Fused: kernels.All()}), tensor.BF16}} {
		run := func(q Quantization) [][]float32 {
			opts := Options{DType: on.dtype, MaxTokens: 40, Context: 30, Train: true, Adapter: adaptersOf,
				Trainable: func(string) bool { return false }, Quantization: q}
			return answers(t, open(t, on.dev, cfg, opts), cfg, MemoryOf(on.dev, on.dev.Fused(), cfg, opts))
		}
		if !slices.EqualFunc(run(one), run(listed), slices.Equal) {
			t.Errorf("%s: other bits", on.dev.Name())
		}
	}
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
		{"llama", "model.layers.2.self_attn.v_proj.weight", tensor.INT8, "layers.2.self_attn.v_proj.weight: the model has no"},
		{"llama", "lm_head.weight", tensor.INT8, "lm_head.weight: the model has no"},
		{"llama", "model.norm.weight", tensor.INT8, "model.norm.weight: the model has no"},
		{"biases, untied", "lm_head.weight", tensor.INT8, ""},
		{"biases, untied", "model.layers.0.self_attn.v_proj.bias", 0, "v_proj.bias: the model has no"},
		{"gpt2", "transformer.wpe.weight", tensor.INT8, "wpe.weight: the model has no"},
		{"mixtral", "model.layers.1.block_sparse_moe.gate.weight", tensor.INT8, "gate.weight: the model has no"},
		{"mixtral", expert + "w3.weight", tensor.INT8, expert + "w3.weight"},
		{"mixtral", expert + "w2.weight", tensor.INT8, "one type for all"},
	} {
		err := CheckOptions(shapes[c.shape], Options{Quantization: Quantization{Weights: map[string]tensor.DType{c.name: c.t}}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.shape, c.name, err, c.want)
		}
	}
}
