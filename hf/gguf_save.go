package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"restyle/gguf"
	"restyle/gguf/vocab"
	"restyle/internal/disk"
	"restyle/kernels/cpu"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// GGUFOptions configure SaveGGUF.
type GGUFOptions struct {
	// Mix determines the types of the tensors.
	Mix gguf.Mix
	// Name is general.name. Default: the last part of the model's own.
	Name string
	// Ends are the tokens that end an answer, the usual one first. Default: the ones in generation_config.json.
	Ends []int32
	// Done, unless it is nil, is called after each tensor with the numbers of tensors written and of all tensors.
	Done func(name string, done, total int)
}

// SaveGGUF saves a model as a GGUF file that llama.cpp computes as this module computes the model: keys, tokenizer
// and chat template from from's small files, and weights of its names and shapes, one after the other, as
// [SaveTensors] gets them. Blocks are the same as ggml's own quantizer makes without an importance matrix. Weights
// that come as rows of Q4_0 keep their codes; the mix must have them in that type. The file replaces one of its name
// when it is complete and on disk. Memory holds about 8 MB of weights at a time, besides what TensorData.Write needs.
//
// Anything that such a file cannot express is an error. notes, for people, list what programs that read it will do
// differently.
func SaveGGUF(path string, from *Checkpoint, tensors []TensorData, o GGUFOptions) (notes []string, err error) {
	p, err := from.ggufPlan(path, tensors, o)
	if err != nil {
		return nil, err
	}
	return p.notes, gguf.Write(path, p.keys, p.sources)
}

// GGUFTypes returns the types that SaveGGUF will give tensors, by their names, or the error that it would start with.
// It writes nothing.
func GGUFTypes(path string, from *Checkpoint, tensors []TensorData, o GGUFOptions) (map[string]gguf.Type, error) {
	p, err := from.ggufPlan(path, tensors, o)
	return p.types, err
}

// A ggufPlan is everything in a file except the weights.
type ggufPlan struct {
	keys    []gguf.KV
	sources []gguf.Source
	types   map[string]gguf.Type // by the names of TensorData
	notes   []string
}

func (c *Checkpoint) ggufPlan(path string, tensors []TensorData, o GGUFOptions) (p ggufPlan, err error) {
	if p.keys, p.notes, err = c.ggufKeys(o); err != nil {
		return p, err
	}
	if p.sources, p.types, err = c.ggufSources(tensors, o); err != nil {
		return p, err
	}
	var need int64
	for _, s := range p.sources {
		need += ggufBytes(s)
	}
	if free, err := disk.Free(filepath.Dir(path)); err == nil && need > free {
		return p, fmt.Errorf("%s needs %.1f MiB, but only %.1f MiB are free: free some space", path,
			float64(need)/(1<<20), float64(free)/(1<<20))
	}
	return p, nil
}

func ggufBytes(s gguf.Source) int64 {
	rows := int64(1)
	for _, n := range s.Dims[1:] {
		rows *= int64(n)
	}
	return rows * int64(s.Type.RowBytes(s.Dims[0]))
}

// ggufKeys returns the keys of a model.
func (c *Checkpoint) ggufKeys(o GGUFOptions) (keys []gguf.KV, notes []string, err error) {
	arch := GGUFArchitecture(c.Config)
	if arch == "" {
		return nil, nil, fmt.Errorf("%s: a GGUF file of a %s model is not supported: llama, mistral, mixtral, qwen2, qwen3 "+
			"and qwen3_moe are", c.label, c.Config.Family)
	}
	switch m := c.Config.Mixture; {
	case m != nil && (!m.Normalized || m.Dense != nil):
		return nil, nil, fmt.Errorf("%s: a mixture with layers without experts, or whose routers' shares do not sum to 1, "+
			"has no form in llama.cpp", c.label)
	case c.Config.OutBias && strings.HasPrefix(arch, "qwen3"):
		return nil, nil, fmt.Errorf("%s: attention_bias has no form in llama.cpp's %s", c.label, arch)
	}
	name := cmp.Or(o.Name, strings.TrimSuffix(filepath.Base(c.Name), ".gguf"))
	keys = append(keys, gguf.KV{Key: "general.architecture", Value: arch}, gguf.KV{Key: "general.type", Value: "model"},
		gguf.KV{Key: "general.name", Value: name}, gguf.KV{Key: "general.file_type", Value: o.Mix.FileType},
		gguf.KV{Key: "general.quantization_version", Value: uint32(gguf.QuantizationVersion)})
	for _, k := range ggufNumbers(c.Config, arch) {
		keys = append(keys, gguf.KV{Key: arch + "." + k.Key, Value: k.Value})
	}
	scaling, err := ggufScalingKeys(c.Config, arch)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.label, err)
	}
	keys = append(keys, scaling...)
	if c.Config.Window > 0 {
		notes = append(notes, fmt.Sprintf("the model attends to the last %d tokens: llama.cpp ignores that and attends "+
			"to all", c.Config.Window))
	}
	ends := o.Ends
	if ends == nil {
		ends = c.Generation.EOS
	}
	words, more, err := c.ggufVocab(ends)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.label, err)
	}
	return append(keys, words...), append(notes, more...), nil
}

// ggufNumbers returns the keys that have the numbers of a configuration, without the architecture before them.
func ggufNumbers(c model.Config, arch string) []gguf.KV {
	n := func(x int) uint32 { return uint32(x) }
	keys := []gguf.KV{
		{Key: "block_count", Value: n(c.Layers)},
		{Key: "context_length", Value: n(c.MaxPositions)},
		{Key: "embedding_length", Value: n(c.Dim)},
		{Key: "feed_forward_length", Value: n(c.Inner)},
		{Key: "attention.head_count", Value: n(c.Heads)},
		{Key: "attention.head_count_kv", Value: n(c.KVHeads)},
		{Key: "rope.freq_base", Value: float32(c.RoPETheta)},
		{Key: "attention.layer_norm_rms_epsilon", Value: c.NormEps},
	}
	if arch != "qwen2" || c.HeadDim*c.Heads != c.Dim {
		keys = append(keys, gguf.KV{Key: "attention.key_length", Value: n(c.HeadDim)},
			gguf.KV{Key: "attention.value_length", Value: n(c.HeadDim)})
	}
	if arch == "llama" {
		keys = append(keys, gguf.KV{Key: "vocab_size", Value: n(c.Vocab)},
			gguf.KV{Key: "rope.dimension_count", Value: n(c.HeadDim)})
	}
	if m := c.Mixture; m != nil {
		keys = append(keys, gguf.KV{Key: "expert_count", Value: n(m.Experts)},
			gguf.KV{Key: "expert_used_count", Value: n(m.PerToken)})
		if arch == "qwen3moe" {
			keys = append(keys, gguf.KV{Key: "expert_feed_forward_length", Value: n(m.Inner)})
		}
	}
	return keys
}

// ggufScalingKeys returns the keys of a RoPE scaling that needs no table.
func ggufScalingKeys(c model.Config, arch string) ([]gguf.KV, error) {
	s := c.RoPEScaling
	if s == nil || s.Kind == model.RoPELlama3 || s.Kind == model.RoPELong {
		return nil, nil
	}
	keys := []gguf.KV{{Key: arch + ".rope.scaling.type", Value: string(s.Kind)},
		{Key: arch + ".rope.scaling.factor", Value: float32(s.Factor)}}
	plain := model.RoPEScaling{Kind: s.Kind, Factor: s.Factor, OriginalMaxPositions: s.OriginalMaxPositions}
	switch s.Kind {
	case model.RoPELinear:
		return keys, nil
	case model.RoPEYaRN:
		plain.BetaFast, plain.BetaSlow = 32, 1
		keys = append(keys, gguf.KV{Key: arch + ".rope.scaling.original_context_length",
			Value: uint32(s.OriginalMaxPositions)})
		if reflect.DeepEqual(*s, plain) {
			return keys, nil
		}
		return nil, errors.New("rope_scaling yarn with other numbers than factor and original_max_position_embeddings has " +
			"no form in llama.cpp's keys for these models")
	}
	return nil, fmt.Errorf("rope_scaling %s has no form in llama.cpp", s.Kind)
}

// ggufFactors returns the table of divisors of RoPE's frequencies, or nil if there is none.
func ggufFactors(c model.Config) ([]float32, error) {
	s := c.RoPEScaling
	if s == nil || s.Kind != model.RoPELlama3 && s.Kind != model.RoPELong {
		return nil, nil
	}
	if s.Kind == model.RoPELong && (!slices.Equal(s.Short, s.Long) || s.Attention() != 1) {
		return nil, errors.New("rope_scaling longrope whose factors change with the length has no form in llama.cpp for " +
			"these models")
	}
	plain := c
	plain.RoPEScaling = nil
	divided, undivided := c.InvFreq(1), plain.InvFreq(1)
	factors := make([]float32, len(divided))
	for i := range factors {
		factors[i] = float32(undivided[i] / divided[i])
	}
	return factors, nil
}

// ggufVocab returns the keys of the tokenizer. If the model has no tokenizer.json, they say that there is none. ends
// are the tokens that end an answer.
func (c *Checkpoint) ggufVocab(ends []int32) (keys []gguf.KV, notes []string, err error) {
	const ggml = "tokenizer.ggml."
	text, err := c.read("tokenizer.json")
	if errors.Is(err, fs.ErrNotExist) {
		return []gguf.KV{{Key: ggml + "model", Value: "none"}},
			[]string{"the model has no tokenizer.json: llama.cpp can read no text for the file, and of architectures other " +
				"than llama it does not load such files"}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	config, _ := c.read("tokenizer_config.json")
	generation, err := json.Marshal(map[string]any{"eos_token_id": ends})
	if err != nil {
		return nil, nil, err
	}
	words, notes, err := vocab.FromFiles(text, config, generation, c.Config.Vocab)
	if err != nil {
		return nil, nil, err
	}
	if words.EOS < 0 { // llama.cpp would take the token 11
		notes = append(notes, "the model does not say which token ends an answer: the file names the first of the ends that "+
			"llama.cpp knows by their text, or the last token")
		words.EOS = append(words.Ends(), len(words.Tokens)-1)[0]
	}
	words.Template, words.Templates = c.Tokenizer.ChatTemplate, c.Tokenizer.ChatTemplates
	add := func(key string, value any) { keys = append(keys, gguf.KV{Key: key, Value: value}) }
	types := make([]int32, len(words.Types))
	for i, t := range words.Types {
		types[i] = int32(t)
	}
	add(ggml+"model", words.Model)
	add(ggml+"pre", words.Pre)
	add(ggml+"tokens", words.Tokens)
	add(ggml+"token_type", types)
	if words.Merges != nil {
		add(ggml+"merges", words.Merges)
	}
	if words.Scores != nil {
		add(ggml+"scores", words.Scores)
	}
	for _, id := range []struct {
		key string
		id  int
	}{{"bos", words.BOS}, {"eos", words.EOS}, {"eot", words.EOT}, {"eom", words.EOM}, {"unknown", words.Unknown},
		{"padding", words.Pad}} {
		if id.id >= 0 {
			add(ggml+id.key+"_token_id", uint32(id.id))
		}
	}
	for _, is := range []struct {
		key string
		is  *bool
	}{{"add_bos_token", words.AddBOS}, {"add_eos_token", words.AddEOS}, {"add_space_prefix", words.AddSpacePrefix}} {
		if is.is != nil {
			add(ggml+is.key, *is.is)
		}
	}
	if words.Template != "" {
		add("tokenizer.chat_template", words.Template)
	}
	for _, name := range slices.Sorted(maps.Keys(words.Templates)) {
		if name != DefaultTemplate { // which Template is
			add("tokenizer.chat_template."+name, words.Templates[name])
		}
	}
	add("tokenizer.huggingface.json", words.HuggingFace)
	return keys, notes, nil
}

// ggufSources returns how to write each tensor, and the types by the parameters' names. They are in the order of
// llama.cpp's converter: by the files of the model, and by name within each file.
func (c *Checkpoint) ggufSources(tensors []TensorData, o GGUFOptions) (sources []gguf.Source,
	types map[string]gguf.Type, err error) {
	factors, err := ggufFactors(c.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.label, err)
	}
	untied := slices.ContainsFunc(tensors, func(t TensorData) bool { return t.Name == head })
	m := gguf.Model{Architecture: GGUFArchitecture(c.Config), Layers: c.Config.Layers, Heads: c.Config.Heads,
		KVHeads: c.Config.KVHeads, Tied: !untied}
	if c.Config.Mixture != nil {
		m.Experts = c.Config.Mixture.Experts
	}
	if factors != nil {
		sources = append(sources, gguf.Source{Name: ropeFactors, Type: gguf.F32, Dims: []int{len(factors)},
			Write: func(w io.Writer) error {
				data := make([]byte, 4*len(factors))
				narrow(data, tensor.F32, factors)
				_, err := w.Write(data)
				return err
			}})
	}
	types = map[string]gguf.Type{}
	stacks := map[string]stack{} // by name
	for _, t := range c.sorted(tensors) {
		name, expert, err := ggufName(c.Config, t.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", c.label, err)
		}
		dims := slices.Clone(t.Shape)
		slices.Reverse(dims)
		if expert >= 0 {
			dims = append(dims, m.Experts)
		}
		as := o.Mix.TypeOf(m, name, dims)
		types[t.Name] = as
		write := c.ggufRows(t, name, as)
		if expert >= 0 {
			if parts, more := stacks[name]; more {
				parts[expert] = write
				continue
			}
			stacks[name] = stack{expert: write}
			write = stacks[name].write
		}
		sources = append(sources, gguf.Source{Name: name, Type: as, Dims: dims, Write: write})
	}
	for name, parts := range stacks {
		if len(parts) != m.Experts {
			return nil, nil, fmt.Errorf("%s: %s needs %d experts, but there are %d", c.label, name, m.Experts, len(parts))
		}
	}
	for i, s := range sources {
		if write := s.Write; o.Done != nil {
			sources[i].Write = func(w io.Writer) error {
				if err := write(w); err != nil {
					return err
				}
				o.Done(s.Name, i+1, len(sources))
				return nil
			}
		}
	}
	return sources, types, nil
}

// A stack is how to write the matrices of the experts, by their numbers, that share a tensor.
type stack map[int]func(w io.Writer) error

func (s stack) write(w io.Writer) error {
	for _, expert := range slices.Sorted(maps.Keys(s)) {
		if err := s[expert](w); err != nil {
			return err
		}
	}
	return nil
}

// sorted sorts tensors by the files that have them, and by name. Tensors in no file come first.
func (c *Checkpoint) sorted(tensors []TensorData) []TensorData {
	shard := func(t TensorData) int {
		if c.weights == nil {
			return -1
		}
		return slices.Index(c.weights.shards, c.weights.where[t.Name])
	}
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b TensorData) int {
		return cmp.Or(shard(a)-shard(b), cmp.Compare(a.Name, b.Name))
	})
	return tensors
}

// ggufName returns the name of a parameter's tensor, and the index of the expert that the parameter is in it, or -1
// if it is not an expert's.
func ggufName(c model.Config, param string) (name string, expert int, err error) {
	stem, suffix, _ := cutLast(param, ".")
	layer, expert := "", -1
	if rest, is := strings.CutPrefix(stem, "model.layers."); is {
		layer, stem, _ = strings.Cut(rest, ".")
	}
	if c.Family == "mixtral" {
		stem = qwenNames.Replace(stem + ".")
		stem = strings.TrimSuffix(stem, ".")
	}
	if at := expertNumbers.FindStringSubmatchIndex(stem); at != nil {
		if expert, err = strconv.Atoi(stem[at[2]:at[3]]); err != nil {
			return "", -1, fmt.Errorf("the parameter %s: %w", param, err)
		}
		stem = stem[:at[2]] + "E" + stem[at[3]:]
	}
	for _, names := range ggufNames {
		if names.hf == stem {
			return strings.Replace(names.gguf, "blk.N", "blk."+layer, 1) + "." + suffix, expert, nil
		}
	}
	return "", -1, fmt.Errorf("the parameter %s has no name in llama.cpp's %s models", param, GGUFArchitecture(c))
}

// maxGGUFRows is roughly the number of bytes of float32 weights that are converted at a time.
const maxGGUFRows = 8 << 20

// ggufRows returns how to write a parameter as a type, with the rows of q and k where llama.cpp has them.
func (c *Checkpoint) ggufRows(t TensorData, name string, as gguf.Type) func(w io.Writer) error {
	in, d := 1, 1
	if len(t.Shape) > 1 {
		in = t.Shape[1]
	}
	if heads := ggufHeads(c.Config, blockName(name)); heads > 0 {
		d = t.Shape[0] / heads
	}
	return func(w io.Writer) error {
		r := &rowWriter{to: w, name: t.Name, from: t.DType, as: as, in: in, d: d, step: max(1, maxGGUFRows/4/(in*d))}
		err := t.Write(r)
		if err == nil {
			err = r.flush(len(r.rows) / t.DType.RowBytes(in))
		}
		return err
	}
}

// rowWriter converts rows to a type of GGUF as they come.
type rowWriter struct {
	to   io.Writer
	name string
	from tensor.DType
	as   gguf.Type
	in   int // elements of a row
	d    int // rows of a head to be rotated; 1: rows stay in order
	step int // heads that are converted at a time
	at   int // rows converted

	rows   []byte
	values []float32
	out    []byte
}

func (r *rowWriter) Write(p []byte) (int, error) {
	r.rows = append(r.rows, p...)
	if n, row := r.step*r.d, r.from.RowBytes(r.in); len(r.rows) >= n*row {
		if err := r.flush(n * (len(r.rows) / (n * row))); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// flush converts the first n rows, whole heads, and keeps the others.
func (r *rowWriter) flush(n int) error {
	row := r.from.RowBytes(r.in)
	data := r.rows[:n*row]
	if r.d > 1 {
		data = make([]byte, len(data))
		for i := range n {
			copy(data[(i/r.d*r.d+rotated(i%r.d, r.d))*row:], r.rows[i*row:][:row])
		}
	}
	r.out = slices.Grow(r.out[:0], n*r.as.RowBytes(r.in))[:n*r.as.RowBytes(r.in)]
	if err := r.convert(data, n); err != nil {
		return fmt.Errorf("%s, from row %d: %w", r.name, r.at, err)
	}
	r.at += n
	r.rows = append(r.rows[:0], r.rows[n*row:]...)
	_, err := r.to.Write(r.out)
	return err
}

// convert converts n rows to out.
func (r *rowWriter) convert(data []byte, n int) error {
	if r.from.Quantized() {
		return quant.Unpack(r.out, data, r.from, r.in)
	}
	r.values = slices.Grow(r.values[:0], n*r.in)[:n*r.in]
	widen(r.values, data, r.from)
	for i, x := range r.values {
		if r.as == gguf.F16 && math.Abs(float64(x)) > maxF16 {
			return fmt.Errorf("element %d is %v, too large for F16: use another type", i, x)
		}
	}
	return cpu.QuantizeBlocks(r.as, r.out, r.values)
}

// maxF16 is the greatest finite F16.
const maxF16 = 65504
