package hf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"restyle/gguf"
	"restyle/model"
)

// A GGUF file has names of its own for a model's parameters. In this table, whatever follows "blk.N." is in a layer.
var ggufNames = []struct{ gguf, hf string }{
	{"token_embd", "model.embed_tokens"},
	{"output_norm", "model.norm"},
	{"output", "lm_head"},
	{"blk.N.attn_norm", "input_layernorm"},
	{"blk.N.attn_q", "self_attn.q_proj"},
	{"blk.N.attn_k", "self_attn.k_proj"},
	{"blk.N.attn_v", "self_attn.v_proj"},
	{"blk.N.attn_output", "self_attn.o_proj"},
	{"blk.N.attn_q_norm", "self_attn.q_norm"},
	{"blk.N.attn_k_norm", "self_attn.k_norm"},
	{"blk.N.ffn_norm", "post_attention_layernorm"},
	{"blk.N.ffn_gate", "mlp.gate_proj"},
	{"blk.N.ffn_up", "mlp.up_proj"},
	{"blk.N.ffn_down", "mlp.down_proj"},
	{"blk.N.ffn_gate_inp", "mlp.gate"},
	{"blk.N.ffn_gate_exps", "mlp.experts.E.gate_proj"},
	{"blk.N.ffn_up_exps", "mlp.experts.E.up_proj"},
	{"blk.N.ffn_down_exps", "mlp.experts.E.down_proj"},
}

// mixtralNames are Mixtral's names of what the table has by the names of Qwen3-MoE.
var mixtralNames = strings.NewReplacer("mlp.gate.", "block_sparse_moe.gate.", "mlp.experts.",
	"block_sparse_moe.experts.", ".gate_proj.", ".w1.", ".up_proj.", ".w3.", ".down_proj.", ".w2.")

// qwenNames are the other way.
var qwenNames = strings.NewReplacer("block_sparse_moe.gate.", "mlp.gate.", "block_sparse_moe.experts.", "mlp.experts.",
	".w1.", ".gate_proj.", ".w3.", ".up_proj.", ".w2.", ".down_proj.")

// expertNumbers finds the number of an expert in a name.
var expertNumbers = regexp.MustCompile(`\.experts\.(\d+)\.`)

// A ggufPlace is where a GGUF file has a parameter: a whole tensor, or one expert's part of a tensor in which the
// experts' matrices are stacked.
type ggufPlace struct {
	tensor string
	expert int // -1 if the whole tensor is one parameter
	heads  int // 0 if rows are in order; otherwise the number of heads, each with its rows rotated (see rotated)
}

// ggufPlaces returns the names and places of the parameters in a tensor of a GGUF file. There are none if the name is
// unknown. Experts are counted by the tensor's own dimensions, not only by a key.
func ggufPlaces(c model.Config, t gguf.Tensor) (map[string]ggufPlace, error) {
	stem, suffix, _ := cutLast(t.Name, ".")
	layer := ""
	if rest, is := strings.CutPrefix(stem, "blk."); is {
		layer, stem, _ = strings.Cut(rest, ".")
		if n, err := strconv.Atoi(layer); err != nil || strconv.Itoa(n) != layer {
			return nil, nil
		}
		stem = "blk.N." + stem
	}
	for _, names := range ggufNames {
		if names.gguf != stem || suffix != "weight" && suffix != "bias" {
			continue
		}
		name := names.hf + "." + suffix
		if layer != "" {
			name = "model.layers." + layer + "." + name
		}
		if c.Family == "mixtral" && c.Mixture != nil {
			name = mixtralNames.Replace(name)
		}
		place := ggufPlace{t.Name, -1, ggufHeads(c, stem)}
		if !strings.Contains(name, ".E.") {
			return map[string]ggufPlace{name: place}, nil
		}
		if c.Mixture == nil {
			return nil, nil
		}
		if experts := c.Mixture.Experts; len(t.Dims) != 3 || t.Dims[2] != experts {
			return nil, fmt.Errorf("%s has dimensions %v: must be three, the last the %d experts", t.Name, t.Dims, experts)
		}
		places := map[string]ggufPlace{}
		for e := range c.Mixture.Experts {
			place.expert = e
			places[strings.Replace(name, ".E.", fmt.Sprintf(".%d.", e), 1)] = place
		}
		return places, nil
	}
	return nil, nil
}

// ggufHeads returns the number of heads whose rows a tensor has rotated, 0 if its rows are in order.
//
// RoPE turns pairs of a head's elements: in Hugging Face's models i and i + d/2, in llama.cpp's llama, but not in its
// other architectures, 2i and 2i + 1. So row 2i of a head there is row i here, and 2i + 1 is i + d/2.
func ggufHeads(c model.Config, stem string) int {
	switch arch := GGUFArchitecture(c); {
	case arch == "llama" && stem == "blk.N.attn_q":
		return c.Heads
	case arch == "llama" && stem == "blk.N.attn_k":
		return c.KVHeads
	}
	return 0
}

// rotated returns the row of a head of d rows in a GGUF file that is row i of it here.
func rotated(i, d int) int { return i%(d/2)*2 + i/(d/2) }

// GGUFArchitecture returns llama.cpp's name of a model's family, "" if it has none.
func GGUFArchitecture(c model.Config) string {
	switch c.Family {
	case "llama", "mistral", "mixtral":
		return "llama"
	case "qwen2", "qwen3":
		return c.Family
	case "qwen3_moe":
		return "qwen3moe"
	}
	return ""
}

// cutLast is strings.Cut at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
