package hf

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// load opens a model and returns its parameters, loaded.
func load(t *testing.T, dir string, dtype tensor.DType) (*Checkpoint, *kernels.Device, []model.Param) {
	t.Helper()
	c, err := OpenModel(dir)
	expect.OK(t, err)
	t.Cleanup(func() { c.Close() })
	d, params := newParams(t, c.Config, dtype)
	expect.OK(t, c.Load(t.Context(), d, params, nil))
	return c, d, params
}

// list lists a directory.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sameWeights(t *testing.T, dir string, d *kernels.Device, params []model.Param) {
	t.Helper()
	_, d2, again := load(t, dir, params[0].W.DType)
	for i, p := range params {
		want, _ := d.Floats(p.W)
		if got, _ := d2.Floats(again[i].W); !slices.Equal(got, want) {
			t.Errorf("%s is another", p.Name)
		}
	}
}

// TestSave saves the loaded model repeatedly into the same directory: in one file, in several, in fewer, in one.
func TestSave(t *testing.T) {
	from, d, params := load(t, "testdata/tied", tensor.BF16)
	dir := filepath.Join(t.TempDir(), "new", "out")
	three := []string{"config.json", "generation_config.json", "model-00001-of-00003.safetensors",
		"model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", indexName}
	two := []string{"config.json", "generation_config.json", "model-00001-of-00002.safetensors",
		"model-00002-of-00002.safetensors", indexName}
	one := []string{"config.json", "generation_config.json", singleName}
	for _, test := range []struct {
		max  int64
		want []string
	}{{0, one}, {2500, three}, {2500, three}, {4000, two}, {1e6, one}} {
		expect.OK(t, Save(dir, from, d, params, SaveOptions{MaxShardBytes: test.max}))
		if diff := cmp.Diff(test.want, list(t, dir)); diff != "" {
			t.Errorf("%d bytes a shard (-want +got):\n%s", test.max, diff)
		}
		sameWeights(t, dir, d, params)
	}
	// Saved in its own type, the model is the same as before.
	for _, name := range []string{"config.json", "generation_config.json"} {
		want, _ := os.ReadFile(filepath.Join("testdata/tied", name))
		if got, _ := os.ReadFile(filepath.Join(dir, name)); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
			t.Errorf("%s is now %s", name, got)
		}
	}
	// Save it onto itself, and then save a model with the older keys.
	own, err := OpenModel(dir)
	expect.OK(t, err)
	defer own.Close()
	expect.OK(t, Save(dir, own, d, params, SaveOptions{DType: tensor.F32}))
	sameWeights(t, dir, d, params)
	if c, _, _ := load(t, dir, tensor.F32); c.DTypes()[tensor.F32] != c.Config.ParamCount() ||
		!cmp.Equal(c.Config, from.Config) || !cmp.Equal(c.Generation, from.Generation) {
		t.Errorf("%+v", c)
	}
	from, d, params = load(t, "testdata/sharded", tensor.F32)
	expect.OK(t, Save(dir, from, d, params, SaveOptions{DType: tensor.F16}))
	sameWeights(t, dir, d, params) // the weights were F16, so F16 loses nothing
}

// TestSaveFromScratch saves a model that existed only as a config.json.
func TestSaveFromScratch(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), smallConfig)
	from, err := OpenConfig(dir)
	expect.OK(t, err)
	if _, err := OpenModel(dir); err == nil {
		t.Error("opened without weights")
	}
	if _, _, err := from.ReadF32(embedding); err == nil || !strings.Contains(err.Error(), "has no weight "+`"`+embedding) {
		t.Error(err)
	}
	d, params := newParams(t, from.Config, tensor.F32)
	if err := from.Load(t.Context(), d, params, nil); err == nil || !strings.Contains(err.Error(), "has no weight") {
		t.Error(err)
	}
	for _, p := range params {
		d.Upload(p.W, slices.Repeat([]float32{0.5}, p.W.Len()))
	}
	expect.OK(t, Save(dir, from, d, params, SaveOptions{}))
	sameWeights(t, dir, d, params)
}

func TestSaveKeepsTheConfig(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{`{"a":1e-05,"torch_dtype":"float32","b":{"dtype":"x"},"c":[1.0,null]}`,
			`{"a":1e-05,"torch_dtype":"bfloat16","b":{"dtype":"x"},"c":[1.0,null]}`},
		{`{"dtype":null,"torch_dtype":"float16"}`, `{"dtype":"bfloat16","torch_dtype":"bfloat16"}`},
		{`{"a":"ü<"}`, `{"a":"ü<","torch_dtype":"bfloat16"}`},
		{`{}`, `{"torch_dtype":"bfloat16"}`},
		{`[]`, ""}, {`{"a":}`, ""}, {`{"a":1`, ""}, {``, ""},
	} {
		got, err := withDType([]byte(test.config), tensor.BF16, nil, false)
		flat := strings.NewReplacer("\n", "", " ", "").Replace(string(got))
		if flat != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s became %s, %v", test.config, flat, err)
		}
	}
}

// TestSaveRefuses checks what must not be saved. The existing model stays.
func TestSaveRefuses(t *testing.T) {
	from, d, params := load(t, "testdata/tied", tensor.F32)
	dir := t.TempDir()
	expect.OK(t, Save(dir, from, d, params, SaveOptions{}))
	before := list(t, dir)
	spoil := func(f float32) func() ([]model.Param, SaveOptions) {
		return func() ([]model.Param, SaveOptions) {
			d.Upload(params[9].W.Part(5, 1), []float32{f})
			return params, SaveOptions{DType: tensor.F16, MaxShardBytes: 2500}
		}
	}
	for want, set := range map[string]func() ([]model.Param, SaveOptions){
		"DType I32": func() ([]model.Param, SaveOptions) { return params, SaveOptions{DType: tensor.I32} },
		"model.layers.0.mlp.down_proj.weight: element 5 is NaN":               spoil(float32(math.NaN())),
		"model.layers.0.mlp.down_proj.weight: element 5 is too large for F16": spoil(70000),
		"parameter model.norm.weight has shape []": func() ([]model.Param, SaveOptions) {
			return params[:len(params)-1], SaveOptions{}
		},
		"has shape [7], but config.json needs [": func() ([]model.Param, SaveOptions) {
			other := slices.Clone(params)
			other[0].W.Shape = []int{7}
			return other, SaveOptions{}
		},
		"there are 21 parameters, but config.json needs 20": func() ([]model.Param, SaveOptions) {
			return append(slices.Clone(params), params[0]), SaveOptions{}
		},
	} {
		p, o := set()
		if err := Save(dir, from, d, p, o); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%v, want %q", err, want)
		}
		if diff := cmp.Diff(before, list(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
	if _, err := OpenModel(dir); err != nil {
		t.Error(err)
	}
	if err := Save("save_test.go", from, d, params, SaveOptions{}); err == nil {
		t.Error("saved into a file")
	}
}

// TestSaveToAFullDisk saves to disks with too little space, detected before or during the write.
func TestSaveToAFullDisk(t *testing.T) {
	from, d, params := load(t, "testdata/tied", tensor.F32)
	for size, want := range map[string]string{"size=8k": "free some space", "size=16k": "no space left"} {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
			t.Skip("no small file system to fill: ", err)
		}
		defer syscall.Unmount(dir, syscall.MNT_DETACH)
		err := Save(dir, from, d, params, SaveOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", size, err, want)
		}
		if left := list(t, dir); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
}

// TestInterruptedSave stops a save before each of its renames. The directory must then have the old model, the new one,
// or none.
func TestInterruptedSave(t *testing.T) {
	write := func(t *testing.T, dir string, add float32, most int64) error {
		from, d, params := load(t, "testdata/tied", tensor.F32)
		for _, p := range params {
			f, _ := d.Floats(p.W)
			for i := range f {
				f[i] += add
			}
			d.Upload(p.W, f)
		}
		return Save(dir, from, d, params, SaveOptions{MaxShardBytes: most})
	}
	for _, sizes := range [][2]int64{{5000, 5000}, {5000, 1e6}, {1e6, 5000}, {1e6, 1e6}, {5000, 9000}} {
		// A directory with the name of one of the files makes its rename fail.
		for _, blocked := range []string{"config.json", singleName, indexName, "model-00001-of-00003.safetensors",
			"model-00003-of-00003.safetensors", "model-00002-of-00002.safetensors"} {
			dir := t.TempDir()
			expect.OK(t, write(t, dir, 0, sizes[0]))
			if n := len(list(t, dir)); sizes[0] == 5000 && n != 6 {
				t.Fatalf("%d files; the names below are of three shards", n)
			}
			os.Rename(filepath.Join(dir, blocked), filepath.Join(dir, "aside"))
			expect.OK(t, os.MkdirAll(filepath.Join(dir, blocked, "x"), 0o777))
			err := write(t, dir, 1, sizes[1])
			os.RemoveAll(filepath.Join(dir, blocked))
			for _, name := range list(t, dir) {
				if strings.HasSuffix(name, ".tmp") {
					t.Errorf("%v: %s is left", sizes, name)
				}
			}
			if err != nil && blocked != "config.json" {
				// Give the file that was moved aside its name back: the worst case, because it is the old model's.
				os.Rename(filepath.Join(dir, "aside"), filepath.Join(dir, blocked))
			}
			c, err := OpenModel(dir)
			if err != nil {
				continue
			}
			old, _ := OpenModel("testdata/tied")
			kinds := map[float32]bool{}
			for _, s := range c.Config.Params() {
				now, _, err1 := c.ReadF32(s.Name)
				then, _, err2 := old.ReadF32(s.Name)
				expect.OK(t, errors.Join(err1, err2))
				for i := range now {
					kinds[now[i]-then[i]] = true
				}
			}
			if kinds[0] == kinds[1] {
				t.Errorf("%v, %s in the way: a mixture of old and new weights", sizes, blocked)
			}
			c.Close()
			old.Close()
		}
	}
}

// TestChunks_OfALargeWeight loads and saves a weight that is read in several parts.
func TestChunks_OfALargeWeight(t *testing.T) {
	config := strings.NewReplacer(`"vocab_size":12`, `"vocab_size":3001`, `"hidden_size":8`,
		`"hidden_size":800`).Replace(smallConfig)
	all := newWeights(t, config, tensor.F32)
	if n := len(all[embedding].data); n < 2*chunkElements || n%chunkElements == 0 {
		t.Fatal(n)
	}
	dir := writeModel(t, config, all)
	from, d, params := load(t, dir, tensor.F32)
	for _, p := range params {
		if got, _ := d.Floats(p.W); !slices.Equal(got, all[p.Name].data) {
			t.Errorf("%s is another", p.Name)
		}
	}
	out := t.TempDir()
	expect.OK(t, Save(out, from, d, params, SaveOptions{}))
	sameWeights(t, out, d, params)
	const at = 2*chunkElements + 3
	d.Upload(params[0].W.Part(at, 1), []float32{float32(math.Inf(1))})
	if err := Save(out, from, d, params, SaveOptions{}); err == nil ||
		!strings.Contains(err.Error(), "element 2097155 is +Inf") {
		t.Error(err)
	}
	all[embedding].data[at] = float32(math.NaN())
	writeWeights(t, filepath.Join(dir, singleName), all)
	c, err := OpenModel(dir)
	expect.OK(t, err)
	defer c.Close()
	if err := c.Load(t.Context(), d, params, nil); err == nil ||
		!strings.Contains(err.Error(), "element 2097155 of "+embedding+" is NaN") {
		t.Error(err)
	}
}

// TestTransformersReadsWhatIsSaved runs if RESTYLE_PYTHON names a Python with transformers.
func TestTransformersReadsWhatIsSaved(t *testing.T) {
	python := os.Getenv("RESTYLE_PYTHON")
	if python == "" {
		t.Skip("RESTYLE_PYTHON does not name a Python with transformers")
	}
	for name, most := range map[string]int64{"tied": 0, "sharded": 0, "tied ": 2500, "sharded ": 4000} {
		source := filepath.Join("testdata", strings.TrimSpace(name))
		from, d, params := load(t, source, tensor.F32)
		dir := t.TempDir()
		dtype := map[string]tensor.DType{"tied": tensor.BF16, "sharded": tensor.F16}[filepath.Base(source)]
		expect.OK(t, Save(dir, from, d, params, SaveOptions{DType: dtype, MaxShardBytes: most}))
		out, err := exec.Command(python, "-c", `
import sys, torch
from transformers import AutoModelForCausalLM
a, loading = AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)
b, again = AutoModelForCausalLM.from_pretrained(sys.argv[2], output_loading_info=True)
assert not any(again[k] for k in again), again
config = lambda m: {k: v for k, v in m.config.to_dict().items() if k != "_name_or_path"}
assert a.dtype == b.dtype and config(a) == config(b), (config(a), config(b))
assert a.generation_config.to_dict() == b.generation_config.to_dict()
tied = lambda m: m.lm_head.weight is m.model.embed_tokens.weight
assert tied(a) == tied(b) == a.config.tie_word_embeddings
for (n, p), (m, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
    assert n == m and torch.equal(p, q), n
ids = torch.tensor([[1, 7, 3, 9]])
assert torch.equal(a(ids).logits, b(ids).logits)
print("same")
`, source, dir).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "same\n") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestSaveOverAnotherModel checks that files of the previous model that the new one lacks are deleted.
func TestSaveOverAnotherModel(t *testing.T) {
	from, d, params := load(t, "testdata/tied", tensor.BF16)
	dir := t.TempDir()
	for _, name := range []string{"chat_template.jinja", "tokenizer.json", "notes.txt"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("another's"), 0o644))
	}
	expect.OK(t, Save(dir, from, d, params, SaveOptions{}))
	want := []string{"config.json", "generation_config.json", singleName, "notes.txt"}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A model that is saved over itself keeps its files.
	again, d, params := load(t, dir, tensor.BF16)
	expect.OK(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("its own"), 0o644))
	expect.OK(t, Save(dir, again, d, params, SaveOptions{}))
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Error(err)
	}
}

// TestSmallFilesAreKept checks that all small files of a model are saved with it byte for byte, even one that cannot
// be read, and that its further chat templates replace another model's.
func TestSmallFilesAreKept(t *testing.T) {
	source := writeModel(t, smallConfig, newWeights(t, smallConfig, tensor.F32))
	dir := t.TempDir()
	for _, d := range []string{source, dir} {
		expect.OK(t, os.Mkdir(filepath.Join(d, moreTemplatesDir), 0o777))
	}
	write(t, filepath.Join(dir, moreTemplatesDir, "old.jinja"), "another's")
	files := map[string]string{"generation_config.json": "{ not JSON", "tokenizer_config.json": `{"chat_template":7}`,
		moreTemplatesDir + "/rag.jinja": "rag", "chat_template.jinja": "default", "added_tokens.json": `{"<x>":7}`,
		"special_tokens_map.json": "{}", "vocab.json": "{}", "merges.txt": "", "tokenizer.json": "{}"}
	for name, text := range files {
		write(t, filepath.Join(source, name), text)
	}
	write(t, filepath.Join(source, "tokenizer.model"), pointerStart+"com/spec/v1\n")
	write(t, filepath.Join(source, indexName), `{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`)
	c, d, params := load(t, source, tensor.F32)
	for _, dir := range []string{dir, t.TempDir()} {
		expect.OK(t, Save(dir, c, d, params, SaveOptions{}))
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
		if diff := cmp.Diff([]string{"rag.jinja"}, list(t, filepath.Join(dir, moreTemplatesDir))); diff != "" {
			t.Errorf("templates (-want +got):\n%s", diff)
		}
	}
	if c.TemplateError != nil { // chat_template.jinja is one that can be used
		t.Error(c.TemplateError)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"tokenizer_config.json: chat_template is 7", "generation_config.json: it is not a JSON",
		"tokenizer.model: it is a Git LFS pointer", "and the files that it names are not used"} {
		if strings.Count(notes, want) != 1 || len(c.Notes) != 4 {
			t.Errorf("%d notes, want 4 with %q:\n%s", len(c.Notes), want, notes)
		}
	}
}
