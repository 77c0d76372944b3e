package hf

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"restyle/gguf"
	"restyle/gguf/vocab"
	"restyle/model"
	"restyle/tensor"
)

// ropeFactors is the tensor with the divisors of RoPE's frequencies.
const ropeFactors = "rope_freqs.weight"

// IsGGUF reports whether a path is a GGUF file, by its name, or by its first bytes: caches name files by their
// content.
func IsGGUF(path string) bool {
	return strings.EqualFold(filepath.Ext(path), ".gguf") || gguf.Is(path)
}

// IsPath reports whether a path may be a model: a directory or a GGUF file.
func IsPath(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || IsGGUF(path))
}

// OpenGGUF opens a model in a GGUF file, or in several files of which path is the first, as llama.cpp computes it.
// Its architecture must be llama, qwen2, qwen3 or qwen3moe, and its tensors must have types in [gguf.Types]. Matrices
// in blocks stay quantized. OpenGGUF makes the small files from the keys: config.json, tokenizer.json and what the
// tokenizer needs. Anything that would be computed in another way is an error. Close the Checkpoint after use.
func OpenGGUF(path string) (*Checkpoint, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	c, err := newGGUF(f)
	if err != nil {
		f.Close()
		if !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, err
	}
	return c, nil
}

func newGGUF(f *gguf.File) (*Checkpoint, error) {
	files, err := ggufFiles(f)
	if err != nil {
		return nil, err
	}
	c, err := newCheckpoint(f.Name, func(file string) ([]byte, error) {
		if data, ok := files[file]; ok {
			return data, nil
		}
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}, nil)
	if err != nil {
		return nil, err
	}
	w, quantization, err := ggufWeights(f, c.Config)
	if err != nil {
		return nil, err
	}
	c.weights, c.Quantization = w, quantization
	if err := c.checkGGUF(); err != nil {
		return nil, fmt.Errorf("the tensors are not those of its keys: %w", err)
	}
	return c, nil
}

// checkGGUF is check, and before that compares the dimensions of quantized weights, because padding hides some in the
// size of a row.
func (c *Checkpoint) checkGGUF() error {
	if err := c.tooFew(); err != nil {
		return err
	}
	s := c.weights.shards[0].(*ggufStore)
	for _, p := range c.params() {
		t, rows, in, _, ok := s.matrix(p.Name)
		if ok && p.W.DType.Quantized() && (rows != p.W.Rows() || in != p.W.Dim(-1)) {
			return fmt.Errorf("%s has dimensions %v: must be %v, the length of a row first", t.Name, t.Dims,
				[]int{p.W.Dim(-1), p.W.Rows()})
		}
	}
	return c.check()
}

// ggufFiles makes a model's small files from a file's keys.
func ggufFiles(f *gguf.File) (map[string][]byte, error) {
	v := f.Values()
	config := ggufConfig(v, f)
	if v.Err != nil {
		return nil, v.Err
	}
	files := map[string][]byte{}
	if v.String("tokenizer.ggml.model", "none") != "none" {
		words := ggufVocab(v, f)
		if v.Err != nil {
			return nil, v.Err
		}
		if n := config["vocab_size"].(int); len(words.Tokens) > n {
			return nil, fmt.Errorf("it has %d tokens, but embeddings of %d", len(words.Tokens), n)
		}
		var err error
		if files, err = words.Files(); err != nil {
			return nil, err
		}
		if words.BOS >= 0 {
			config["bos_token_id"] = words.BOS
		}
		config["eos_token_id"] = words.Ends()
	}
	scaling, err := ggufScaling(f, config)
	if err != nil {
		return nil, err
	}
	if scaling != nil {
		config["rope_scaling"] = scaling
	}
	if files["config.json"], err = json.MarshalIndent(config, "", "  "); err != nil {
		return nil, err
	}
	return files, v.Err
}

// GGUFTokenizer returns tokenizer.json and the files next to it as llama.cpp understands a file: by its tokens and
// the name of their pre-tokenizer, not by a whole tokenizer.json that the file may have as well.
func GGUFTokenizer(path string) (map[string][]byte, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := f.Values()
	words := ggufVocab(v, f)
	if v.Err != nil {
		return nil, v.Err
	}
	words.HuggingFace = ""
	return words.Files()
}

// ggufModels are the families of llama.cpp's architectures, without and with experts.
var ggufModels = map[string][2]string{"llama": {"llama", "mixtral"}, "qwen2": {"qwen2", ""}, "qwen3": {"qwen3", ""},
	"qwen3moe": {"", "qwen3_moe"}}

// ggufKeys are an architecture's keys that are read, or do not change what it computes.
var ggufKeys = []string{"vocab_size", "context_length", "block_count", "embedding_length", "feed_forward_length",
	"expert_feed_forward_length", "expert_count", "expert_used_count", "attention.head_count", "attention.head_count_kv",
	"attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon", "rope.dimension_count",
	"rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
	"rope.scaling.finetuned", "rope.scale_linear", "tensor_data_layout", "attention.sliding_window"}

// ggufConfig returns the keys of config.json. Absent keys mean what they mean to llama.cpp.
func ggufConfig(v *gguf.Values, f *gguf.File) map[string]any {
	arch := v.String("general.architecture", "")
	names, known := ggufModels[arch]
	experts := v.Int(arch+".expert_count", 0)
	family := names[min(max(experts, 0), 1)]
	switch kind := v.String("general.type", "model"); {
	case v.Err != nil:
		return nil
	case kind != "model":
		return refuse(v, "general.type is %.40q, so this is not a model: give the model's own file; adapters are read in "+
			"PEFT's layout", kind)
	case !known:
		return refuse(v, "general.architecture is %.40q: llama, qwen2, qwen3 and qwen3moe are supported", arch)
	case family == "":
		return refuse(v, "general.architecture %s with %d experts is not supported", arch, experts)
	}
	for _, key := range f.Keys() {
		if name, own := strings.CutPrefix(key, arch+"."); own && !slices.Contains(ggufKeys, name) {
			return refuse(v, "the key %.100q may change what the model computes, and is not known", key)
		}
	}
	heads, dim := v.Int(arch+".attention.head_count", 0), v.Int(arch+".embedding_length", 0)
	embedding, _ := f.Tensor("token_embd.weight")
	switch {
	case heads < 1 || dim < 1 || dim < heads:
		return refuse(v, "%d attention heads of an embedding of %d: both must be positive", heads, dim)
	case len(embedding.Dims) != 2:
		return refuse(v, "there is no matrix token_embd.weight")
	}
	_, own := f.Tensor("output.weight")
	_, biased := f.Tensor("blk.0.attn_q.bias")
	config := map[string]any{
		"model_type":              family,
		"architectures":           []string{families[family].class},
		"vocab_size":              embedding.Dims[1],
		"hidden_size":             dim,
		"num_hidden_layers":       v.Int(arch+".block_count", 0),
		"num_attention_heads":     heads,
		"num_key_value_heads":     v.Int(arch+".attention.head_count_kv", heads),
		"head_dim":                v.Int(arch+".attention.key_length", dim/heads),
		"max_position_embeddings": v.Int(arch+".context_length", 0),
		"rms_norm_eps":            positive(v, arch+".attention.layer_norm_rms_epsilon", 0),
		"rope_theta":              positive(v, arch+".rope.freq_base", 10000),
		"tie_word_embeddings":     !own,
	}
	if n := v.Int(arch+".feed_forward_length", 0); n > 0 || experts == 0 {
		config["intermediate_size"] = n
	}
	switch family {
	case "llama":
		config["attention_bias"] = biased
		_, config["mlp_bias"] = f.Tensor("blk.0.ffn_gate.bias")
	case "qwen3", "qwen3_moe":
		config["attention_bias"] = biased
	}
	if experts > 0 {
		config["num_local_experts"] = experts
		config["num_experts_per_tok"] = v.Int(arch+".expert_used_count", 0)
		config["norm_topk_prob"] = true
		config["moe_intermediate_size"] = v.Int(arch+".expert_feed_forward_length", 0)
	}
	d := config["head_dim"].(int)
	for _, key := range []string{".attention.value_length", ".rope.dimension_count"} {
		if n := v.Int(arch+key, d); n != d {
			return refuse(v, "%s is %d, but heads have %d elements: must be the same", arch+key, n, d)
		}
	}
	return config
}

func refuse(v *gguf.Values, format string, a ...any) map[string]any {
	if v.Err == nil {
		v.Err = fmt.Errorf(format, a...)
	}
	return nil
}

// positive returns a finite number above 0.
func positive(v *gguf.Values, key string, absent float64) float64 {
	x := v.Float(key, absent)
	if !(x > 0) || math.IsInf(x, 0) {
		refuse(v, "%s is %v: must be positive and finite", key, x)
	}
	return shortest(x)
}

// shortest returns the decimal number with the fewest digits that is x as a float32, which files have.
func shortest(x float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	return short
}

// ggufVocab returns the keys of the tokenizer.
func ggufVocab(v *gguf.Values, f *gguf.File) vocab.Vocab {
	const ggml = "tokenizer.ggml."
	id := func(name string) int { return v.Int(ggml+name+"_token_id", -1) }
	when := func(name string) *bool {
		if !v.Has(ggml + name) {
			return nil
		}
		is := v.Bool(ggml+name, false)
		return &is
	}
	words := vocab.Vocab{Model: v.String(ggml+"model", ""), Pre: v.String(ggml+"pre", ""),
		Tokens: v.Strings(ggml + "tokens"), Types: v.Ints(ggml + "token_type"), Merges: v.Strings(ggml + "merges"),
		BOS: id("bos"), EOS: id("eos"), EOT: id("eot"), EOM: id("eom"), Unknown: id("unknown"), Pad: id("padding"),
		AddBOS: when("add_bos_token"), AddEOS: when("add_eos_token"), AddSpacePrefix: when("add_space_prefix"),
		Template: v.String("tokenizer.chat_template", ""), HuggingFace: v.String("tokenizer.huggingface.json", "")}
	for _, x := range v.Floats(ggml + "scores") {
		words.Scores = append(words.Scores, float32(x))
	}
	for _, key := range f.Keys() {
		if name, is := strings.CutPrefix(key, "tokenizer.chat_template."); is {
			if words.Templates == nil {
				words.Templates = map[string]string{}
			}
			words.Templates[name] = v.String(key, "")
		}
	}
	return words
}

// ggufScaling returns rope_scaling of config.json, or nil if there is none.
func ggufScaling(f *gguf.File, config map[string]any) (map[string]any, error) {
	v := f.Values()
	arch := v.String("general.architecture", "") + ".rope.scaling."
	kind := v.String(arch+"type", "none")
	original := v.Int(arch+"original_context_length", config["max_position_embeddings"].(int))
	_, table := f.Tensor(ropeFactors)
	switch {
	case v.Err != nil:
		return nil, v.Err
	case table && kind == "none":
		return ggufFrequencies(f, config)
	case table || v.Has(strings.TrimSuffix(arch, "scaling.")+"scale_linear"):
		return nil, fmt.Errorf("RoPE is scaled in two ways, of %s and another key: only one is supported", arch+"type")
	case kind == "none":
		return nil, nil
	case kind == "linear":
		return map[string]any{"rope_type": kind, "factor": positive(v, arch+"factor", 1)}, v.Err
	case kind == "yarn":
		return map[string]any{"rope_type": kind, "factor": positive(v, arch+"factor", 1),
			"original_max_position_embeddings": original}, v.Err
	}
	return nil, fmt.Errorf("%stype is %.40q: none, linear and yarn are supported", arch, kind)
}

// ggufFrequencies returns the scaling for a table of divisors of the frequencies: Llama 3's, if the table follows
// from its few numbers, and otherwise LongRoPE's, which is a table.
func ggufFrequencies(f *gguf.File, config map[string]any) (map[string]any, error) {
	t, _ := f.Tensor(ropeFactors)
	d := config["head_dim"].(int)
	if t.Type != gguf.F32 || !slices.Equal(t.Dims, []int{d / 2}) {
		return nil, fmt.Errorf("%s is %v with dimensions %v: must be F32 [%d]", ropeFactors, t.Type, t.Dims, d/2)
	}
	data, table := make([]byte, 4*d/2), make([]float32, d/2)
	if err := f.ReadAt(ropeFactors, data, 0); err != nil {
		return nil, err
	}
	widen(table, data, tensor.F32)
	factors, largest := make([]float64, d/2), 1.0
	for i, x := range table {
		if factors[i] = float64(x); !(x > 0) || math.IsInf(factors[i], 0) {
			return nil, fmt.Errorf("%s has %v: must be positive and finite", ropeFactors, x)
		}
		largest = max(largest, factors[i])
	}
	if s := llama3Factors(factors, largest, config["rope_theta"].(float64)); s != nil {
		return s, nil
	}
	for i := range factors {
		factors[i] = shortest(factors[i])
	}
	return map[string]any{"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "factor": 1,
		"attention_factor": 1, "original_max_position_embeddings": config["max_position_embeddings"]}, nil
}

// llama3Factors returns the numbers that a table follows from: low_freq_factor is 1, because only ratios count, and
// the others describe the line through the factors between the least and the largest. If there are fewer than two
// such factors, high_freq_factor is 4. It returns nil if the factors are not as these numbers say.
func llama3Factors(factors []float64, largest, theta float64) map[string]any {
	n := len(factors)
	turns := func(i int) float64 { return math.Pow(theta, -float64(i)/float64(n)) / (2 * math.Pi) } // a position
	share := func(i int) float64 { return (1/factors[i] - 1/largest) / (1 - 1/largest) }
	var within []int
	for i, f := range factors {
		if f > 1 && f < largest {
			within = append(within, i)
		}
	}
	high, original := 4.0, 8192.0 // as all of Llama 3 has them
	switch {
	case len(within) == 1:
		original = math.Round((1 + share(within[0])*(high-1)) / turns(within[0]))
	case len(within) > 1:
		a, b := within[0], within[len(within)-1]
		slope := (share(a) - share(b)) / (turns(a) - turns(b))
		least := slope*turns(a) - share(a)
		high, original = math.Round((1+1/least)*1e4)/1e4, math.Round(slope/least)
	}
	c := model.Config{HeadDim: 2 * n, RoPETheta: theta, RoPEScaling: &model.RoPEScaling{Kind: model.RoPELlama3,
		Factor: shortest(largest), LowFreqFactor: 1, HighFreqFactor: high, OriginalMaxPositions: int(original)}}
	if !(high > 1) || !(original >= 1 && original < math.MaxInt32) {
		return nil
	}
	for i, f := range c.InvFreq(1) {
		if want := 2 * math.Pi * turns(i) / factors[i]; math.Abs(f-want) > 1e-6*want {
			return nil
		}
	}
	return map[string]any{"rope_type": "llama3", "factor": shortest(largest), "low_freq_factor": 1,
		"high_freq_factor": high, "original_max_position_embeddings": int(original)}
}
