package hf

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/tensor"
)

// shards writes the small model's weights in files of each tensors, and returns the index.
func shards(t *testing.T, each int) (dir string, index map[string]string) {
	dir, index = t.TempDir(), map[string]string{}
	write(t, filepath.Join(dir, "config.json"), smallConfig)
	all := newWeights(t, smallConfig, tensor.F32)
	for i, names := range slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(all)), each)) {
		file := fmt.Sprintf("part%d.safetensors", i)
		part := map[string]weight{}
		for _, name := range names {
			part[name], index[name] = all[name], file
		}
		writeWeights(t, filepath.Join(dir, file), part)
	}
	writeIndex(t, dir, index)
	return dir, index
}

func writeIndex(t *testing.T, dir string, index map[string]string) {
	data, _ := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": index})
	write(t, filepath.Join(dir, indexName), string(data))
}

// TestFew checks how errors about weights name tensors and files.
func TestFew(t *testing.T) {
	long := strings.Repeat("x", 101)
	for want, names := range map[string][]string{"a": {"a"}, "a, b, c": {"a", "b", "c"},
		"a, b, c and 1 more": {"a", "b", "c", "d"},
		`"a\"b"`:             {`a"b`}, `"` + long[:100] + `"`: {long}, long[:100]: {long[:100]}, `"\x1b"`: {"\x1b"}} {
		if got := few(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for text, want := range map[string]string{`{"weight_map":{}}`: "weight_map is missing or empty",
		"{}":               "is missing or empty",
		`{"weight_map":7}`: "which is not an object of strings", "[]": "not a JSON object"} {
		if _, err := parseIndex([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if got := string(makeIndex([][]TensorData{{{Name: "b"}, {Name: "a"}}, {{Name: "c"}}}, []string{"x", "y"}, 7)); got !=
		"{\n  \"metadata\": {\n    \"total_size\": 7\n  },\n  \"weight_map\": {\n    \"a\": \"x\",\n    \"b\": \"x\",\n"+
			"    \"c\": \"y\"\n  }\n}\n" {
		t.Errorf("an index: %s", got)
	}
	for n, want := range map[int]string{0: "[]", 8: "[1 1 1 1 1 1 1 1]", 9: "[1 1 1 1 1 1 1 1] and 1 more"} {
		if got := shape(slices.Repeat([]int{1}, n)); got != want {
			t.Errorf("%d dimensions: %s", n, got)
		}
	}
	// Any file system names its files, and has directories where files should be.
	s := source{fstest.MapFS{"config.json/x": {}}, "name"}
	for file, want := range map[string]string{"config.json": "open name/config.json: not a file",
		"y": "open name/y: file does not exist"} {
		if _, _, err := s.open(file); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestIndex(t *testing.T) {
	const norm = "model.norm.weight" // in the last shard
	for _, test := range []struct {
		name string
		edit func(dir string, index map[string]string)
		want string
	}{
		{"nothing wrong", func(string, map[string]string) {}, ""},
		{"shards missing", func(dir string, _ map[string]string) {
			os.Remove(dir + "/part1.safetensors")
			os.Remove(dir + "/part3.safetensors")
		},
			"it names part1.safetensors, part3.safetensors, which are not there"},
		{"tensor in another shard", func(_ string, index map[string]string) { index[norm] = "part0.safetensors" }, norm +
			" in part0.safetensors, which is not there"},
		{"tensor in no shard", func(_ string, index map[string]string) { index["x"] = "part0.safetensors" },
			"x in part0.safetensors, which is not there"},
		{"tensor not in the index", func(_ string, index map[string]string) { delete(index, norm) }, "does not name " + norm},
		{"another directory", func(_ string, index map[string]string) { index[norm] = "../part0.safetensors" },
			`"../part0.safetensors", which is not the name`},
		{"absolute", func(_ string, index map[string]string) { index[norm] = "/etc/passwd" },
			`"/etc/passwd", which is not the name`},
		{"a pickle", func(_ string, index map[string]string) { index[norm] = "part0.bin" },
			`"part0.bin", which is not the name`},
		{"shard cut off", func(dir string, _ map[string]string) { os.Truncate(dir+"/part2.safetensors", 100) },
			"part2.safetensors: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, index := shards(t, 6)
			test.edit(dir, index)
			writeIndex(t, dir, index)
			c, err := OpenModel(dir)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			expect.OK(t, err)
			defer c.Close()
			d, params := newParams(t, c.Config, tensor.F32)
			expect.OK(t, c.Load(t.Context(), d, params, nil))
			want := newWeights(t, smallConfig, tensor.F32)
			for _, p := range params {
				if got, _ := d.Floats(p.W); !slices.Equal(got, want[p.Name].data) {
					t.Errorf("%s is another", p.Name)
				}
			}
		})
	}
	// If a single file exists next to shards, it takes precedence.
	dir, _ := shards(t, 6)
	all := newWeights(t, smallConfig, tensor.F32)
	all[embedding].data[0] = 77
	writeWeights(t, filepath.Join(dir, singleName), all)
	c, err := OpenModel(dir)
	expect.OK(t, err)
	defer c.Close()
	if f, _, err := c.ReadF32(embedding); err != nil || f[0] != 77 {
		t.Error(f, err)
	}
}

func FuzzIndex(f *testing.F) {
	for _, s := range []string{`{"weight_map":{"a":"b.safetensors"}}`, `{"metadata":{"total_size":1e3},"weight_map":{}}`,
		`{"weight_map":{"a":"../b.safetensors"}}`} {
		f.Add([]byte(s))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := hostile.Parse(t, data, parseIndex)
		if err == nil && len(files) == 0 {
			t.Error("no files, and no error")
		}
		for _, file := range files {
			if !fs.ValidPath(file) || filepath.Base(file) != file {
				t.Errorf("%q is accepted", file)
			}
		}
		if d, err := withDType(data, tensor.BF16, nil, false); err == nil {
			if o := parseObject(d); o.err == nil && string(o.keys["torch_dtype"]) != `"bfloat16"` &&
				string(o.keys["dtype"]) != `"bfloat16"` {
				t.Errorf("%s", d)
			}
		}
	})
}
