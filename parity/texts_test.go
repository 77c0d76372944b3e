package parity

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/tensor"
	"restyle/tokenizer"
)

// writeLines writes rows as a JSONL file.
func writeLines(t *testing.T, path string, rows ...map[string]any) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, row := range rows {
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line)+"\n")
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// smallTokenizer trains a tokenizer with the special tokens of ChatML.
func smallTokenizer(t *testing.T) (*tokenizer.Tokenizer, []byte) {
	t.Helper()
	data, err := tokenizer.Train(slices.Values([]string{"a small text, small enough to be a small test; a test of a " +
		"text"}),
		tokenizer.TrainOptions{VocabSize: 280, Special: []string{"<|im_start|>", "<|im_end|>"}, BOS: "<|im_start|>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok, data
}

// everyFieldCounts writes a row with each of its values changed in turn, and with each required field removed, and
// checks that every such row fails.
func everyFieldCounts(t *testing.T, path string, row map[string]any, must ...string) {
	t.Helper()
	file := filepath.Base(path)
	fails := func(edit func(row map[string]any), want string) {
		t.Helper()
		edited := maps.Clone(row)
		edit(edited)
		writeLines(t, path, edited)
		r, _ := compareFolder(t, filepath.Dir(path))
		if !slices.ContainsFunc(failed(r), func(at string) bool { return strings.Contains(at, want) }) {
			t.Errorf("what fails is %q, want %s", failed(r), want)
		}
	}
	writeLines(t, path, row)
	clean, f := compareFolder(t, filepath.Dir(path))
	if at := failed(clean); len(at) > 0 {
		t.Fatalf("it fails as it is: %q", at)
	}
	for name := range row {
		if f.fates[file+" 1."+name] == compared {
			fails(func(row map[string]any) { row[name] = changed(plain(t, row[name])) }, file+" 1."+name)
		}
	}
	for _, name := range must {
		fails(func(row map[string]any) { delete(row, name) }, "missing "+file+" 1."+name)
	}
	fails(func(row map[string]any) { row["surprise"] = 1 }, "passed over "+file+" 1.surprise")
}

// plain returns a value as JSON decodes it.
func plain(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestVectorsCount checks the checker: every field of a line of vectors is compared.
func TestVectorsCount(t *testing.T) {
	tok, data := smallTokenizer(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	const text = "a small test<|im_end|>"
	ids := tok.Encode(text, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}).IDs
	var tokens []string
	for _, id := range ids {
		tokens = append(tokens, tok.Token(id))
	}
	everyFieldCounts(t, filepath.Join(dir, "vectors.jsonl"), map[string]any{
		"kind": "a test", "text": text, "ids": ids, "tokens": tokens,
		"ids_special":  tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, Special: tokenizer.Everywhere}).IDs,
		"ids_plain":    tok.Encode(text, tokenizer.EncodeOptions{}).IDs,
		"decoded":      tok.Decode(ids, false),
		"decoded_skip": tok.Decode(ids, true),
	}, "text", "ids", "ids_special", "tokens", "decoded")
}

// TestStreamCounts checks the same for streaming.
func TestStreamCounts(t *testing.T) {
	tok, data := smallTokenizer(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode("é", tokenizer.EncodeOptions{}).IDs
	everyFieldCounts(t, filepath.Join(dir, "stream.jsonl"), map[string]any{
		"note": "a letter of two bytes, then one that is cut", "ids": append(ids, ids[0]), "skip_special": false,
		"bytes": hex.EncodeToString([]byte("é\xc3")), "emit": []string{"", "é", ""}, "held": []int{1, 0, 1}, "tail": "\uFFFD",
		"decoded": "é\uFFFD", "well_formed": true,
	}, "bytes", "emit", "held", "tail", "decoded", "well_formed")
}

// TestRenderingsCount checks the same for programs of Jinja.
func TestRenderingsCount(t *testing.T) {
	dir := t.TempDir()
	const template = "{% generation %}{{ messages[0].content }}{% endgeneration %}{{ strftime_now('%Y') }}"
	if err := os.WriteFile(filepath.Join(dir, "template.jinja"), []byte(template), 0o644); err != nil {
		t.Fatal(err)
	}
	everyFieldCounts(t, filepath.Join(dir, "vectors.jsonl"), map[string]any{
		"name": "a test", "messages": []any{map[string]string{"role": "user", "content": "é"}},
		"options": map[string]any{"now": "2031-01-02T03:04:05"}, "text": "é2031", "spans": [][2]int{{0, 1}},
		"spans_bytes": [][2]int{{0, 2}},
	}, "text")
	everyFieldCounts(t, filepath.Join(t.TempDir(), "expressions.jsonl"), map[string]any{
		"feature": "a test", "template": "{{ a ~ 1 }}", "variables": map[string]any{"a": 2}, "text": "21",
	}, "text")
	everyFieldCounts(t, filepath.Join(t.TempDir(), "expressions.jsonl"), map[string]any{
		"feature": "a test", "template": "{{ raise_exception('no') }}", "variables": map[string]any{}, "error": "no",
		"error_type": "TemplateError",
	})
	path := filepath.Join(t.TempDir(), "hostile.jsonl")
	writeLines(t, path, map[string]any{"name": "a test", "template": "harmless", "variables": map[string]any{},
		"must_end": "error"})
	if r, _ := compareFolder(t, filepath.Dir(path)); len(failed(r)) != 1 {
		t.Errorf("a template that ends well: what fails is %q", failed(r))
	}
}

// TestConversationsCount checks the same for chat templates.
func TestConversationsCount(t *testing.T) {
	tok, data := smallTokenizer(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "tokenizer", "qwen2-tiny", "tokenizer.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	family, err := chat.ByName("chatml")
	if err != nil {
		t.Fatal(err)
	}
	messages := []chat.Message{{Role: "user", Content: "a ä<|im_end|>"}, {Role: "assistant", Content: "test"}}
	r, err := family.Render(messages, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pointsOf := func(spans []chat.Span) (list [][2]int) {
		for _, s := range spans {
			list = append(list, points(r.Text, s))
		}
		return list
	}
	var markup []tokenizer.Span
	for _, s := range r.Markup {
		markup = append(markup, tokenizer.Span(s))
	}
	open := tok.Encode(r.Text, tokenizer.EncodeOptions{Special: tokenizer.Everywhere})
	safe := tok.Encode(r.Text, tokenizer.EncodeOptions{Special: markup})
	everyFieldCounts(t, filepath.Join(dir, "chat", "chatml.jsonl"), map[string]any{
		"name": "a test", "messages": messages, "options": map[string]any{"add_generation_prompt": false}, "text": r.Text,
		"spans": pointsOf(r.Targets), "spans_bytes": [][2]int{{r.Targets[0].Start, r.Targets[0].End}},
		"content_spans": pointsOf(r.Contents), "prefix_ok": true, "ids": open.IDs, "loss_tokens": learnt(open, r),
		"ids_safe": safe.IDs, "loss_tokens_safe": learnt(safe, r),
	}, "text")
	if err := os.RemoveAll(filepath.Join(dir, "tokenizer")); err != nil {
		t.Fatal(err)
	}
	if r, _ := compareFolder(t, filepath.Join(dir, "chat")); !slices.ContainsFunc(failed(r), func(at string) bool {
		return strings.Contains(at, "there is no tokenizer at "+filepath.Join(dir, "tokenizer", "qwen2-tiny"))
	}) {
		t.Errorf("without its tokenizer: %q", failed(r))
	}
}

// TestLossy checks that text that is not UTF-8 is decoded as Unicode recommends: one U+FFFD for each longest part that
// starts a character.
func TestLossy(t *testing.T) {
	for _, c := range []struct {
		raw, text string
		ends      []int
	}{
		{"aé", "aé", []int{1, 3}},
		{"\xe2\x82A", "\uFFFDA", []int{2, 3}},
		{"\xe2\x82", "\uFFFD", []int{2}},
		{"\x80\xbf", "\uFFFD\uFFFD", []int{1, 2}},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD", []int{1, 2, 3}},
		{"\xf0\x9f\x98\xf0", "\uFFFD\uFFFD", []int{3, 4}},
	} {
		if text, ends := lossy([]byte(c.raw)); text != c.text || !slices.Equal(ends, c.ends) {
			t.Errorf("%q: %q, %v", c.raw, text, ends)
		}
	}
}

// TestGenerator checks numbers that another language computed from the generator's definition.
func TestGenerator(t *testing.T) {
	if got, want := newStream(20, "vocab").hash(0), uint64(0xf6da8fc1b7cc714d); got != want {
		t.Errorf("hash %x, want %x", got, want)
	}
	for name, want := range map[string]float32{"model.embed_tokens.weight": 0.0067749023,
		"model.layers.0.input_layernorm.weight": 0.9921875} {
		if got := tensor.BF16ToF32(newStream(20, name).weight(0)); got != want {
			t.Errorf("%s begins with %v, want %v", name, got, want)
		}
	}
}
