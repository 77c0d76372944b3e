package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

const embedding = "model.embed_tokens.weight"

// weight is a tensor of a model that a test makes.
type weight struct {
	dtype tensor.DType
	shape []int
	data  []float32
}

//nolint:lll // JSON in one piece
const smallConfig = `{"model_type":"llama","vocab_size":12,"hidden_size":8,"intermediate_size":6,"num_hidden_layers":2,` +
	`"num_attention_heads":2,"num_key_value_heads":1,"tie_word_embeddings":true,"torch_dtype":"float32"}`

// newWeights returns the weights that a config requires, each element a different number.
func newWeights(t testing.TB, config string, dtype tensor.DType) map[string]weight {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	expect.OK(t, err)
	all, next := map[string]weight{}, float32(0)
	for _, s := range c.Params() {
		w := weight{dtype, fileShape(s), nil}
		for range count(s.W.Shape) {
			next += 0.25
			w.data = append(w.data, next)
		}
		all[s.Name] = w
	}
	return all
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// writeModel writes a model's directory, with its weights in one file.
func writeModel(t testing.TB, config string, all map[string]weight) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), config)
	writeWeights(t, filepath.Join(dir, singleName), all)
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

func writeWeights(t testing.TB, path string, all map[string]weight) {
	t.Helper()
	var list []TensorData
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w := all[name]
		list = append(list, TensorData{name, w.dtype, w.shape, func(out io.Writer) error {
			b := make([]byte, len(w.data)*w.dtype.Size())
			narrow(b, w.dtype, w.data)
			_, err := out.Write(b)
			return err
		}})
	}
	expect.OK(t, WriteSafetensors(path, map[string]string{"format": "pt"}, list))
}

// newParams returns a model's parameters on the CPU, all NaN.
func newParams(t testing.TB, c model.Config, dtype tensor.DType) (*kernels.Device, []model.Param) {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	a, err := d.NewArena("parameters", int(c.ParamCount())*4+c.TensorCount()*1024)
	expect.OK(t, err)
	t.Cleanup(func() { a.Close() })
	var params []model.Param
	for _, s := range c.Params() {
		p := model.Param{Name: s.Name, W: a.New(s.Name, dtype, s.W.Shape...), Transposed: s.Transposed}
		d.Upload(p.W, slices.Repeat([]float32{float32(math.NaN())}, p.W.Len()))
		params = append(params, p)
	}
	return d, params
}

// TestRecordedModels loads models that transformers wrote, in every type, and compares with what transformers read from
// them.
func TestRecordedModels(t *testing.T) {
	var values map[string]map[string][3]float64
	data, err := os.ReadFile("testdata/values.json")
	if err != nil || json.Unmarshal(data, &values) != nil {
		t.Fatal("no values: ", err)
	}
	for name, want := range values {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				c, err := OpenModel(filepath.Join("testdata", name))
				expect.OK(t, err)
				defer c.Close()
				stored := map[string]tensor.DType{"tied": tensor.BF16, "sharded": tensor.F16}[name]
				if n := c.DTypes(); n[stored] != c.Config.ParamCount() || len(n) != 1 {
					t.Errorf("types %v, want %v", n, stored)
				}
				d, params := newParams(t, c.Config, dtype)
				expect.OK(t, c.Load(t.Context(), d, params, nil))
				if len(params) != len(want) {
					t.Errorf("%d parameters, want %d", len(params), len(want))
				}
				for _, p := range params {
					got, err := d.Floats(p.W)
					expect.OK(t, err)
					stored, _, err := c.ReadF32(p.Name)
					expect.OK(t, err)
					sum := 0.0
					for i, f := range stored {
						sum += float64(f)
						if dtype == tensor.BF16 {
							f = tensor.RoundBF16(f)
						}
						if got[i] != f {
							t.Fatalf("%s: element %d is %v, want %v", p.Name, i, got[i], f)
						}
					}
					// A sum of a few hundred numbers in float64 differs if their order does.
					if w := want[p.Name]; !(math.Abs(sum-w[0]) <= 1e-9) || float64(stored[0]) != w[1] ||
						float64(stored[len(stored)-1]) != w[2] {
						t.Errorf("%s: sum %v, from %v to %v; want %v", p.Name, sum, stored[0], stored[len(stored)-1], w)
					}
				}
			})
		}
	}
}

// TestReferenceModels opens and loads every model of the reference directory.
func TestReferenceModels(t *testing.T) {
	root := expect.Reference(t)
	configs, err := filepath.Glob(filepath.Join(root, "golden/model/*/config.json"))
	if err != nil || len(configs) < 10 {
		t.Fatal(configs, err)
	}
	for _, config := range configs {
		dir := filepath.Dir(config)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := OpenModel(dir)
			expect.OK(t, err)
			defer c.Close()
			d, params := newParams(t, c.Config, tensor.F32)
			expect.OK(t, c.Load(t.Context(), d, params, nil))
			golden, err := OpenSafetensors(filepath.Join(dir, "golden.safetensors"))
			expect.OK(t, err)
			defer golden.Close()
			for _, p := range params {
				if info, ok := golden.Tensor("grad." + p.Name); ok && !slices.Equal(info.Shape, p.W.Shape) {
					t.Errorf("%v and its gradient %v", p.W, info.Shape)
				}
			}
			if ids, dims, err := golden.ReadInts("input_ids"); err != nil || len(ids) != count(dims) {
				t.Errorf("%d ids of %v, %v", len(ids), dims, err)
			}
		})
	}
	c, err := OpenConfig(filepath.Join(root, "golden/full"))
	if err != nil || c.Config.ParamCount() != 1235814400 || len(c.Config.Params()) != 146 {
		t.Errorf("Llama-3.2-1B: %+v, %v", c, err)
	}
}

// TestBadModels damages a good model in one way per case.
func TestBadModels(t *testing.T) {
	const up = "model.layers.1.mlp.up_proj.weight"
	nan := func(at int, f float32) func(map[string]weight) {
		return func(all map[string]weight) { all[up].data[at] = f }
	}
	for _, test := range []struct {
		name  string
		edit  func(map[string]weight)
		want  string // the error of OpenModel
		load  string // the error of Load
		dtype tensor.DType
	}{
		{name: "nothing wrong", edit: func(map[string]weight) {}},
		{name: "missing", edit: func(all map[string]weight) { delete(all, up) }, want: up + " is missing"},
		{name: "many missing", edit: func(all map[string]weight) {
			maps.DeleteFunc(all, func(name string, _ weight) bool { return strings.Contains(name, "layers.1.") })
		}, want: "model.layers.1.input_layernorm.weight, model.layers.1.self_attn.q_proj.weight, " +
			"model.layers.1.self_attn.k_proj.weight and 6 more are missing"},
		{name: "unknown", edit: func(all map[string]weight) { all["model.layers.2.mlp.up_proj.weight"] = all[up] },
			want: "model.layers.2.mlp.up_proj.weight is unknown"},
		{name: "unknown with a newline", edit: func(all map[string]weight) { all["a\nb"] = all[up] },
			want: `"a\nb" is unknown`},
		{name: "another name", edit: func(all map[string]weight) { all["x"] = all[up]; delete(all, up) }, want: up +
			" is missing; x is unknown"},
		{name: "old buffers", edit: func(all map[string]weight) {
			all["model.layers.0.self_attn.rotary_emb.inv_freq"] = weight{tensor.F32, []int{2}, []float32{1, 0.01}}
		}},
		{name: "transposed", edit: func(all map[string]weight) { all[up] = weight{tensor.F32, []int{8, 6}, all[up].data} },
			want: up + " has shape [8 6], but must have [6 8]"},
		{name: "several kinds", edit: func(all map[string]weight) {
			all["x"] = all[up]
			delete(all, "model.norm.weight")
			all[up] = weight{tensor.F32, []int{8, 6}, all[up].data}
			all["model.layers.0.mlp.up_proj.weight"] = all[up]
			all["model.layers.0.mlp.gate_proj.weight"] = all[up]
		}, want: "model.norm.weight is missing; x is unknown to it; model.layers.0.mlp.gate_proj.weight has shape [8 6], " +
			"but must have [6 8]; 2 more have a wrong shape or type"},
		{name: "integers", edit: func(all map[string]weight) {
			all[up] = weight{tensor.I32, []int{6, 8}, nil}
		}, want: up + " is of type I32"},
		{name: "NaN", edit: nan(17, float32(math.NaN())), load: "element 17 of " + up + " is NaN"},
		{name: "infinity", edit: nan(47, float32(math.Inf(-1))), load: "element 47 of " + up + " is -Inf"},
		{name: "too large", edit: nan(0, 3.4e38), load: "element 0 of " + up + " is too large for BF16", dtype: tensor.BF16},
		{name: "the head stored twice", edit: func(all map[string]weight) { all[head] = all[embedding] }},
		{name: "another head", edit: func(all map[string]weight) {
			w := all[embedding]
			w.data = slices.Clone(w.data)
			w.data[95]++
			all[head] = w
		}, load: "tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight"},
		{name: "a head of another type", edit: func(all map[string]weight) {
			w := all[embedding]
			w.dtype = tensor.BF16
			all[head] = w
		}, load: "tie_word_embeddings is true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := newWeights(t, smallConfig, tensor.F32)
			test.edit(all)
			for name, w := range all {
				if w.data == nil {
					w.data = make([]float32, count(w.shape))
				}
				if w.dtype == tensor.I32 {
					w.dtype = tensor.F32 // the number of bytes is the same; the header is changed below
				}
				all[name] = w
			}
			dir := writeModel(t, smallConfig, all)
			if test.name == "integers" {
				path := filepath.Join(dir, singleName)
				data, _ := os.ReadFile(path)
				at := strings.Index(string(data), up)
				write(t, path, string(data[:at])+strings.Replace(string(data[at:]), "F32", "I32", 1))
			}
			c, err := OpenModel(dir)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			expect.OK(t, err)
			defer c.Close()
			dtype := test.dtype
			if dtype == 0 {
				dtype = tensor.F32
			}
			d, params := newParams(t, c.Config, dtype)
			err = c.Load(t.Context(), d, params, nil)
			if test.load == "" && err != nil || test.load != "" && (err == nil || !strings.Contains(err.Error(), test.load)) {
				t.Errorf("loading: %v, want %q", err, test.load)
			}
		})
	}
}

// TestDTypes_OfHeaders checks that weights are counted by the types in the headers of their files, whatever config.json
// says.
func TestDTypes_OfHeaders(t *testing.T) {
	total := func(m map[tensor.DType]int64) (n int64) {
		for _, count := range m {
			n += count
		}
		return n
	}
	for _, said := range []string{"float32", "float16", "bfloat16", "float8_e4m3fn"} {
		config := strings.Replace(smallConfig, "float32", said, 1)
		w := newWeights(t, config, tensor.F16)
		norm, up := w["model.norm.weight"], w["model.layers.0.mlp.up_proj.weight"]
		norm.dtype, up.dtype = tensor.F32, tensor.BF16
		w["model.norm.weight"], w["model.layers.0.mlp.up_proj.weight"] = norm, up
		w["model.layers.0.self_attn.rotary_emb.inv_freq"] = weight{tensor.F32, []int{2}, []float32{1, 2}} // not a weight
		c, err := OpenModel(writeModel(t, config, w))
		expect.OK(t, err)
		defer c.Close()
		if n := c.DTypes(); n[tensor.F32] != 8 || n[tensor.BF16] != 48 || total(n) != c.Config.ParamCount() {
			t.Errorf("%s: %v of %d", said, n, c.Config.ParamCount())
		}
	}
	c, err := OpenConfig("testdata/tied")
	if err != nil || len(c.DTypes()) != 0 {
		t.Errorf("without weights: %v, %v", c.DTypes(), err)
	}
}

// TestBadDirectories opens directories in which something other than the weights is wrong.
func TestBadDirectories(t *testing.T) {
	untied := strings.Replace(smallConfig, `"tie_word_embeddings":true,`, "", 1)
	for _, test := range []struct {
		name string
		edit func(dir string)
		want string
	}{
		{"no config", func(dir string) { os.Remove(dir + "/config.json") }, "has no config.json: give the directory"},
		{"config a directory", func(dir string) { os.Remove(dir + "/config.json"); os.Mkdir(dir+"/config.json", 0o777) },
			"config.json: not a file but a directory"},
		{"config of nothing", func(dir string) { write(t, dir+"/config.json", "") }, "config.json: it is not a JSON object"},
		{"untied", func(dir string) { write(t, dir+"/config.json", untied) },
			"lm_head.weight is missing: if the model's head is its embedding, set tie_word_embeddings"},
		{"4096 layers", func(dir string) {
			write(t, dir+"/config.json", strings.Replace(smallConfig, `_layers":2`, `_layers":4096`, 1))
		}, "it needs 36866 tensors, but there are 20"},
		{"tokenizer", func(dir string) { write(t, dir+"/tokenizer_config.json", "[]") },
			"tokenizer_config.json: it is not a JSON object"},
		{"no weights", func(dir string) { os.Remove(dir + "/" + singleName) }, "has no weights, neither"},
		{"a pickle", func(dir string) { os.Rename(dir+"/"+singleName, dir+"/pytorch_model.bin") },
			"only pytorch_model.bin, a pickle"},
		{"GGUF", func(dir string) { os.Rename(dir+"/"+singleName, dir+"/model.Q4_K_M.gguf") },
			"only model.Q4_K_M.gguf, a model in one file"},
		{"an adapter", func(dir string) { os.Rename(dir+"/"+singleName, dir+"/adapter_model.safetensors") },
			"only adapter_model.safetensors, which may be an adapter"},
		{"a file of several", func(dir string) { os.Rename(dir+"/"+singleName, dir+"/model-00001-of-00002.safetensors") },
			"has model-00001-of-00002.safetensors, but not " + indexName + ", which lists such files: get it"},
		{"cut off", func(dir string) { os.Truncate(dir+"/"+singleName, 4000) }, "the file is truncated"},
		{"index of files below", func(dir string) {
			os.Remove(dir + "/" + singleName)
			write(t, dir+"/"+indexName, `{"weight_map":{"a":"below/x.safetensors"}}`)
		}, "which is not the name of a .safetensors file next to it"},
		{"index of nothing", func(dir string) { os.Remove(dir + "/" + singleName); write(t, dir+"/"+indexName, "{}") },
			"weight_map is missing or empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
			test.edit(dir)
			if _, err := OpenModel(dir); err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if _, err := OpenModel(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	if _, err := OpenModel("checkpoint_test.go"); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Error(err)
	}
}

// TestHugeFilesAreNotRead checks that files that claim to be huge, which sparse files may, are refused without being
// read.
func TestHugeFilesAreNotRead(t *testing.T) {
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja",
		singleName} {
		dir := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
		path := filepath.Join(dir, name)
		write(t, path, "")
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Skip("no files with holes: ", err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := OpenModel(dir)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%s: %d bytes allocated", name, used)
		}
	}
}

// TestSmallFiles checks what is read from the files next to the weights.
func TestSmallFiles(t *testing.T) {
	dir := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
	open := func() *Checkpoint {
		c, err := OpenModel(dir)
		expect.OK(t, err)
		c.Close()
		return c
	}
	c := open()
	want := GenerationConfig{BOS: []int32{1}, EOS: []int32{2}, Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1}
	if diff := cmp.Diff(want, c.Generation); diff != "" || !cmp.Equal(c.Tokenizer, TokenizerConfig{}) {
		t.Errorf("%+v %s", c, diff)
	}
	write(t, filepath.Join(dir, "generation_config.json"),
		`{"eos_token_id":[3,4],"temperature":0.5,"num_beams":2,"top_h":0.5}`)
	write(t, filepath.Join(dir, "tokenizer_config.json"), `{"bos_token":"<s>","chat_template":"old"}`)
	if data, err := c.ReadFile("tokenizer.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", data, err)
	}
	write(t, filepath.Join(dir, "tokenizer.json"), `{}`)
	c = open()
	if data, err := c.ReadFile("tokenizer.json"); string(data) != "{}" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	want.EOS, want.Temperature, want.NotApplied = []int32{3, 4}, 0.5, []string{"num_beams 2", "top_h 0.5"}
	if notes := []string{"generation_config.json: not applied to answers: num_beams 2, top_h 0.5"}; !slices.Equal(c.Notes,
		notes) {
		t.Errorf("notes %q", c.Notes)
	}
	if diff := cmp.Diff(want, c.Generation); diff != "" || c.Tokenizer.ChatTemplate != "old" {
		t.Errorf("%+v %s", c, diff)
	}
	write(t, filepath.Join(dir, "chat_template.jinja"), "new\n")
	if c = open(); !cmp.Equal(c.Tokenizer, TokenizerConfig{ChatTemplate: "new\n", BOS: "<s>"}) {
		t.Errorf("%+v", c.Tokenizer)
	}
	if string(c.ConfigJSON) != smallConfig {
		t.Errorf("%s", c.ConfigJSON)
	}
}
