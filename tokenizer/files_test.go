package tokenizer

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
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

// TestFiles_AddTokens reads models whose other files add tokens, and compares them with transformers
// (testdata/make_files.py).
func TestFiles_AddTokens(t *testing.T) {
	const text = "<|user|> \nhi<|eot_id|>  \n the<mask> <x>[PAD]a cat<|user|> <|end|>\n"
	type row struct {
		Name  string
		Files map[string]json.RawMessage
		Own   json.RawMessage
		Added map[string][2]any
		Names json.RawMessage // hf compares them
		IDs   []int32         `json:"ids"` // nil for the ids of the row before
	}
	var ids []int32
	expect.Lines(t, "testdata/files.jsonl", func(_ int, r row) {
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
		if r.IDs != nil {
			ids = r.IDs
		}
		if got := tok.Encode(text, EncodeOptions{Special: Everywhere}).IDs; !slices.Equal(got, ids) {
			t.Errorf("%s: ids\n%v, want\n%v", r.Name, got, ids)
		}
		for content, want := range r.Added {
			id, ok := tok.TokenID(content)
			special := strings.Contains(want[1].(string), "S")
			if !ok || float64(id) != want[0] || special != tok.IsSpecial(id) {
				t.Errorf("%s: %q has id %d (%v), special %v; want %v", r.Name, content, id, ok, tok.IsSpecial(id), want)
			}
		}
	})
}

//nolint:lll // JSON in one piece
func TestFilesRefuses(t *testing.T) {
	main := testFile(t, "bytelevel.json")
	for _, c := range []struct{ file, data, want string }{
		{"tokenizer_config.json", `[]`, "tokenizer_config.json: it is not a JSON object: it is of the type array"},
		{"tokenizer_config.json", `{"added_tokens_decoder":{"x":{"content":"a"}}}`, `tokenizer_config.json: added_tokens_decoder: "x"`},
		{"tokenizer_config.json", `{"added_tokens_decoder":{"7":"a"}}`, "want an id with its token"},
		{"tokenizer_config.json", `{"added_tokens_decoder":[]}`, "added_tokens_decoder: it is not a JSON object"},
		{"added_tokens.json", `{"<x>":"7"}`, `added_tokens.json: the id of "<x>"`},
		{"special_tokens_map.json", `{`, "special_tokens_map.json: it is not"},
		{"tokenizer.json", "{}", "tokenizer.json: there is no model"},
	} {
		files := map[string]json.RawMessage{c.file: json.RawMessage(c.data)}
		if c.file == "tokenizer.json" {
			main = []byte(c.data)
		}
		if _, err := Read(modelFiles(main, files)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.file, c.data, err, c.want)
		}
	}
	// Tokens under the old key count if the new one has names instead of a list.
	both := json.RawMessage(`{"extra_special_tokens":{"a":"<a>"},"additional_special_tokens":["<y>"]}`)
	tok, err := Read(modelFiles(testFile(t, "bytelevel.json"), map[string]json.RawMessage{"tokenizer_config.json": both}))
	expect.OK(t, err)
	for _, content := range []string{"<a>", "<y>"} {
		if id, ok := tok.TokenID(content); !ok || !tok.IsSpecial(id) {
			t.Errorf("%s: id %d, %v", content, id, ok)
		}
	}
	// What is not read cannot be wrong.
	files := map[string]json.RawMessage{"tokenizer_config.json": json.RawMessage(`{"added_tokens_decoder":{}}`),
		"added_tokens.json": json.RawMessage("{")}
	if _, err := Read(modelFiles(testFile(t, "bytelevel.json"), files)); err != nil {
		t.Error(err)
	}
}

// FuzzFiles checks that other files never take a token from tokenizer.json or give two tokens one id.
//
//nolint:lll // JSON in one piece
func FuzzFiles(f *testing.F) {
	main := testFile(f, "bytelevel.json")
	before := mustParse(f, main)
	eachSeed := func(config, added, special string) { f.Add([]byte(config), []byte(added), []byte(special)) }
	eachSeed(`{"added_tokens_decoder":{"600":{"content":"<x>","rstrip":true}},"pad_token":"[PAD]"}`, "", "")
	eachSeed(`{"extra_special_tokens":{"a":"<a>"},"b_token":{"content":"b"}}`, `{"<x>":600}`, `{"additional_special_tokens":["<y>",{"content":"z"}]}`)
	f.Fuzz(func(t *testing.T, config, added, special []byte) {
		files := map[string]json.RawMessage{"tokenizer_config.json": config, "added_tokens.json": added, "special_tokens_map.json": special}
		for name, data := range files {
			if len(data) == 0 {
				delete(files, name)
			}
		}
		var tok *Tokenizer
		var err error
		hostile.Within(t, hostile.Linear(len(main)+len(config)+len(added)+len(special)), func() {
			tok, err = Read(modelFiles(main, files))
		})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for id := range tok.MaxID() + 1 {
			text := tok.Token(id)
			if old := before.Token(id); old != "" && old != text {
				t.Errorf("token %d was %q and is %q", id, old, text)
			}
			if got, ok := tok.TokenID(text); text != "" && (!ok || got != id || seen[text]) {
				t.Errorf("token %d is %q, whose id is %d", id, text, got)
			}
			seen[text] = true
		}
	})
}
