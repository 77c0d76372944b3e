package hf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/model"
	"restyle/tensor"
)

// TestExpertsConfig checks which layers of a configuration have experts, and what absent keys mean.
func TestExpertsConfig(t *testing.T) {
	for keys, want := range map[string]*model.Mixture{
		`"model_type": "mixtral"`: {Experts: 8, PerToken: 2, Inner: 14336, Normalized: true},
		`"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 3, "intermediate_size": 24,
			"router_aux_loss_coef": 0.02`: {Experts: 4, PerToken: 3, Inner: 24, Normalized: true, Balance: 0.02},
		`"model_type": "qwen3_moe", "num_hidden_layers": 3`: {Experts: 128, PerToken: 8, Inner: 768},
		`"model_type": "qwen3_moe", "num_hidden_layers": 5, "num_experts": 16, "norm_topk_prob": true,
			"moe_intermediate_size": 20, "mlp_only_layers": [3, 9], "decoder_sparse_step": 2`: {
			Experts: 16, PerToken: 8, Inner: 20, Normalized: true, Dense: []int{0, 2, 3, 4}},
		`"model_type": "qwen3_moe", "num_hidden_layers": 2, "mlp_only_layers": [1, 0]`: nil,
		`"model_type": "qwen3_moe", "num_hidden_layers": 2, "num_experts": 0`:          nil,
		`"model_type": "qwen3_moe", "num_hidden_layers": 3, "decoder_sparse_step": 4`:  nil,
		`"model_type": "qwen3_moe", "num_hidden_layers": 2, "mlp_only_layers": null`: {Experts: 128, PerToken: 8,
			Inner: 768},
		`"model_type": "qwen3_moe", "num_hidden_layers": 2, "num_local_experts": 9`: {Experts: 9, PerToken: 8, Inner: 768},
	} {
		if want != nil {
			want.Balance = cmp.Or(want.Balance, 0.001)
		}
		got, err := ParseConfig([]byte("{" + keys + "}"))
		if err != nil || fmt.Sprintf("%+v", got.Mixture) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v, %v, want %+v", keys, got.Mixture, err, want)
		}
	}
	for keys, want := range map[string]string{
		`"model_type": "mixtral", "num_local_experts": 0`:             "number of experts 0: must be 1 to",
		`"model_type": "mixtral", "num_experts_per_tok": 9`:           "num_experts_per_tok 9: must be 1 to 8",
		`"model_type": "mixtral", "num_local_experts": 1e9`:           "num_local_experts",
		`"model_type": "mixtral", "num_local_experts": 1000000`:       "number of experts 1000000: must be 1 to",
		`"model_type": "qwen3_moe", "decoder_sparse_step": 0`:         "decoder_sparse_step is 0",
		`"model_type": "qwen3_moe", "moe_intermediate_size": 4194304`: "width of an expert 4194304: must be 1 to",
		`"model_type": "qwen3_moe", "num_experts_per_tok": "2"`:       "num_experts_per_tok",
		`"model_type": "qwen3_moe", "num_hidden_layers": 1000000000`:  "num_hidden_layers 1000000000: must be",
		`"model_type": "qwen3_moe", "mlp_only_layers": {"0": true}`:   "mlp_only_layers",
		`"model_type": "mixtral", "architectures": ["MixtralModel"]`:  "only MixtralForCausalLM is supported",
	} {
		if _, err := ParseConfig([]byte("{" + keys + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

const smallMixtral = `{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 11,
	"hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
	"num_local_experts": 3, "num_experts_per_tok": 2, "max_position_embeddings": 16}`

// TestExpertsFiles loads a mixture, saves it and loads it again: the experts' matrices are next to each other in
// memory, and are tensors of their own in files.
func TestExpertsFiles(t *testing.T) {
	all := newWeights(t, smallMixtral, tensor.F32)
	first, err := OpenModel(writeModel(t, smallMixtral, all))
	expect.OK(t, err)
	defer first.Close()
	d, params := newParams(t, first.Config, tensor.F32)
	expect.OK(t, first.Load(t.Context(), d, params, nil))
	dir := t.TempDir()
	expect.OK(t, Save(dir, first, d, params, SaveOptions{}))
	second, err := OpenModel(dir)
	expect.OK(t, err)
	defer second.Close()
	d, params = newParams(t, second.Config, tensor.F32)
	expect.OK(t, second.Load(t.Context(), d, params, nil))
	experts := 0
	for _, p := range params {
		got, err := d.Floats(p.W)
		if err != nil || !slices.Equal(got, all[p.Name].data) {
			t.Errorf("%s: %v, %v, want %v", p.Name, got, err, all[p.Name].data)
		}
		if strings.Contains(p.Name, "block_sparse_moe.experts.") {
			experts++
		}
	}
	if experts != 2*3*3 {
		t.Errorf("%d matrices of experts", experts)
	}
}
