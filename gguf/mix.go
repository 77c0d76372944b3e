package gguf

import (
	"fmt"
	"strconv"
	"strings"
)

// QuantizationVersion is general.quantization_version of files that have blocks: the version of ggml's layouts.
const QuantizationVersion = 2

// A Mix is a preset of llama.cpp: the type that most matrices of a file get, and where others do better.
type Mix struct {
	Name     string
	Type     Type   // of most matrices
	FileType uint32 // general.file_type
	More     bool   // more bits for a third of attn_v and ffn_down, and all of the first and the last eighth of layers
}

// Mixes lists the presets that can be written.
var Mixes = []Mix{
	{Name: "f32", Type: F32, FileType: 0},
	{Name: "f16", Type: F16, FileType: 1},
	{Name: "bf16", Type: BF16, FileType: 32},
	{Name: "q8_0", Type: Q8_0, FileType: 7},
	{Name: "q6_k", Type: Q6_K, FileType: 18},
	{Name: "q5_k_m", Type: Q5_K, FileType: 17, More: true},
	{Name: "q4_k_m", Type: Q4_K, FileType: 15, More: true},
	{Name: "q4_0", Type: Q4_0, FileType: 2},
}

// ParseMix returns the preset with a name, in upper or lower case.
func ParseMix(name string) (Mix, error) {
	var names []string
	for _, m := range Mixes {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Mix{}, fmt.Errorf("type %q: use one of %s", name, strings.Join(names, ", "))
}

// Model describes what the types of a model's tensors depend on.
type Model struct {
	Architecture           string // general.architecture
	Layers, Heads, KVHeads int
	Experts                int  // of a layer; 0 if it has a plain MLP
	Tied                   bool // token_embd.weight is the head, and there is no output.weight
}

// TypeOf returns the type of a tensor by its name and its dimensions, the length of a row first. The rules come from
// llama.cpp's src/llama-quant.cpp without an importance matrix, and from its converter for what stays F32: norms,
// biases and routers. Rows that do not consist of whole blocks get a type with smaller blocks, or F16.
func (m Mix) TypeOf(model Model, name string, dims []int) Type {
	if len(dims) < 2 || !strings.HasSuffix(name, "weight") || strings.HasSuffix(name, "_norm.weight") ||
		strings.HasSuffix(name, "ffn_gate_inp.weight") {
		return F32
	}
	if n, _ := m.Type.Block(); n == 1 {
		return m.Type
	}
	t := m.preferred(model, name, dims[0])
	for {
		if n, _ := t.Block(); dims[0]%n == 0 {
			return t
		}
		smaller, ok := map[Type]Type{Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0}[t]
		if !ok {
			return F16
		}
		t = smaller
	}
}

// preferred returns the type of a matrix whose rows are n long, if that has whole blocks.
func (m Mix) preferred(model Model, name string, n int) Type {
	number, part, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	layer, _ := strconv.Atoi(number)
	more := m.More && moreBits(layer, model.Layers)
	block, _ := m.Type.Block()
	switch {
	case name == "output.weight" || name == "token_embd.weight" && model.Tied:
		if m.Type == Q8_0 || n%block != 0 {
			return Q8_0
		}
		return Q6_K
	case model.Experts == 8 && (part == "attn_k.weight" || part == "attn_v.weight"):
		return Q8_0
	case model.Experts == 8 && part == "attn_output.weight" && m.Type == Q4_K:
		return Q5_K
	case more && (part == "attn_v.weight" || strings.HasPrefix(part, "ffn_down")):
		return Q6_K
	case model.is70B() && part == "attn_v.weight" && m.Type == Q4_K:
		return Q5_K
	}
	return m.Type
}

// moreBits reports whether a layer is in the first or the last eighth, or every third of the others.
func moreBits(layer, layers int) bool {
	eighth := layers / 8
	return layer < eighth || layer >= 7*layers/8 || (layer-eighth)%3 == 2
}

// is70B reports whether llama.cpp takes a model for one with 70 B parameters, whose attn_v is small.
func (m Model) is70B() bool {
	switch m.Architecture {
	case "llama":
		return m.Layers == 80 && m.Heads != m.KVHeads
	case "qwen2":
		return m.Layers == 80
	}
	return false
}
