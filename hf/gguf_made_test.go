package hf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/gguf"
	"restyle/gguf/vocab"
	"restyle/internal/expect"
	"restyle/model"
	"restyle/tensor"
)

// ggufModelConfig returns the config.json of a model of 2 layers, 4 heads and 2 of keys.
func ggufModelConfig(family, more string) string {
	return fmt.Sprintf(`{"model_type":%q,"vocab_size":24,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,`+
		`"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"max_position_embeddings":128,"rms_norm_eps":1e-5,`+
		`"rope_theta":10000%s}`, family, more)
}

// types has the types of matrices by their names in files, without layer and suffix; "" is for the others.
type types map[string]gguf.Type

// A ggufFile is a model as the content of a GGUF file, and with the same values in Hugging Face's layout.
type ggufFile struct {
	keys    []gguf.KV
	tensors []gguf.Source
	config  string
	weights map[string]weight
}

var (
	nameInGGUF = strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm",
		"output_norm",
		"lm_head", "output", "self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm", "self_attn.q_proj",
		"attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm", "block_sparse_moe.gate", "ffn_gate_inp",
		"mlp.gate.", "ffn_gate_inp.", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")
	ggufExpert  = regexp.MustCompile(`^model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)\.weight$`)
	ggufExperts = map[string]string{"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps",
		"gate_proj": "ffn_gate_exps", "down_proj": "ffn_down_exps", "up_proj": "ffn_up_exps"}
)

// newGGUFFile makes a model of random weights that its blocks represent exactly.
func newGGUFFile(t testing.TB, config, arch string, of types) *ggufFile {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	expect.OK(t, err)
	f := &ggufFile{config: config, weights: map[string]weight{}}
	f.set("general.architecture", arch)
	for _, k := range []struct {
		key string
		n   int
	}{{"block_count", c.Layers}, {"context_length", c.MaxPositions}, {"embedding_length", c.Dim},
		{"feed_forward_length", c.Inner}, {"attention.head_count", c.Heads}, {"attention.head_count_kv", c.KVHeads},
		{"attention.key_length", c.HeadDim}, {"attention.value_length", c.HeadDim}, {"rope.dimension_count", c.HeadDim}} {
		f.set(arch+"."+k.key, uint32(k.n))
	}
	f.set(arch+".attention.layer_norm_rms_epsilon", c.NormEps)
	f.set(arch+".rope.freq_base", float32(c.RoPETheta))
	if m := c.Mixture; m != nil {
		f.set(arch+".expert_count", uint32(m.Experts))
		f.set(arch+".expert_used_count", uint32(m.PerToken))
		f.set(arch+".expert_feed_forward_length", uint32(m.Inner))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range c.Params() {
		f.addParam(t, c, p, arch, of, normal(random, p.W.Len()))
	}
	return f
}

// addParam adds a parameter with values, rounded to values of its type.
func (f *ggufFile) addParam(t testing.TB, c model.Config, p model.Param, arch string, of types, values []float32) {
	t.Helper()
	name, experts := nameInGGUF.Replace(p.Name), 0
	if m := ggufExpert.FindStringSubmatch(p.Name); m != nil {
		name, experts = "blk."+m[1]+"."+ggufExperts[m[3]]+".weight", c.Mixture.Experts
	}
	parts := strings.Split(name, ".")
	part := parts[len(parts)-2]
	kind, known := of[part]
	switch {
	case len(p.W.Shape) == 1 || part == "ffn_gate_inp":
		kind = gguf.F32
	case !known:
		kind = of[""]
	}
	data := make([]byte, kind.RowBytes(p.W.Len()))
	expect.OK(t, errors.Join(kind.Quantize(data, values), kind.Dequantize(values, data)))
	f.weights[p.Name] = weight{tensor.F32, p.W.Shape, values}
	heads := map[string]int{"llama attn_q": c.Heads, "llama attn_k": c.KVHeads}[arch+" "+part]
	if heads > 0 {
		data = interleaved(data, heads, len(data)/p.W.Dim(0))
	}
	dims := slices.Clone(p.W.Shape)
	slices.Reverse(dims)
	if experts == 0 {
		f.add(name, kind, dims, data)
		return
	}
	if last := f.tensor(name); last != nil { // the first of the experts has added it
		first := last.Write
		last.Write = func(w io.Writer) error {
			err := first(w)
			if err == nil {
				_, err = w.Write(data)
			}
			return err
		}
		return
	}
	f.add(name, kind, append(dims, experts), data)
}

// interleaved puts the rows of the first half of each head between the rows of the second half.
func interleaved(data []byte, heads, row int) (all []byte) {
	for head := range slices.Chunk(data, len(data)/heads) {
		first, second := head[:len(head)/2], head[len(head)/2:]
		for at := 0; at < len(first); at += row {
			all = append(append(all, first[at:at+row]...), second[at:at+row]...)
		}
	}
	return all
}

func (f *ggufFile) set(key string, value any) {
	f.drop(key)
	f.keys = append(f.keys, gguf.KV{Key: key, Value: value})
}

func (f *ggufFile) drop(key string) {
	f.keys = slices.DeleteFunc(f.keys, func(kv gguf.KV) bool { return kv.Key == key })
}

func (f *ggufFile) add(name string, t gguf.Type, dims []int, data []byte) {
	f.tensors = append(f.tensors, gguf.Source{Name: name, Type: t, Dims: dims, Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}})
}

// tensor returns the tensor of a name, or nil.
func (f *ggufFile) tensor(name string) *gguf.Source {
	for i := range f.tensors {
		if f.tensors[i].Name == name {
			return &f.tensors[i]
		}
	}
	return nil
}

// reshape gives a tensor other dimensions, and zeros.
func (f *ggufFile) reshape(name string, dims ...int) {
	t := f.tensor(name)
	t.Dims = dims
	t.Write = func(w io.Writer) error {
		n := 1
		for _, d := range dims {
			n *= d
		}
		_, err := w.Write(make([]byte, t.Type.RowBytes(n)))
		return err
	}
}

// addFloats adds a tensor of F32.
func (f *ggufFile) addFloats(name string, values ...float32) {
	data := make([]byte, 4*len(values))
	if err := gguf.F32.Quantize(data, values); err != nil {
		panic(err)
	}
	f.add(name, gguf.F32, []int{len(values)}, data)
}

func (f *ggufFile) encode(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, gguf.Encode(&b, f.keys, f.tensors))
	return b.Bytes()
}

// openGGUF writes bytes as a file and opens it.
func openGGUF(t testing.TB, data []byte) (*Checkpoint, error) {
	t.Helper()
	path := expect.File(t, "x.gguf", string(data))
	c, err := OpenGGUF(path)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	} else if !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file: %v", err)
	}
	return c, err
}

// bytesVocab returns a vocabulary of the bytes, one more, and two control tokens that start and end a text.
func bytesVocab() vocab.Vocab {
	v := vocab.Vocab{Model: "gpt2", Pre: "gpt-2", BOS: 257, EOS: 258, EOT: -1, EOM: -1, Unknown: -1, Pad: -1}
	next := 256 // of the alphabet's characters for bytes that are not printable
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || '~' < b && b < '¡' || b == '\u00AD' {
			r, next = rune(next), next+1
		}
		v.Tokens, v.Types = append(v.Tokens, string(r)), append(v.Types, vocab.Normal)
	}
	v.Tokens, v.Merges = append(v.Tokens, "ab", "<s>", "</s>"), []string{"a b"}
	v.Types = append(v.Types, vocab.Normal, vocab.Control, vocab.Control)
	return v
}

// setVocab sets the keys of a tokenizer.
func (f *ggufFile) setVocab(v vocab.Vocab) {
	kinds := make([]int32, len(v.Types))
	for i, kind := range v.Types {
		kinds[i] = int32(kind)
	}
	for _, kv := range []gguf.KV{{Key: "model", Value: v.Model}, {Key: "pre", Value: v.Pre},
		{Key: "tokens", Value: v.Tokens}, {Key: "token_type", Value: kinds}, {Key: "merges", Value: v.Merges},
		{Key: "bos_token_id", Value: uint32(v.BOS)},
		{Key: "eos_token_id", Value: uint32(v.EOS)}} {
		f.set("tokenizer.ggml."+kv.Key, kv.Value)
	}
}
