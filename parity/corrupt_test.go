package parity

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
)

// compareFolder compares one directory, once, with everything fused.
func compareFolder(t testing.TB, dir string) (*Report, *folder) {
	t.Helper()
	return compareFolderIn(t, context.Background(), dir)
}

func compareFolderIn(t testing.TB, ctx context.Context, dir string) (*Report, *folder) {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	f, err := openFolder(dir, dir)
	if err != nil || f == nil {
		t.Fatalf("%s: no folder, %v", dir, err)
	}
	f.ctx, f.o, f.d, f.report = ctx, Options{Device: "cpu", Fused: []kernels.Fused{kernels.All()}}, d, &Report{}
	f.compareAll()
	return f.report, f
}

// copied returns a temporary directory with a copy of the files of dir.
func copied(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(dir))
	expect.OK(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// failed returns the places of the values that exceed their limit or could not be compared.
func failed(r *Report) (at []string) {
	for _, row := range r.Rows {
		if !row.OK {
			at = append(at, row.Figure+" "+row.At+" "+row.Note)
		}
	}
	return at
}

// rawTensor is a tensor as it is stored in a safetensors file.
type rawTensor struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
	data    []byte
}

func readRaw(t testing.TB, path string) map[string]*rawTensor {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	n := binary.LittleEndian.Uint64(data)
	header := map[string]json.RawMessage{}
	expect.OK(t, json.Unmarshal(data[8:8+n], &header))
	tensors := map[string]*rawTensor{}
	for name, entry := range header {
		if name == "__metadata__" {
			continue
		}
		x := &rawTensor{}
		expect.OK(t, json.Unmarshal(entry, x))
		x.data = slices.Clone(data[8+n:][x.Offsets[0]:x.Offsets[1]])
		tensors[name] = x
	}
	return tensors
}

func writeRaw(t testing.TB, path string, tensors map[string]*rawTensor) {
	t.Helper()
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		x := tensors[name]
		x.Offsets = [2]int64{int64(len(data)), int64(len(data) + len(x.data))}
		data = append(data, x.data...)
	}
	header, err := json.Marshal(tensors)
	expect.OK(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	expect.OK(t, os.WriteFile(path, append(append(file, header...), data...), 0o644))
}

func (x rawTensor) clone() *rawTensor { return &x }

// change changes the first element.
func (x *rawTensor) change() {
	switch x.DType {
	case "F32":
		f := math.Float32frombits(binary.LittleEndian.Uint32(x.data))
		binary.LittleEndian.PutUint32(x.data, math.Float32bits(1.5*f+1))
	default:
		x.data[0]++
	}
}

// changed returns another value of the same type: in a list, the first element is changed.
func changed(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i + 1
		}
		f, _ := v.Float64()
		return 1.5*f + 1
	case string:
		return v + "x"
	case bool:
		return !v
	case []any:
		if len(v) > 0 {
			return append([]any{changed(v[0])}, v[1:]...)
		}
		return []any{1}
	}
	return "something else"
}

// changeJSON changes the value at a path in a file.
func changeJSON(t testing.TB, file, path string) {
	t.Helper()
	data, err := os.ReadFile(file)
	expect.OK(t, err)
	var root any
	expect.OK(t, unmarshal(data, &root))
	var walk func(at string, v any) any
	walk = func(at string, v any) any {
		if at == path {
			return changed(v)
		}
		switch v := v.(type) {
		case map[string]any:
			for name := range v {
				v[name] = walk(strings.TrimPrefix(at+"."+name, "."), v[name])
			}
		case []any:
			if slices.ContainsFunc(v, hasObject) {
				for i := range v {
					v[i] = walk(fmt.Sprintf("%s.%d", at, i), v[i])
				}
			}
		}
		return v
	}
	data, err = json.Marshal(walk("", root))
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(file, data, 0o644))
}

var layer = regexp.MustCompile(`layers\.\d+\.`)

// TestEveryFigureCounts changes the values that count as compared, one at a time, and checks that each change is a
// failure. Of values that differ only in their parameter, it tries every fifth.
func TestEveryFigureCounts(t *testing.T) {
	for _, dir := range []string{"testdata/llama", "testdata/qwen2", "testdata/large", "testdata/lora"} {
		clean, f := compareFolder(t, dir)
		if len(failed(clean)) > 0 {
			t.Fatalf("%s fails as it is: %q", dir, failed(clean))
		}
		kinds := map[string]int{}
		tried := 0
		for _, name := range f.with(compared) {
			before, _, _ := strings.Cut(layer.ReplaceAllString(name, "model."), "model.")
			if kinds[before]++; kinds[before]%5 != 1 {
				continue
			}
			tried++
			changeOne(t, dir, name)
		}
		if tried < 10 {
			t.Errorf("%s: only %d figures were tried", dir, tried)
		}
	}
}

// changeOne changes a value, and checks that this is a failure.
func changeOne(t *testing.T, dir, name string) {
	t.Helper()
	to := copied(t, dir)
	file, figure, _ := strings.Cut(name, " ")
	if path := filepath.Join(to, file); strings.HasSuffix(file, ".json") {
		changeJSON(t, path, figure)
	} else {
		tensors := readRaw(t, path)
		tensors[figure].change()
		writeRaw(t, path, tensors)
	}
	r, _ := compareFolder(t, to)
	if !slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, figure) }) {
		t.Errorf("%s: %s was changed, and what fails is %q", dir, name, failed(r))
	}
}

// TestReferenceGGUF_EveryFigureCounts does the same with some of what is recorded of GGUF.
func TestReferenceGGUF_EveryFigureCounts(t *testing.T) {
	for folder, each := range map[string]int{"blocks": 1, "llama_text": 37} {
		dir := expect.Reference(t, "golden-next", "gguf", folder)
		_, f := compareFolder(t, dir)
		for i, name := range f.with(compared) {
			if i%each == 0 {
				changeOne(t, dir, name)
			}
		}
	}
}

// TestIncomplete removes and adds things that a directory may have.
func TestIncomplete(t *testing.T) {
	tensorsOf := func(file string, edit func(map[string]*rawTensor)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			tensors := readRaw(t, path)
			edit(tensors)
			writeRaw(t, path, tensors)
		}
	}
	without := func(file, name string) func(t *testing.T, dir string) {
		return tensorsOf(file, func(tensors map[string]*rawTensor) { delete(tensors, name) })
	}
	write := func(file, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			expect.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		}
	}
	cut := func(file string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			info, err := os.Stat(filepath.Join(dir, file))
			if err == nil {
				err = os.Truncate(filepath.Join(dir, file), info.Size()-7)
			}
			expect.OK(t, err)
		}
	}
	replaced := func(file, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || !strings.Contains(string(data), old) {
				t.Fatalf("%s has no %s: %v", file, old, err)
			}
			write(file, strings.Replace(string(data), old, new, 1))(t, dir)
		}
	}
	for _, c := range []struct {
		name, dir string
		edit      func(t *testing.T, dir string)
		want      string // text that a failure contains
	}{
		{"no logits", "llama", without("golden.safetensors", "logits"), "missing golden.safetensors logits"},
		{"no gradient", "llama", without("golden.safetensors", "grad.model.norm.weight"),
			"missing golden.safetensors grad.model.norm.weight"},
		{"no ids", "llama", without("golden.safetensors", "input_ids"), "missing golden.safetensors input_ids"},
		{"no frequencies", "llama", without("golden.safetensors", "rope.inv_freq"),
			"missing golden.safetensors rope.inv_freq"},
		{"no packed logits", "llama", without("packing.safetensors", "packed.logits"),
			"missing packing.safetensors packed.logits"},
		{"no mask of packing", "llama", without("packing.safetensors", "packed.may_see"),
			"missing packing.safetensors packed.may_see"},
		{"no final parameter", "llama", without("training.safetensors", "final.model.norm.weight"),
			"missing training.safetensors final.model.norm.weight"},
		{"no micro-batch", "llama", without("accumulation.safetensors", "micro.2.input_ids"),
			"passed over accumulation.safetensors micro.2.labels"},
		{"no training", "llama", func(t *testing.T, dir string) {
			expect.OK(t, os.Remove(filepath.Join(dir, "training.safetensors")))
		}, "training.safetensors: no such file"},
		{"a state too many", "llama", tensorsOf("golden.safetensors", func(tensors map[string]*rawTensor) {
			tensors["hidden.block.2"] = tensors["hidden.block.1"].clone()
		}), "passed over golden.safetensors hidden.block.2"},
		{"the last block after the norm", "llama", tensorsOf("golden.safetensors", func(tensors map[string]*rawTensor) {
			tensors["hidden.block.1"] = tensors["hidden.norm"].clone()
		}), "hidden states golden.safetensors hidden.block.1"},
		{"a tensor of another shape", "llama", tensorsOf("golden.safetensors", func(tensors map[string]*rawTensor) {
			tensors["grad.model.norm.weight"] = tensors["loss"].clone()
		}), "gradient golden.safetensors grad.model.norm.weight"},
		{"a mask with holes", "llama", tensorsOf("golden.safetensors", func(tensors map[string]*rawTensor) {
			tensors["attention_mask"].data[8] = 0
		}), "padded on the right"},
		{"ids outside of the vocabulary", "llama", tensorsOf("golden.safetensors", func(tensors map[string]*rawTensor) {
			tensors["input_ids"].data[1] = 1
		}), "vocabulary"},
		{"a field too many", "qwen2", replaced("golden.json", `"forward": {`, `"forward": {"surprise": 1,`),
			"passed over golden.json forward.surprise"},
		{"a field too few", "qwen2", replaced("golden.json", `"logits_norm"`, `"logits_form"`),
			"missing golden.json forward.logits_norm"},
		{"a file too many", "qwen2", write("other.safetensors", ""), "unknown file other.safetensors"},
		{"vectors in a model", "qwen2", write("vectors.jsonl", "{}"), "unknown file vectors.jsonl"},
		{"a cut golden", "qwen2", cut("golden.safetensors"), "truncated"},
		{"cut weights", "qwen2", cut("model.safetensors"), "truncated"},
		{"a cut JSON", "qwen2", cut("golden.json"), "golden.json"},
		{"heads that do not divide", "qwen2", replaced("config.json", `"num_attention_heads": 2`, `"num_attention_heads": 3`),
			"multiple"},
		{"no start", "lora", without("lora.safetensors", "start.base_model.model.lm_head.weight"),
			"missing lora.safetensors start.base_model.model.lm_head.weight"},
		{"no first A", "lora", without("lora.safetensors",
			"init.base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"), "missing lora.safetensors init."},
		{"a scale too many", "lora", replaced("lora.json", `"scaling": {`, `"scaling": {"model.norm": 1,`),
			"passed over lora.json scaling.model.norm"},
		{"a scale too few", "lora", replaced("lora.json", `"model.layers.1.mlp.down_proj": `, `"other": `),
			"missing lora.json scaling.model.layers.1.mlp.down_proj"},
		{"another rank", "lora", replaced("adapter_config.json", `"r": 2`, `"r": 3`), "shapes do not fit the ranks"},
		{"weights of another seed", "large", replaced("golden.json", `"seed":3`, `"seed":4`),
			"weights golden.json weights.model.norm.weight.sha256"},
		{"a parameter too few", "large", replaced("golden.json", `"model.norm.weight":{"shape"`,
			`"model.form.weight":{"shape"`), "missing golden.json weights.model.norm.weight.sha256"},
		{"positions that are not there", "large", replaced("golden.json", `"logit_positions":[[0,`,
			`"logit_positions":[[-1,`), "row 0 has positions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copied(t, filepath.Join("testdata", c.dir))
			c.edit(t, dir)
			r, _ := compareFolder(t, dir)
			if !slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, c.want) }) {
				t.Errorf("it fails with %q, want %q among them", failed(r), c.want)
			}
		})
	}
}

// TestUnknownFolder checks a directory that is of no kind.
func TestUnknownFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "golden", "strange")
	expect.OK(t, os.MkdirAll(dir, 0o755))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "results.json"), []byte("{}"), 0o644))
	r, err := Run(context.Background(), []string{filepath.Dir(dir)}, Options{})
	expect.OK(t, err)
	if r.OK || len(r.Rows) != 1 || r.Rows[0].Folder != "golden/strange" ||
		!strings.Contains(r.Rows[0].Note, "unknown kind: its files are results.json") {
		t.Errorf("%+v", r.Rows)
	}
}

// FuzzFigures checks that a comparison with any golden.json or lora.json ends without a panic.
func FuzzFigures(f *testing.F) {
	kinds := []struct{ dir, file string }{{"qwen2", "golden.json"}, {"large", "golden.json"}, {"lora", "lora.json"}}
	var dirs []string
	for i, k := range kinds {
		dirs = append(dirs, copied(f, filepath.Join("testdata", k.dir)))
		data, err := os.ReadFile(filepath.Join("testdata", k.dir, k.file))
		expect.OK(f, err)
		f.Add(data[:min(len(data), 8192)], uint8(i))
	}
	f.Add([]byte(`{"generator":{"scale":1},"inputs":{"rows":[[1]],"labels":[[1]],"logit_positions":[[0]],`+
		`"hidden_positions":[[0]],"vocab_ids":[],"hidden_columns":[]}}`), uint8(1))
	// The file decides what is read and checked before the model computes. The rest would take a thousand times as long.
	stopped, stop := context.WithCancel(f.Context())
	stop()
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		at := int(kind) % len(kinds)
		expect.OK(t, os.WriteFile(filepath.Join(dirs[at], kinds[at].file), data, 0o644))
		r, _ := compareFolderIn(t, stopped, dirs[at])
		if len(r.Rows) == 0 {
			t.Error("nothing was compared and nothing failed")
		}
	})
}
