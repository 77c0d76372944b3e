package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// llama1B is the shape of Llama-3.2-1B.
//
//go:embed llama-3.2-1b.json
var llama1B []byte

// llamaConfig returns the config.json of a Llama without RoPE scaling.
func llamaConfig(vocab, dim, inner, layers, heads, kvHeads, positions int, theta float64) []byte {
	return fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
"vocab_size": %d, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d,
"num_attention_heads": %d, "num_key_value_heads": %d, "max_position_embeddings": %d,
"rope_theta": %g, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}`,
		vocab, dim, inner, layers, heads, kvHeads, positions, theta)
}

// modelShapes are the models that --config knows by name. small is a model to train from scratch, for example on a
// book.
var modelShapes = map[string]func() ([]byte, error){
	"llama-3.2-1b": func() ([]byte, error) { return llama1B, nil },
	"llama-3.1-8b": func() ([]byte, error) {
		return llamaConfig(128256, 4096, 14336, 32, 32, 8, 131072, 500000), nil
	},
	"llama-3.1-70b": func() ([]byte, error) {
		return llamaConfig(128256, 8192, 28672, 80, 64, 8, 131072, 500000), nil
	},
	"llama-2-7b":  func() ([]byte, error) { return llamaConfig(32000, 4096, 11008, 32, 32, 32, 4096, 10000), nil },
	"llama-2-13b": func() ([]byte, error) { return llamaConfig(32000, 5120, 13824, 40, 40, 40, 4096, 10000), nil },
	"llama-2-70b": func() ([]byte, error) { return llamaConfig(32000, 8192, 28672, 80, 64, 8, 4096, 10000), nil },
	"small":       func() ([]byte, error) { return llamaConfig(4096, 384, 1024, 6, 6, 6, 8192, 10000), nil },
	"starter": func() ([]byte, error) {
		dir, err := data.StarterModel()
		if err != nil {
			return nil, err
		}
		return fs.ReadFile(dir, "config.json")
	},
}

// configHelp is the help of --config.
var configHelp = "`models`, separated by commas: each a config.json, or one of " +
	strings.Join(slices.Sorted(maps.Keys(modelShapes)), ", ") + "; the weights are random"

// A shape is a model's configuration.
type shape struct {
	name   string // for people
	config model.Config
	file   []byte // its config.json
}

// shapeOf returns the model that a flag gives by its name or by the path of a config.json.
func shapeOf(flag, name string) (s shape, err error) {
	s.name = name
	if known, ok := modelShapes[strings.ToLower(name)]; ok {
		s.file, err = known()
	} else if s.file, err = disk.ReadInput(name, disk.MaxRecord); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: name a config.json, or one of %s", err,
			strings.Join(slices.Sorted(maps.Keys(modelShapes)), ", "))
	}
	if err == nil {
		s.config, err = hf.ParseConfig(s.file)
	}
	if err != nil {
		return s, fmt.Errorf("%s %s: %w", flag, name, err)
	}
	return s, nil
}

// shapesOf returns the models that a flag gives as a list.
func shapesOf(flag, list string) (all []shape, err error) {
	for name := range strings.SplitSeq(list, ",") {
		s, err := shapeOf(flag, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// The experts of a mixture that is derived from a dense model, and how many of them a token goes through.
const derivedExperts, derivedPerToken = 8, 2

// counterpart returns the model of the same active size and the other kind: for a mixture of experts, the dense model
// that is as wide as the experts of a token together, and for a dense model, a mixture of 8 experts, each half as
// wide. A token goes through two of them. It takes the same multiplications in both models, except in the router.
func (s shape) counterpart() (other shape, err error) {
	other = shape{config: s.config}
	c := &other.config
	family := map[string]string{"mixtral": "mistral", "qwen3_moe": "qwen3", "llama": "mixtral", "mistral": "mixtral",
		"qwen2": "mixtral", "qwen3": "qwen3_moe"}[c.Family]
	switch m := c.Mixture; {
	case family == "":
		return other, fmt.Errorf("--moe: %s is a %s, which has no mixture of experts of the same active size", s.name,
			c.Family)
	case m != nil:
		other.name = s.name + ", dense"
		c.Inner, c.Mixture = m.PerToken*m.Inner, nil
	default:
		other.name = fmt.Sprintf("%s, %d of %d experts", s.name, derivedPerToken, derivedExperts)
		c.Mixture = &model.Mixture{Experts: derivedExperts, PerToken: derivedPerToken, Inner: c.Inner / derivedPerToken,
			Normalized: true}
		c.MLPBias = false
	}
	c.Family = family
	if err := c.Validate(); err != nil {
		return other, fmt.Errorf("--moe: %s: %w", other.name, err)
	}
	return other, nil
}

// fusedSets returns the sets that --fused names, and the names of their forms.
func fusedSets(list string) (sets []kernels.Fused, forms []string, err error) {
	if list == "both" {
		return []kernels.Fused{{}, kernels.All()}, []string{"standard", "fused"}, nil
	}
	f, err := kernels.ParseFused(list)
	if err != nil {
		return nil, nil, fmt.Errorf("--fused: %w, or both", err)
	}
	return []kernels.Fused{f}, []string{formOf(f)}, nil
}

// formOf names a set of fused operations.
func formOf(f kernels.Fused) string {
	switch s := f.String(); s {
	case "none":
		return "standard"
	case "all":
		return "fused"
	default:
		return s
	}
}

// benchDType returns the type that --dtype names.
func benchDType(name string) (tensor.DType, error) {
	t, ok := map[string]tensor.DType{"bf16": tensor.BF16, "fp32": tensor.F32}[name]
	if !ok {
		return t, fmt.Errorf("--dtype %q: must be bf16 or fp32", name)
	}
	return t, nil
}
