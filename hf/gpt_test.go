package hf

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/model"
	"restyle/tensor"
)

const smallGPT = `{"model_type": "gpt2", "vocab_size": 12, "n_embd": 6, "n_layer": 2, "n_head": 2, "n_inner": 10,
	"n_positions": 9, "tie_word_embeddings": true, "scale_attn_weights": false}`

// TestGPTConfig checks what a config.json of a GPT-2 means: all its fields, and absent ones.
func TestGPTConfig(t *testing.T) {
	whole := model.Config{Family: "gpt2", Vocab: 50257, Dim: 768, Inner: 3072, Layers: 12, Heads: 12, KVHeads: 12,
		HeadDim: 64, MaxPositions: 1024, LearnedPositions: true, NormEps: 1e-5, LayerNorm: true, NormBias: true,
		GELU: model.GELUTanh, Tied: true, QKVBias: true, OutBias: true, MLPBias: true, PadID: -1, BOS: []int32{50256},
		EOS: []int32{50256}}
	for _, test := range []struct {
		keys   string
		change func(c *model.Config)
	}{
		{`"model_type": "gpt2"`, func(*model.Config) {}},
		{`"model_type": "gpt2", "n_inner": null, "n_embd": 33, "n_head": 3`, func(c *model.Config) {
			c.Dim, c.Inner, c.Heads, c.KVHeads, c.HeadDim = 33, 132, 3, 3, 11
		}},
		{`"model_type": "gpt2", "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 3,
			"max_position_embeddings": 77`, func(c *model.Config) {
			c.Dim, c.Inner, c.Heads, c.KVHeads, c.HeadDim, c.Layers, c.MaxPositions = 24, 96, 2, 2, 12, 3, 77
		}},
		{`"model_type": "gpt2", "activation_function": "gelu", "scale_attn_by_inverse_layer_idx": true,
			"layer_norm_epsilon": 0.25, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": [2, 3],
			"pad_token_id": 4`, func(c *model.Config) {
			c.GELU, c.ByLayer, c.NormEps, c.Tied, c.BOS, c.EOS = model.GELUExact, true, 0.25, false, []int32{1}, []int32{2, 3}
		}},
		{`"model_type": "gpt2", "n_layer": 2, "num_hidden_layers": 3, "n_positions": 9, "max_position_embeddings": 8`,
			func(c *model.Config) { c.Layers, c.MaxPositions = 3, 8 }},
		{`"model_type": "gpt2", "activation_function": "gelu_python"`, func(c *model.Config) { c.GELU = model.GELUExact }},
		{`"model_type": "gpt2", "activation_function": "gelu_accurate"`, func(*model.Config) {}},
		{`"model_type": "gpt2", "scale_attn_weights": false`, func(c *model.Config) { c.Unscaled = true }},
		{`"model_type": "gpt2", "scale_attn_weights": true`, func(*model.Config) {}},
		{`"model_type": "nanogpt", "bias": false`, func(c *model.Config) {
			c.Family, c.Vocab, c.GELU, c.BOS, c.EOS = "nanogpt", 50304, model.GELUExact, nil, nil
			c.NormBias, c.QKVBias, c.OutBias, c.MLPBias = false, false, false, false
		}},
	} {
		want := whole
		test.change(&want)
		if got, err := ParseConfig([]byte("{" + test.keys + "}")); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v, want %+v", test.keys, got, err, want)
		}
	}
	for keys, want := range map[string]string{
		`"activation_function": "relu"`:  `activation_function "relu": only gelu`,
		`"n_embd": 10, "n_head": 3`:      "n_embd 10 is no multiple of the 3 attention heads",
		`"n_embd": 10, "n_head": 0`:      "n_head 0: must be 1 to",
		`"n_layer": 0`:                   "n_layer 0: must be 1 to",
		`"n_positions": 0`:               "n_positions 0: must be 1 to",
		`"n_inner": 0`:                   "n_inner 0: must be 1 to",
		`"layer_norm_epsilon": -1`:       "layer_norm_epsilon -1: must be 0",
		`"add_cross_attention": true`:    "only decoders",
		`"scale_attn_weights": 0`:        "scale_attn_weights",
		`"architectures": ["GPT2Model"]`: "only GPT2LMHeadModel is supported",
	} {
		if _, err := ParseConfig([]byte(`{"model_type": "gpt2", ` + keys + "}")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

// TestGPTFiles loads a GPT-2 as transformers saves it, as openai-community/gpt2 is stored, and nanoGPT's, whose
// matrices are not transposed. Then it saves each and loads it again.
func TestGPTFiles(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		file   func(all map[string]weight) map[string]weight
	}{
		"transformers": {smallGPT, func(all map[string]weight) map[string]weight { return all }},
		"hub": {smallGPT, func(all map[string]weight) map[string]weight {
			short := map[string]weight{
				"h.0.attn.bias":        {tensor.F32, []int{1, 1, 9, 9}, make([]float32, 81)},
				"h.1.attn.masked_bias": {tensor.F32, []int{1}, make([]float32, 1)},
			}
			for name, w := range all {
				short[strings.TrimPrefix(name, "transformer.")] = w
			}
			return short
		}},
		"nanogpt": {strings.Replace(smallGPT, "gpt2", "nanogpt", 1),
			func(all map[string]weight) map[string]weight { return all }},
	} {
		t.Run(name, func(t *testing.T) {
			all := newWeights(t, test.config, tensor.F32)
			c, err := OpenModel(writeModel(t, test.config, test.file(all)))
			expect.OK(t, err)
			defer c.Close()
			d, params := newParams(t, c.Config, tensor.F32)
			expect.OK(t, c.Load(t.Context(), d, params, nil))
			matrices := 0
			for _, p := range params {
				got, err := d.Floats(p.W)
				expect.OK(t, err)
				want := all[p.Name]
				if p.Transposed {
					matrices++
					in, out := want.shape[0], want.shape[1]
					if !slices.Equal(p.W.Shape, []int{out, in}) {
						t.Errorf("%s is %v in the file and %v in the model", p.Name, want.shape, p.W.Shape)
					}
					for i := range in {
						for o := range out {
							if got[o*in+i] != want.data[i*out+o] {
								t.Fatalf("%s: input %d of output %d is %v, want %v", p.Name, i, o, got[o*in+i], want.data[i*out+o])
							}
						}
					}
				} else if !slices.Equal(got, want.data) {
					t.Errorf("%s is %v, want %v", p.Name, got, want.data)
				}
			}
			if want := map[bool]int{true: 0, false: 8}[name == "nanogpt"]; matrices != want {
				t.Errorf("%d matrices are transposed, want %d", matrices, want)
			}
			dir := t.TempDir()
			expect.OK(t, Save(dir, c, d, params, SaveOptions{}))
			again, err := OpenModel(dir)
			if err != nil || !again.Config.Unscaled || fmt.Sprint(again.Config) != fmt.Sprint(c.Config) {
				t.Fatalf("%+v was saved as %+v, %v", c.Config, again, err)
			}
			defer again.Close()
			saved, err := OpenSafetensors(filepath.Join(dir, singleName))
			expect.OK(t, err)
			defer saved.Close()
			if got, want := saved.Names(), slices.Sorted(maps.Keys(all)); !slices.Equal(slices.Sorted(slices.Values(got)),
				want) {
				t.Errorf("%q were saved, want %q", got, want)
			}
			for name, want := range all {
				got, shape, err := saved.ReadF32(name)
				if err != nil || !slices.Equal(got, want.data) || !slices.Equal(shape, want.shape) {
					t.Errorf("%s was saved as %v %v, %v", name, shape, got, err)
				}
			}
		})
	}
}

// TestGPT_OtherTensors checks that only the masks of GPT-2's old files are ignored, and that a matrix of the other
// layout is an error.
func TestGPT_OtherTensors(t *testing.T) {
	for want, change := range map[string]func(all map[string]weight){
		"transformer.h.0.attn.rel is unknown": func(all map[string]weight) {
			all["transformer.h.0.attn.rel"] = weight{tensor.F32, []int{1}, []float32{0}}
		},
		"transformer.h.1.mlp.c_fc.weight has shape [10 6], but must have [6 10]": func(all map[string]weight) {
			w := all["transformer.h.1.mlp.c_fc.weight"]
			w.shape = []int{10, 6}
			all["transformer.h.1.mlp.c_fc.weight"] = w
		},
	} {
		all := newWeights(t, smallGPT, tensor.F32)
		change(all)
		if _, err := OpenModel(writeModel(t, smallGPT, all)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
