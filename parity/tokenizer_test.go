package parity

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
	"restyle/tokenizer"
)

// writeLines writes rows as a JSONL file.
func writeLines(t *testing.T, path string, rows ...map[string]any) {
	t.Helper()
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	var lines []string
	for _, row := range rows {
		line, err := json.Marshal(row)
		expect.OK(t, err)
		lines = append(lines, string(line)+"\n")
	}
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
}

// smallTokenizer trains a tokenizer with the special tokens of ChatML.
func smallTokenizer(t *testing.T) (*tokenizer.Tokenizer, []byte) {
	t.Helper()
	data, err := tokenizer.Train(slices.Values([]string{"a small text, small enough to be a small test; a test of a " +
		"text"}),
		tokenizer.TrainOptions{VocabSize: 280, Special: []string{"<|im_start|>", "<|im_end|>"}, BOS: "<|im_start|>"})
	expect.OK(t, err)
	tok, err := tokenizer.Parse(data)
	expect.OK(t, err)
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
	expect.OK(t, err)
	return out
}

// TestVectors_EveryFieldCounts checks the checker: every field of a line of vectors is compared.
func TestVectors_EveryFieldCounts(t *testing.T) {
	tok, data := smallTokenizer(t)
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644))
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

// TestTexts_AreNamed checks that recordings of texts are named, with the command that compares them, and that no model
// is taken for one.
func TestTexts_AreNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/sampling.jsonl", "b/stream.jsonl", "c/unicode_classes.json", "d/corpus.txt",
		"e/expressions.jsonl", "f/hostile.jsonl", "g/chatml.jsonl", "h/vectors.jsonl"} {
		writeLines(t, filepath.Join(dir, name), map[string]any{"messages": []string{}})
	}
	_, err := Run(t.Context(), []string{dir}, Options{})
	expect.Error(t, err, "/h: only texts, which no device computes: compare them with RESTYLE_REFERENCE=DIRECTORY go test")

	model := copied(t, "testdata/qwen2")
	writeLines(t, filepath.Join(model, "corpus.txt"), map[string]any{})
	r, err := Run(t.Context(), []string{dir, model}, Options{Fused: []kernels.Fused{kernels.All()}})
	expect.OK(t, err)
	if len(r.Texts) != 8 || len(r.Folders) != 1 || !slices.Equal(failed(r),
		[]string{"unknown file corpus.txt a directory of kind model has no such file"}) {
		t.Errorf("texts %q, compared %q, failed %q", r.Texts, r.Folders, failed(r))
	}
	var out strings.Builder
	err = r.Write(&out, nil)
	if err != nil || !strings.Contains(out.String(), "texts, not compared here but by "+textTests) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// TestLossy checks that text that is not UTF-8 is decoded as Unicode recommends.
func TestLossy(t *testing.T) {
	for raw, want := range map[string]string{
		"aé": "aé", "\xe2\x82A": "\uFFFDA", "\xe2\x82": "\uFFFD", "\x80\xbf": "\uFFFD\uFFFD",
		"\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", "\xf0\x9f\x98\xf0": "\uFFFD\uFFFD",
	} {
		if got := lossy([]byte(raw)); got != want {
			t.Errorf("%q: %q", raw, got)
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
