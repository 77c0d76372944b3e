package hf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/gguf"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// TestOpenGGUF_HasTheSameModel compares models in GGUF files with the same models in Hugging Face's layout:
// configurations, weights, and loaded weights, as values and in blocks.
func TestOpenGGUF_HasTheSameModel(t *testing.T) {
	const biases, experts = `,"attention_bias":true,"mlp_bias":true`, `,"num_local_experts":3,"num_experts_per_tok":2`
	const wide = `,"hidden_size":256,"intermediate_size":256,"head_dim":64,"tie_word_embeddings":true`
	for _, c := range []struct {
		name, config, arch string
		of                 types
		without            []string // keys whose absence means what they say
	}{
		{"llama", ggufModelConfig("llama", ""), "llama", types{"": gguf.F16, "attn_v": gguf.BF16, "output": gguf.F32},
			[]string{"rope.freq_base", "attention.key_length", "attention.value_length", "rope.dimension_count"}},
		{"heads of their own size, biases", ggufModelConfig("llama", biases+`,"head_dim":24,"num_key_value_heads":4`),
			"llama", types{"": gguf.Q8_0, "attn_k": gguf.F16}, []string{"attention.head_count_kv"}},
		{"tied, super-blocks", ggufModelConfig("llama", wide), "llama",
			types{"": gguf.Q4_K, "attn_v": gguf.Q6_K, "ffn_down": gguf.Q5_K, "token_embd": gguf.Q6_K}, nil},
		{"qwen2", ggufModelConfig("qwen2", `,"rope_theta":1e6`), "qwen2",
			types{"": gguf.Q4_0, "token_embd": gguf.F16}, nil},
		{"qwen3", ggufModelConfig("qwen3", ""), "qwen3", types{"": gguf.Q5_0, "output": gguf.Q8_0}, nil},
		{"mixtral", ggufModelConfig("mixtral", experts), "llama", types{"": gguf.Q4_1, "ffn_down_exps": gguf.Q5_1},
			[]string{"expert_feed_forward_length"}},
		{"qwen3_moe", ggufModelConfig("qwen3_moe", experts+`,"moe_intermediate_size":32,"norm_topk_prob":true`), "qwen3moe",
			types{"": gguf.Q5_1, "ffn_gate_exps": gguf.Q8_0, "ffn_up_exps": gguf.Q8_0}, []string{"feed_forward_length"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newGGUFFile(t, c.config, c.arch, c.of)
			for _, key := range c.without {
				f.drop(c.arch + "." + key)
			}
			data := f.encode(t)
			got, err := openGGUF(t, data)
			expect.OK(t, err)
			want, err := ParseConfig([]byte(c.config))
			expect.OK(t, err)
			if slices.Contains(c.without, "feed_forward_length") {
				want.Inner = got.Config.Inner // no layer has it
			}
			if diff := cmp.Diff(want, got.Config); diff != "" {
				t.Error(diff)
			}
			f.compare(t, got)
			sum := sha256.Sum256(fmt.Appendf(nil, "%x\n", sha256.Sum256(data)))
			if digest, err := got.Digest(); err != nil || digest != fmt.Sprintf("%x", sum) {
				t.Errorf("digest %s, %v: want that of sha256sum", digest, err)
			}
		})
	}
}

// compare compares the weights of a checkpoint: read, loaded as values, and loaded as they are stored.
func (f *ggufFile) compare(t *testing.T, c *Checkpoint) {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	for _, q := range []model.Quantization{{}, c.Quantization} {
		m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Quantization: q})
		expect.OK(t, err)
		expect.OK(t, c.Load(context.Background(), d, m.Params(), nil))
		if len(m.Params()) != len(f.weights) {
			t.Errorf("%d parameters, want %d", len(m.Params()), len(f.weights))
		}
		for _, p := range m.Params() {
			want := f.weights[p.Name]
			read, shape, err := c.ReadF32(p.Name)
			if err != nil || !slices.Equal(shape, want.shape) || !slices.Equal(read, want.data) {
				t.Errorf("%s: other values, or shape %v instead of %v, %v", p.Name, shape, want.shape, err)
			}
			loaded := make([]float32, p.W.Len())
			if p.W.DType.Quantized() {
				rows := make([]byte, p.W.Bytes())
				err = errors.Join(d.DownloadBytes(rows, p.W), quant.Dequantize(loaded, rows, p.W.DType, p.W.Dim(-1)))
			} else {
				err = d.Download(loaded, p.W)
			}
			if err != nil || !slices.Equal(loaded, want.data) {
				t.Errorf("%s: other values are loaded as %v, %v", p.Name, p.W.DType, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	// Blocks and their values in float32 differ by the order of sums.
	if off := distance(logitsOf(t, d, c, c.Quantization, ""), logitsOf(t, d, c, model.Quantization{}, "")); off > 1e-5 {
		t.Errorf("logits by blocks are %g from those by their values", off)
	}
}

// TestOpenGGUF_Quantization checks which weights are quantized, and to which types.
func TestOpenGGUF_Quantization(t *testing.T) {
	of := types{"": gguf.Q4_0, "token_embd": gguf.F16, "attn_v": gguf.Q8_0, "ffn_down_exps": gguf.F32}
	f := newGGUFFile(t, ggufModelConfig("mixtral", `,"num_local_experts":2,"num_hidden_layers":1`), "llama", of)
	c, err := openGGUF(t, f.encode(t))
	expect.OK(t, err)
	want := map[string]tensor.DType{"lm_head.weight": tensor.Q4_0}
	for name, of := range map[string]tensor.DType{"self_attn.q_proj": tensor.Q4_0, "self_attn.k_proj": tensor.Q4_0,
		"self_attn.v_proj": tensor.Q8_0, "self_attn.o_proj": tensor.Q4_0,
		"block_sparse_moe.experts.0.w1": tensor.Q4_0, "block_sparse_moe.experts.1.w1": tensor.Q4_0,
		"block_sparse_moe.experts.0.w3": tensor.Q4_0, "block_sparse_moe.experts.1.w3": tensor.Q4_0} {
		want["model.layers.0."+name+".weight"] = of
	}
	if q := c.Quantization; q.Layers != 0 || q.Head != 0 || !maps.Equal(q.Weights, want) {
		t.Error(cmp.Diff(want, q.Weights))
	}
}

// TestOpenGGUF_Scaling compares how RoPE is scaled: by keys, and by a table, from which Llama 3's numbers are
// recovered.
func TestOpenGGUF_Scaling(t *testing.T) {
	llama3 := func(factor, low, high float64, original int) *model.RoPEScaling {
		return &model.RoPEScaling{Kind: model.RoPELlama3, Factor: factor, LowFreqFactor: low, HighFreqFactor: high,
			OriginalMaxPositions: original}
	}
	const scaling = "llama.rope.scaling."
	key := func(name string, value any) gguf.KV { return gguf.KV{Key: scaling + name, Value: value} }
	var odd []float64
	for i := range 32 {
		odd = append(odd, 1+float64(i)/8)
	}
	long := &model.RoPEScaling{Kind: model.RoPELong, Short: odd, Long: odd, Factor: 1, AttentionFactor: 1,
		OriginalMaxPositions: 128}
	for _, c := range []struct {
		name  string
		keys  []gguf.KV
		table *model.RoPEScaling // whose factors rope_freqs.weight has; nil: there is none
		want  *model.RoPEScaling
	}{
		{"none", []gguf.KV{key("type", "none"), key("original_context_length", uint32(32))}, nil, nil},
		{"linear", []gguf.KV{key("type", "linear"), key("factor", float32(2.5))}, nil,
			&model.RoPEScaling{Kind: model.RoPELinear, Factor: 2.5}},
		{"yarn", []gguf.KV{key("type", "yarn"), key("factor", float32(4)), key("original_context_length", uint32(32))}, nil,
			&model.RoPEScaling{Kind: model.RoPEYaRN, Factor: 4, OriginalMaxPositions: 32, BetaFast: 32, BetaSlow: 1}},
		{"Llama 3", nil, llama3(32, 1, 4, 64), llama3(32, 1, 4, 64)},
		{"ratios of Llama 3 alone count", nil, llama3(8, 2, 12, 1000), llama3(8, 1, 6, 500)},
		{"another table", nil, long, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newGGUFFile(t, ggufModelConfig("llama", `,"head_dim":64`), "llama", nil)
			f.keys = append(f.keys, c.keys...)
			plain, err := ParseConfig([]byte(f.config))
			expect.OK(t, err)
			if c.table != nil {
				scaled := plain
				scaled.RoPEScaling = c.table
				var factors []float32
				for i, x := range scaled.InvFreq(1) {
					factors = append(factors, float32(plain.InvFreq(1)[i]/x))
				}
				f.addFloats(ropeFactors, factors...)
			}
			got, err := openGGUF(t, f.encode(t))
			expect.OK(t, err)
			if diff := cmp.Diff(c.want, got.Config.RoPEScaling); diff != "" {
				t.Error(diff)
			}
			plain.RoPEScaling = c.want
			for i, x := range got.Config.InvFreq(1) {
				if want := plain.InvFreq(1)[i]; math.Abs(x/want-1) > 1e-6 { // factors are float32
					t.Errorf("frequency %d is %g, want %g", i, x, want)
				}
			}
		})
	}
}

// TestOpenGGUF_Tokenizer checks what becomes of a file's tokenizer and template. There may be more embeddings than
// tokens.
func TestOpenGGUF_Tokenizer(t *testing.T) {
	const template = "{{ messages[0].content }}</s>"
	f := newGGUFFile(t, ggufModelConfig("llama", `,"vocab_size":260`), "llama", nil)
	f.setVocab(bytesVocab())
	f.set("tokenizer.chat_template", template)
	c, err := openGGUF(t, f.encode(t))
	expect.OK(t, err)
	if !slices.Equal(c.Config.BOS, []int32{257}) || !slices.Equal(c.Generation.EOS, []int32{258}) {
		t.Errorf("texts begin with %d, answers end with %d", c.Config.BOS, c.Generation.EOS)
	}
	if c.Tokenizer.BOS != "<s>" || c.Tokenizer.EOS != "</s>" || c.Tokenizer.ChatTemplate != template {
		t.Errorf("%+v", c.Tokenizer)
	}
	var config struct {
		Tokens int   `json:"vocab_size"`
		Ends   []int `json:"eos_token_id"`
	}
	data, err := c.ReadFile("config.json")
	if err := errors.Join(err, json.Unmarshal(data, &config)); err != nil || config.Tokens != 260 {
		t.Errorf("%s, %v", data, err)
	}
	if _, err := c.ReadFile("tokenizer.json"); err != nil {
		t.Error(err)
	}
}

// TestOpenGGUF_Refuses damages a file in one place at a time.
func TestOpenGGUF_Refuses(t *testing.T) {
	set := func(key string, value any) func(*ggufFile) { return func(f *ggufFile) { f.set(key, value) } }
	without := func(name string) func(*ggufFile) {
		return func(f *ggufFile) {
			f.tensors = slices.DeleteFunc(f.tensors, func(s gguf.Source) bool { return s.Name == name })
		}
	}
	shape := func(name string, dims ...int) func(*ggufFile) {
		return func(f *ggufFile) { f.reshape(name, dims...) }
	}
	factors := func(values ...float32) func(*ggufFile) {
		return func(f *ggufFile) { f.addFloats(ropeFactors, values...) }
	}
	dense := ggufModelConfig("llama", "")
	sparse := ggufModelConfig("mixtral", `,"num_local_experts":2`)
	for _, c := range []struct {
		config string
		edit   func(*ggufFile)
		want   []string
	}{
		{dense, set("general.architecture", "gemma3"),
			[]string{`general.architecture is "gemma3"`, "qwen3moe are supported"}},
		{dense, set("general.type", "adapter"),
			[]string{`"adapter"`, "give the model's own file; adapters are read in PEFT's layout"}},
		{dense, set("general.type", "mmproj"), []string{`general.type is "mmproj"`, "give the model's own file"}},
		{dense, set("llama.attn_logit_softcapping", float32(30)), []string{`"llama.attn_logit_softcapping" may change`}},
		{dense, set("llama.block_count", uint32(math.MaxUint32)),
			[]string{"num_hidden_layers 4294967295: must be 1 to 4096"}},
		{dense, set("llama.block_count", uint32(4000)), []string{"it needs 36003 tensors, but there are 21"}},
		{dense, set("llama.block_count", "2"), []string{"llama.block_count", "whole number"}},
		{dense, set("llama.attention.head_count", uint32(0)), []string{"0 attention heads"}},
		{dense, set("llama.attention.head_count_kv", []int32{2, 1}),
			[]string{"llama.attention.head_count_kv", "whole number"}},
		{dense, set("llama.attention.layer_norm_rms_epsilon", float32(math.NaN())),
			[]string{"epsilon is NaN: must be positive"}},
		{dense, set("llama.rope.freq_base", float32(math.Inf(1))), []string{"rope.freq_base is +Inf: must be positive"}},
		{dense, set("llama.rope.dimension_count", uint32(8)), []string{"rope.dimension_count is 8", "heads have 16"}},
		{dense, set("llama.attention.value_length", uint32(32)), []string{"value_length is 32", "heads have 16"}},
		{dense, set("llama.expert_count", uint32(2)), []string{"experts"}},
		{dense, set("llama.rope.scaling.type", "su"), []string{`scaling.type is "su": none, linear and yarn`}},
		{dense, set("split.count", uint16(2)), []string{"file 1 of 2 of a model", "-00001-of-00002.gguf"}},
		{dense, without("token_embd.weight"), []string{"no matrix token_embd.weight"}},
		{dense, without("blk.1.ffn_up.weight"), []string{"model.layers.1.mlp.up_proj.weight is missing"}},
		{dense, func(f *ggufFile) { f.addFloats("blk.0.attn_sinks.weight", 1) },
			[]string{"blk.0.attn_sinks.weight is unknown"}},
		{dense, func(f *ggufFile) { f.addFloats("blk.01.attn_norm.weight", 1) },
			[]string{"blk.01.attn_norm.weight is unknown"}},
		{dense, func(f *ggufFile) { f.addFloats("blk.0.ffn_up_exps.weight", 1) },
			[]string{"blk.0.ffn_up_exps.weight is unknown"}},
		{dense, shape("blk.0.attn_norm.weight", 32), []string{"input_layernorm.weight has shape [32]", "must"}},
		// Rows of 64 and of 96 weights in Q4_0 take the same number of bytes here.
		{dense, shape("blk.0.attn_output.weight", 96, 64), []string{"blk.0.attn_output.weight has dimensions [96 64]",
			"must be [64 64]"}},
		{sparse, shape("blk.0.ffn_up_exps.weight", 64, 96, 3), []string{"blk.0.ffn_up_exps.weight", "the 2 experts"}},
		{sparse, shape("blk.0.ffn_up_exps.weight", 64, 96), []string{"blk.0.ffn_up_exps.weight", "the 2 experts"}},
		{dense, factors(1, 1), []string{"rope_freqs.weight is F32 with dimensions [2]: must be F32 [8]"}},
		{dense, factors(1, 1, 1, 0, 1, 1, 1, 1), []string{"rope_freqs.weight has 0: must be positive"}},
		{dense, func(f *ggufFile) {
			factors(1, 1, 1, 1, 1, 1, 1, 1)(f)
			f.set("llama.rope.scaling.type", "linear")
		}, []string{"scaled in two ways"}},
		{dense, func(f *ggufFile) { f.setVocab(bytesVocab()) }, []string{"259 tokens, but embeddings of 24"}},
	} {
		f := newGGUFFile(t, c.config, "llama", types{"": gguf.Q4_0, "token_embd": gguf.F16})
		c.edit(f)
		_, err := openGGUF(t, f.encode(t))
		expect.Error(t, err, c.want...)
	}
	f := newGGUFFile(t, dense, "llama", types{"attn_v": gguf.Q4_0})
	whole := f.encode(t)
	_, err := openGGUF(t, whole[:len(whole)-64])
	expect.Error(t, err, "cut off")
	name := []byte("blk.1.attn_v.weight") // followed by the number of dimensions, and these
	at := bytes.Index(whole, name) + len(name) + 4 + 2*8
	binary.LittleEndian.PutUint32(whole[at:], 20) // whose blocks have the size of Q4_0's
	_, err = openGGUF(t, whole)
	expect.Error(t, err, "blk.1.attn_v.weight is IQ4_NL (type 20): only", "Q4_K")
}

// FuzzOpenGGUF checks that no file's bytes cause a panic when the file is opened and all of it is read.
func FuzzOpenGGUF(f *testing.F) {
	// The fuzzer is slow with long inputs.
	const tiny = `,"num_hidden_layers":1,"vocab_size":3,"hidden_size":8,"intermediate_size":4,"head_dim":2`
	f.Add(newGGUFFile(f, ggufModelConfig("qwen3", tiny), "qwen3", nil).encode(f))
	f.Add(newGGUFFile(f, ggufModelConfig("mixtral", tiny+`,"num_local_experts":2`), "llama", nil).encode(f))
	f.Add(newGGUFFile(f, ggufModelConfig("qwen2", tiny+`,"hidden_size":32,"intermediate_size":32,"head_dim":8`), "qwen2",
		types{"": gguf.Q4_0}).encode(f))
	m := newGGUFFile(f, ggufModelConfig("llama", tiny+`,"vocab_size":259,"tie_word_embeddings":true`), "llama",
		types{"": gguf.F16})
	m.addFloats(ropeFactors, 2)
	m.setVocab(bytesVocab())
	f.Add(m.encode(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *Checkpoint
		var err error
		// A thousand parameters may be missing before they are counted instead of listed, twice.
		hostile.Within(t, hostile.Linear(len(data))+2<<20, func() {
			var file *gguf.File
			if file, err = gguf.Read(bytes.NewReader(data), int64(len(data)), "x.gguf"); err == nil {
				c, err = newGGUF(file)
			}
		})
		if err != nil {
			return
		}
		for _, p := range c.params() {
			if _, shape, err := c.ReadF32(p.Name); err == nil && !slices.Equal(shape, fileShape(p)) {
				t.Errorf("%s has shape %v: want %v", p.Name, shape, fileShape(p))
			}
		}
	})
}

// TestSaveGGUF_OrdersExperts writes experts that are not in the order of their numbers.
func TestSaveGGUF_OrdersExperts(t *testing.T) {
	config := ggufModelConfig("qwen3_moe", `,"num_local_experts":12,"num_experts_per_tok":2,"moe_intermediate_size":32,`+
		`"norm_topk_prob":true`)
	c, err := openGGUF(t, newGGUFFile(t, config, "qwen3moe", types{"": gguf.Q8_0}).encode(t))
	expect.OK(t, err)
	tensors, err := Merge{Base: c, DType: tensor.F32}.Tensors(t.Context())
	expect.OK(t, err)
	slices.Reverse(tensors)
	path := filepath.Join(t.TempDir(), "y.gguf")
	if _, err := SaveGGUF(path, c, tensors, GGUFOptions{Mix: gguf.Mixes[0]}); err != nil {
		t.Fatal(err)
	}
	back, err := OpenGGUF(path)
	expect.OK(t, err)
	defer back.Close()
	for _, p := range c.Config.Params() {
		want, _, err1 := c.ReadF32(p.Name)
		got, _, err2 := back.ReadF32(p.Name)
		if err1 != nil || err2 != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, or other values", p.Name, err1, err2)
		}
	}
}
