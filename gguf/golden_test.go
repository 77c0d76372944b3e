package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// content is what gguf-py reads in a file.
type content struct {
	Version    int
	Alignment  int
	DataOffset int64 `json:"data_offset"`
	KV         map[string]struct {
		Type   []string
		Value  json.RawMessage
		N      int
		SHA256 string
	}
	Tensors []struct {
		Name, Type, SHA256 string
		Dims               []int
		Offset             int64
	}
}

// goldenFiles calls check with the recorded files of GGUF and their contents.
func goldenFiles(t *testing.T, check func(t *testing.T, path string, want content)) {
	t.Helper()
	dir := expect.Reference(t, "golden-next", "gguf")
	type recorded struct {
		Content  content
		Files    map[string]struct{ Content content }
		Adapters map[string]content
	}
	files := 0
	for _, sub := range []string{"malformed", "llama_text", "llama_k", "adapter"} {
		var r recorded
		if err := json.Unmarshal([]byte(expect.Read(t, filepath.Join(dir, sub, "gguf.json"))), &r); err != nil {
			t.Fatal(err)
		}
		all := map[string]content{"tiny": r.Content}
		for name, f := range r.Files {
			all[name] = f.Content
		}
		for name, c := range r.Adapters {
			all[name] = c
		}
		for name, c := range all {
			path := filepath.Join(dir, sub, name+".gguf")
			if _, err := os.Stat(path); err == nil { // others are described only
				files++
				t.Run(sub+"/"+name, func(t *testing.T) { check(t, path, c) })
			}
		}
	}
	if files == 0 {
		t.Errorf("%s has no files", dir)
	}
}

// TestRead_EqualsGGUFPy compares everything that files have with what gguf-py reads.
func TestRead_EqualsGGUFPy(t *testing.T) {
	names := strings.NewReplacer("ARRAY ", "[]", "INT", "int", "FLOAT", "float", "STRING", "string", "BOOL", "bool",
		"U", "u")
	goldenFiles(t, func(t *testing.T, path string, want content) {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Version != want.Version || f.Alignment != want.Alignment || len(f.Keys()) < len(want.KV) {
			t.Errorf("version %d, alignment %d, %d keys", f.Version, f.Alignment, len(f.Keys()))
		}
		for _, key := range f.Keys() {
			w, ok := want.KV[key]
			if !ok && key == "general.name" { // recordings of adapters leave it out
				continue
			}
			v := f.Value(key)
			if is := reflect.TypeOf(v).String(); is != names.Replace(strings.Join(w.Type, " ")) {
				t.Errorf("%s: type %s, want %v", key, is, w.Type)
			}
			if w.SHA256 != "" {
				if reflect.ValueOf(v).Len() != w.N || sum(pythonJSON(t, v)) != w.SHA256 {
					t.Errorf("%s: another list", key)
				}
				continue
			}
			got := reflect.New(reflect.TypeOf(v)) // Python writes a float32 with the digits of the float64
			err := json.Unmarshal(w.Value, got.Interface())
			if err != nil || !reflect.DeepEqual(got.Elem().Interface(), v) {
				t.Errorf("%s: %v, want %s, %v", key, v, w.Value, err)
			}
		}
		for i, tensor := range f.Tensors() {
			w := want.Tensors[i]
			data := make([]byte, tensor.Bytes)
			if err := f.ReadAt(tensor.Name, data, 0); err != nil {
				t.Error(err)
			}
			if tensor.Name != w.Name || tensor.Type.String() != w.Type || !reflect.DeepEqual(tensor.Dims, w.Dims) ||
				sum(data) != w.SHA256 || f.tensors[i].at != want.DataOffset+w.Offset {
				t.Errorf("%+v at %d, want %+v", tensor, f.tensors[i].at, w)
			}
		}
		if len(f.Tensors()) != len(want.Tensors) {
			t.Errorf("%d tensors, want %d", len(f.Tensors()), len(want.Tensors))
		}
	})
}

// TestEncode_EqualsGGUFPy writes what is read of the recorded files and compares the bytes.
func TestEncode_EqualsGGUFPy(t *testing.T) {
	goldenFiles(t, func(t *testing.T, path string, _ content) {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := copied(t, f); !bytes.Equal(got, []byte(expect.Read(t, path))) {
			t.Errorf("other bytes: %d of them", len(got))
		}
	})
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// pythonJSON returns json.dumps(v, ensure_ascii=False, separators=(",", ":")).
func pythonJSON(t *testing.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// TestRead_MalformedRecipes damages files as the recorded recipes say. The recipes model_… make bad models; all but
// two of these are good files.
func TestRead_MalformedRecipes(t *testing.T) {
	dir := expect.Reference(t, "golden-next", "gguf", "malformed")
	var recorded struct {
		Recipes []struct {
			Name, File, Why, Expect string
			Edits                   []struct {
				At  int
				Hex string
			}
			Truncate *int
		}
	}
	if err := json.Unmarshal([]byte(expect.Read(t, filepath.Join(dir, "gguf.json"))), &recorded); err != nil {
		t.Fatal(err)
	}
	for _, r := range recorded.Recipes {
		data := []byte(expect.Read(t, filepath.Join(dir, r.File)))
		for _, e := range r.Edits {
			b, err := hex.DecodeString(e.Hex)
			if err != nil {
				t.Fatal(err)
			}
			copy(data[e.At:], b)
		}
		if r.Truncate != nil {
			data = data[:*r.Truncate]
		}
		want := r.Expect
		if strings.HasPrefix(r.Name, "model_") && r.Name != "model_cut" && r.Name != "model_tokens_short" {
			want = "accept"
		}
		f, err := hostile.Parse(t, data, read)
		if err != nil && want == "accept" || err == nil && want == "refuse" {
			t.Errorf("%s (%s): want %s, got %v", r.Name, r.Why, want, err)
		}
		if err != nil {
			expect.Error(t, err, "x.gguf: ")
			continue
		}
		keysOf(f) // whatever the values are
	}
}
