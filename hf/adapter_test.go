package hf

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

const layer0 = "model.layers.0.self_attn."

// peftConfig returns an adapter_config.json of rank 2 on q_proj, with more keys.
func peftConfig(more string) string {
	return `{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"]` + more + "}"
}

// adapterWeights returns the tensors of an adapter of q_proj under the names of a writer. The values are the same for
// all, so they are in another order in the file of a writer that stores them transposed.
func adapterWeights(a, b string, transposed bool, dtype tensor.DType) map[string]weight {
	if transposed {
		return map[string]weight{
			a: {dtype, []int{3, 2}, []float32{1, 4, 2, 5, 3, 6}},
			b: {dtype, []int{2, 5}, []float32{1, 3, 5, 7, 9, 2, 4, 6, 8, 10}},
		}
	}
	return map[string]weight{
		a: {dtype, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}},
		b: {dtype, []int{5, 2}, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
	}
}

// writeAdapter writes an adapter to a new directory.
func writeAdapter(t testing.TB, config string, all map[string]weight) string {
	t.Helper()
	dir, name := t.TempDir(), adapterWeightsName
	if isMLX([]byte(config)) {
		name = adapterMLXName
	}
	write(t, filepath.Join(dir, adapterConfigName), config)
	writeWeights(t, filepath.Join(dir, name), all)
	return dir
}

// adapterParams returns parameters for the tensors of an adapter, filled with NaN, and one of the base.
func adapterParams(t testing.TB, a *Adapter, dtype tensor.DType) (*kernels.Device, []model.Param) {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	arena, err := d.NewArena("parameters", 1<<20)
	expect.OK(t, err)
	t.Cleanup(func() { arena.Close() })
	params := []model.Param{{Name: "model.norm.weight", W: arena.New("model.norm.weight", dtype, 3)}}
	for _, name := range a.Names() {
		info, _ := a.Tensor(name)
		p := model.Param{Name: name, W: arena.New(name, dtype, info.Shape...)}
		d.Upload(p.W, slices.Repeat([]float32{float32(math.NaN())}, p.W.Len()))
		params = append(params, p)
	}
	return d, params
}

func open(t testing.TB, dir string) *Adapter {
	t.Helper()
	a, err := OpenAdapter(dir)
	expect.OK(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

// TestAdapter_ReferencesOpenAndSave opens what PEFT has written, compares the scale of every module and every tensor
// with what PEFT recorded, and loads and saves it without changing a bit.
func TestAdapter_ReferencesOpenAndSave(t *testing.T) {
	root := expect.Reference(t, "golden-next", "lora")
	for _, name := range []string{"all_r4", "qv_rslora", "modules_to_save", "patterns", "qlora_nf4"} {
		t.Run(name, func(t *testing.T) {
			a := open(t, filepath.Join(root, name))
			var recorded struct{ Scaling map[string]float64 }
			data, err := os.ReadFile(filepath.Join(root, name, "lora.json"))
			if err != nil || json.Unmarshal(data, &recorded) != nil {
				t.Fatal(err)
			}
			scaling := map[string]float64{}
			for _, module := range a.modules() {
				_, scaling[module], _ = a.Spec.Of(module)
			}
			if diff := cmp.Diff(recorded.Scaling, scaling); diff != "" || a.BaseModel != name {
				t.Errorf("of %s (-want +got):\n%s", a.BaseModel, diff)
			}
			d, params := adapterParams(t, a, tensor.F32)
			expect.OK(t, a.Load(t.Context(), d, params))
			dir := t.TempDir()
			expect.OK(t, SaveAdapter(dir, a.Spec, d, params, AdapterOptions{BaseModel: name}))
			again := open(t, dir)
			sortNames := cmp.Transformer("sort", func(t lora.Targets) []string {
				return slices.Sorted(slices.Values(append(t.Names, t.Match)))
			})
			if diff := cmp.Diff(a.Spec, again.Spec, sortNames); diff != "" || again.BaseModel != name {
				t.Errorf("of %s (-want +got):\n%s", again.BaseModel, diff)
			}
			final, err := OpenSafetensors(filepath.Join(root, name, "lora.safetensors"))
			expect.OK(t, err)
			defer final.Close()
			if diff := cmp.Diff(a.Names(), again.Names()); diff != "" {
				t.Error(diff)
			}
			for _, p := range params[1:] {
				want, _, err := final.ReadF32("final." + adapterPrefix + p.Name)
				expect.OK(t, err)
				for _, from := range []*Adapter{a, again} {
					if got, _, err := from.ReadF32(p.Name); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s of %s is another: %v", p.Name, from.Name, err)
					}
				}
			}
		})
	}
}

const mlxConfig = `{"fine_tune_type":"lora","num_layers":1,"model":"m","seed":7,` +
	`"lora_parameters":{"rank":2,"scale":2.0,"dropout":0.0,"keys":["self_attn.q_proj"]}}`

// TestAdapter_ReadsOtherWriters reads the same adapter under the names and in the types that other writers give it.
func TestAdapter_ReadsOtherWriters(t *testing.T) {
	want := adapterWeights(layer0+"q_proj"+endA, layer0+"q_proj"+endB, false, tensor.F32)
	for _, c := range []struct {
		config, prefix, a, b string
		transposed           bool
		dtype                tensor.DType
	}{
		{peftConfig(""), adapterPrefix, endA, endB, false, tensor.F32},
		{peftConfig(""), "", endA, endB, false, tensor.BF16},
		{peftConfig(""), adapterPrefix, ".lora_A.default.weight", ".lora_B.default.weight", false, tensor.F16},
		{mlxConfig, "", ".lora_a", ".lora_b", true, tensor.F32},
		{mlxConfig, "", ".lora_a", ".lora_b", true, tensor.BF16},
	} {
		module := c.prefix + layer0 + "q_proj"
		a := open(t, writeAdapter(t, c.config, adapterWeights(module+c.a, module+c.b, c.transposed, c.dtype)))
		if rank, scale, ok := a.Spec.Of(layer0 + "q_proj"); rank != 2 || scale != 2 || !ok {
			t.Errorf("%s: rank %d, scale %v, %v", c.a, rank, scale, ok)
		}
		d, params := adapterParams(t, a, tensor.F32)
		expect.OK(t, a.Load(t.Context(), d, params))
		for _, p := range params[1:] {
			read, dims, err := a.ReadF32(p.Name)
			loaded, _ := d.Floats(p.W)
			w := want[p.Name]
			if err != nil || !slices.Equal(dims, w.shape) || !slices.Equal(read, w.data) || !slices.Equal(loaded, w.data) {
				t.Errorf("%s of %s: %v %v, loaded %v, %v", p.Name, c.a, dims, read, loaded, err)
			}
		}
	}
}

// adapterConfigs lists configurations and what is wrong with them. Nothing is wrong with one that has no error.
var adapterConfigs = []struct{ config, err string }{
	{peftConfig(``), ""},
	{peftConfig(`,"new_key":null,"n2":false,"n3":0.0,"n4":"","n5":[ ],"n6":{ }`), ""},
	{peftConfig(`,"init_lora_weights":"eva","eva_config":{"rho":2},"loftq_config":{"a":1},` +
		`"layers_pattern":["layers"]`), ""},
	{peftConfig(`,"base_model_name_or_path":null,"task_type":null,"layers_to_transform":[0,1],"bias":"none"`), ""},
	{peftConfig(`,"new_key":1`), `"new_key" is 1: this key is unknown`},
	{peftConfig(`,"use_dora":true`), "use_dora is true: DoRA"},
	{peftConfig(`,"use_bdlora":{"nblocks":2}`), "use_bdlora is"},
	{peftConfig(`,"use_qalora":true`), "use_qalora is true"},
	{peftConfig(`,"arrow_config":{"top_k":3}`), "arrow_config is"},
	{peftConfig(`,"alora_invocation_tokens":[1]`), "alora_invocation_tokens is [1]"},
	{peftConfig(`,"target_parameters":["x"]`), "target_parameters is"},
	{peftConfig(`,"trainable_token_indices":[1]`), "trainable_token_indices is"},
	{peftConfig(`,"layer_replication":[[0,1]]`), "layer_replication is"},
	{peftConfig(`,"fan_in_fan_out":true`), ""},
	{peftConfig(`,"bias":"all"`), `bias is "all"`},
	{peftConfig(`,"lora_bias":true`), "lora_bias is true"},
	{peftConfig(`,"megatron_config":{"a":1}`), "megatron_config is"},
	{peftConfig(`,"kasa_config":{"a":1}`), "kasa_config is"},
	{peftConfig(`,"ensure_weight_tying":true`), "ensure_weight_tying is true"},
	{peftConfig(`,"layers_pattern":"h"`), `layers_pattern is "h"`},
	{peftConfig(`,"init_lora_weights":"pissa_niter_4"`), `init_lora_weights is "pissa_niter_4"`},
	{peftConfig(`,"init_lora_weights":"loftq"`), "path_initial_model_for_weight_conversion"},
	{peftConfig(`,"task_type":"SEQ_CLS"`), `task_type is "SEQ_CLS"`},
	{peftConfig(`,"rank_pattern":{"a":"b"}`), `rank_pattern of "a" is not a number`},
	{peftConfig(`,"rank_pattern":{"a":null}`), `rank_pattern of "a" is not a number`},
	{peftConfig(`,"rank_pattern":{"a":1,"a":2}`), `rank of "a" is there twice`},
	{peftConfig(`,"alpha_pattern":[1]`), "not an object of numbers"},
	{peftConfig(`,"alpha_pattern":{"(?=a)":1}`), "look-around"},
	{peftConfig(`,"modules_to_save":"lm_head"`), "not a list of strings"},
	{peftConfig(`,"lora_alpha":0`), "alpha 0"},
	{peftConfig(`,"lora_dropout":1`), "dropout 1"},
	{peftConfig(`,"r":0`), "r is 0"},
	{peftConfig(`,"r":null`), "r is null"},
	{peftConfig(`,"r":1e9`), "r is 1e9"},
	{peftConfig(`,"target_modules":null`), "no targets"},
	{peftConfig(`,"target_modules":7`), "target_modules is 7"},
	{`{"r":8}`, `peft_type is ""`}, {`{"peft_type":"IA3"}`, `peft_type is "IA3"`},
	{`[]`, "not a JSON object"}, {`{`, "not a JSON object"}, {``, "not a JSON object"}, {"\xff", "not UTF-8"},
	{strings.Replace(mlxConfig, `"lora",`, `"dora",`, 1), `fine_tune_type is "dora"`},
	{strings.Replace(mlxConfig, `"scale"`, `"alpha"`, 1), "lacks rank or scale"},
	{strings.Replace(mlxConfig, `"keys"`, `"new"`, 1), `"new": this key is unknown`},
}

// parseEither reads the configuration of either program.
func parseEither(data []byte) (spec lora.Spec, err error) {
	if isMLX(data) {
		spec, _, err = parseMLX(data, []string{"q_proj"})
	} else {
		spec, _, err = parseAdapterConfig(data)
	}
	return spec, err
}

func TestParseAdapterConfig(t *testing.T) {
	for _, c := range adapterConfigs {
		if _, err := parseEither([]byte(c.config)); c.err == "" && err != nil ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v; want %q", c.config, err, c.err)
		}
	}
	// The first pattern counts, in the file's order.
	s, err := parseEither([]byte(peftConfig(`,"rank_pattern":{"q_proj":3,".*":5,"a":1},"target_modules":"All-Linear"`)))
	want := []lora.Pattern{{Key: "q_proj", Value: 3}, {Key: ".*", Value: 5}, {Key: "a", Value: 1}}
	if err != nil || !slices.Equal(s.Ranks, want) || !s.Targets.AllLinear {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOpenAdapter_RefusesWhatWouldDoNothing changes one thing of an adapter that can be opened.
func TestOpenAdapter_RefusesWhatWouldDoNothing(t *testing.T) {
	const q, k = adapterPrefix + layer0 + "q_proj", adapterPrefix + layer0 + "k_proj"
	two := weight{tensor.F32, []int{2, 2}, []float32{1, 2, 3, 4}}
	for _, c := range []struct {
		more   string
		change func(map[string]weight)
		err    string
	}{
		{"", func(all map[string]weight) { delete(all, q+endB) }, layer0 + "q_proj.lora_B.weight is missing"},
		{"", func(all map[string]weight) { delete(all, q+endA) }, layer0 + "q_proj.lora_A.weight is missing"},
		{"", func(all map[string]weight) { clear(all) }, "no tensors of q_proj"},
		{"", func(all map[string]weight) { all[k+endA], all[k+endB] = two, two },
			layer0 + "k_proj.lora_A.weight, " + layer0 + "k_proj.lora_B.weight are in none of target_modules"},
		{"", func(all map[string]weight) { all["lm_head.weight"] = two }, "lm_head.weight is there whole"},
		{"", func(all map[string]weight) { all[q+".lora_magnitude_vector"] = two }, "lora_magnitude_vector is in none of"},
		{"", func(all map[string]weight) { all[layer0+"q_proj"+endA] = two }, "are the same tensor"},
		{`,"rank_pattern":{"q_proj":3}`, nil, "lora_A.weight of shape [2 3] and rank 3"},
		{`,"target_modules":["q_proj","k_proj"]`, nil, "no tensors of k_proj"},
		{`,"modules_to_save":["lm_head"]`, nil, "no tensors of lm_head"},
		{"", func(all map[string]weight) { all[q+endB] = weight{tensor.F32, []int{2}, []float32{1, 2}} },
			"shape [2] and rank 2"},
		{"", func(all map[string]weight) { all[q+endB] = weight{tensor.F32, []int{0, 2}, nil} }, "shape [0 2] and rank 2"},
	} {
		all := adapterWeights(q+endA, q+endB, false, tensor.F32)
		if c.change != nil {
			c.change(all)
		}
		if _, err := OpenAdapter(writeAdapter(t, peftConfig(c.more), all)); err == nil ||
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v; want %q", c.more, err, c.err)
		}
	}
	dir := t.TempDir()
	refuse := func(want string) {
		t.Helper()
		if _, err := OpenAdapter(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	refuse("it has no adapter_config.json")
	write(t, filepath.Join(dir, adapterConfigName), peftConfig(""))
	refuse("it has no adapter_model.safetensors: get that")
	write(t, filepath.Join(dir, "adapter_model.bin"), "x")
	refuse("only adapter_model.bin, a pickle")
	write(t, filepath.Join(dir, adapterRecordName), "[]")
	refuse(adapterRecordName + ": it is not a JSON object")
	dir = filepath.Join(dir, adapterConfigName)
	refuse("is not a directory: give the one that holds adapter_config.json")
}

// TestAdapterLoad_IsStrict loads an adapter into other models, and an adapter with an infinite number.
func TestAdapterLoad_IsStrict(t *testing.T) {
	a := open(t, writeAdapter(t, peftConfig(""),
		adapterWeights(layer0+"q_proj"+endA, layer0+"q_proj"+endB, false, tensor.F32)))
	d, params := adapterParams(t, a, tensor.F32)
	more := model.Param{Name: layer0 + "k_proj" + endA, W: params[1].W}
	longer := slices.Clone(params)
	longer[1].W = longer[1].W.View(3, 2)
	for want, params := range map[string][]model.Param{
		"it lacks " + more.Name:                        append(params[:3:3], more),
		"which the model does not have":                params[:2],
		"lora_A.weight of shape [2 3] where the model": longer,
	} {
		if err := a.Load(t.Context(), d, params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	all := adapterWeights(layer0+"q_proj"+endA, layer0+"q_proj"+endB, false, tensor.F32)
	all[layer0+"q_proj"+endB].data[3] = float32(math.Inf(1))
	a = open(t, writeAdapter(t, peftConfig(""), all))
	_, _, err := a.ReadF32(layer0 + "q_proj" + endB)
	for _, err := range []error{err, a.Load(t.Context(), d, params)} {
		if err == nil || !strings.Contains(err.Error(), "element 3 of "+layer0+"q_proj.lora_B.weight is +Inf") {
			t.Error(err)
		}
	}
}

// TestSaveAdapter saves an adapter over another one.
func TestSaveAdapter(t *testing.T) {
	a := open(t, writeAdapter(t, peftConfig(""),
		adapterWeights(layer0+"q_proj"+endA, layer0+"q_proj"+endB, false, tensor.F32)))
	d, params := adapterParams(t, a, tensor.BF16)
	expect.OK(t, a.Load(t.Context(), d, params))
	dir := filepath.Join(t.TempDir(), "out")
	spec := lora.Default()
	spec.Rank = 2
	o := AdapterOptions{BaseModel: "owner/base", Record: json.RawMessage(`{"digest":"sha256:1"}`), Card: []byte("a card")}
	expect.OK(t, SaveAdapter(dir, spec, d, params, o))
	again := open(t, dir)
	info, _ := again.Tensor(layer0 + "q_proj" + endA)
	if string(again.Record) != string(o.Record) || info.DType != "F32" || again.file.Metadata["format"] != "pt" {
		t.Errorf("%s, %v", again.Record, info)
	}
	const config = `{
  "base_model_name_or_path": "owner/base",
  "bias": "none",
  "inference_mode": true,
  "lora_alpha": 32,
  "lora_dropout": 0,
  "peft_type": "LORA",
  "r": 2,
  "target_modules": [
    "q_proj"
  ],
  "task_type": "CAUSAL_LM"
}
`
	sums := fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256([]byte(config)), adapterConfigName,
		sha256.Sum256([]byte(expect.Read(t, filepath.Join(dir, adapterWeightsName)))), adapterWeightsName)
	if digest, err := again.Digest(); err != nil || digest != fmt.Sprintf("%x", sha256.Sum256([]byte(sums))) {
		t.Errorf("digest %s, %v", digest, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, adapterConfigName))
	if diff := cmp.Diff(config, string(text)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	// A power cut between two names must not leave the weights of one with the configuration of the other.
	stop := errors.New("power cut")
	restore := disk.Watch(func(op string, names ...string) error {
		if op == "rename" && filepath.Base(names[1]) == adapterWeightsName {
			return stop
		}
		return nil
	})
	err = SaveAdapter(dir, spec, d, params, AdapterOptions{})
	restore()
	if _, open := OpenAdapter(dir); !errors.Is(err, stop) || open == nil ||
		!strings.Contains(open.Error(), "no adapter_model") {
		t.Errorf("%v, then %v", err, open)
	}
	expect.OK(t, SaveAdapter(dir, spec, d, params, AdapterOptions{}))
	if diff := cmp.Diff([]string{"README.md", adapterConfigName, adapterWeightsName}, list(t, dir)); diff != "" {
		t.Error(diff)
	}
	// These must not be saved.
	refuse := func(dir string, spec lora.Spec, params []model.Param, o AdapterOptions, want string) {
		t.Helper()
		if err := SaveAdapter(dir, spec, d, params, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	refuse(dir, spec, params[:2], AdapterOptions{}, "lora_B.weight is missing")
	refuse(dir, lora.Default(), params, AdapterOptions{}, "and rank 16")
	refuse(dir, lora.Spec{Rank: 1}, params, AdapterOptions{}, "alpha 0")
	refuse(dir, spec, params, AdapterOptions{Record: json.RawMessage("[]")}, adapterRecordName)
	d.Upload(params[2].W, slices.Repeat([]float32{float32(math.NaN())}, params[2].W.Len()))
	refuse(dir, spec, params, AdapterOptions{}, "lora_B.weight: element 0 is NaN")
	open(t, dir) // the old one is whole
	write(t, filepath.Join(dir, "config.json"), "{}")
	refuse(dir, spec, params, AdapterOptions{}, "there is a model")
}

// FuzzAdapterConfig checks that every accepted configuration is valid, and that it is unchanged when saved and read
// back.
func FuzzAdapterConfig(f *testing.F) {
	for _, c := range adapterConfigs {
		f.Add([]byte(c.config))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s lora.Spec
		var err error
		// In a regular expression, 7 bytes, such as a{1000}, make a thousand instructions.
		hostile.Within(t, hostile.Linear(len(data))+len(data)<<16, func() { s, err = parseEither(data) })
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if s.Targets.AllLinear {
			s.Targets = lora.Targets{Names: []string{"q_proj"}} // as it is saved
		}
		again, err := parseEither(adapterConfig(s, "", []string{layer0 + "q_proj"}))
		if err != nil || s.String() != again.String() {
			t.Errorf("%v: %s became %s", err, s, again)
		}
	})
}
