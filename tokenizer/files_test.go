package tokenizer

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// modelFiles returns the read function of Read for bytelevel.json and other files.
func modelFiles(main []byte, files map[string]json.RawMessage) func(string) ([]byte, error) {
	return func(file string) ([]byte, error) {
		if file == "tokenizer.json" {
			return main, nil
		}
		if data, ok := files[file]; ok {
			return data, nil
		}
		return nil, fs.ErrNotExist
	}
}

// TestFiles reads models whose other files add tokens, and compares them with transformers (testdata/make_files.py).
func TestFiles(t *testing.T) {
	const text = "<|user|> \nhi<|eot_id|>  \n the<mask> <x>[PAD]a cat<|user|> <|end|>\n"
	type row struct {
		Name  string
		Files map[string]json.RawMessage
		Own   json.RawMessage
		Added map[string][2]any
		IDs   []int32 `json:"ids"`
	}
	eachLine(t, "testdata/files.jsonl", func(_ int, r row) {
		data := testFile(t, "bytelevel.json")
		if r.Own != nil {
			data = with(t, "bytelevel.json", "added_tokens", string(r.Own))
			data = []byte(strings.Replace(string(data), `"post_processor"`, `"old"`, 1)) // it names the ids of some
		}
		tok, err := Read(modelFiles(data, r.Files))
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			return
		}
		if got := tok.Encode(text, EncodeOptions{Special: Everywhere}).IDs; !slices.Equal(got, r.IDs) {
			t.Errorf("%s: ids\n%v, want\n%v", r.Name, got, r.IDs)
		}
		for content, want := range r.Added {
			id, ok := tok.TokenID(content)
			special := strings.Contains(want[1].(string), "S")
			if !ok || float64(id) != want[0] || special && !tok.IsSpecial(id) {
				t.Errorf("%s: %q has id %d (%v), special %v; want %v", r.Name, content, id, ok, tok.IsSpecial(id), want)
			}
		}
	})
}
