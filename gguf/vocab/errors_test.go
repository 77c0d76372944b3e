package vocab_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"restyle/gguf/vocab"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/tokenizer"
)

func TestFiles_Refuses(t *testing.T) {
	r := readRecorded(t)
	yes := true
	for _, c := range []struct {
		scored bool // the SentencePiece vocabulary instead of the byte-level one
		change func(v *vocab.Vocab)
		want   []string
	}{
		{false, func(v *vocab.Vocab) { v.Model = "bert" }, []string{"tokenizer.ggml.model", "bert", "WordPiece"}},
		{false, func(v *vocab.Vocab) { v.Model = "new" }, []string{"tokenizer.ggml.model", "new", "unknown"}},
		{false, func(v *vocab.Vocab) { v.Model = "none" }, []string{"none"}},
		{false, func(v *vocab.Vocab) { v.Pre = "" }, []string{"tokenizer.ggml.pre", "does not say how text is split"}},
		{false, func(v *vocab.Vocab) { v.Pre = "default" }, []string{"default", "does not say how text is split"}},
		{false, func(v *vocab.Vocab) { v.Pre = "superbpe" }, []string{"superbpe", "not supported"}},
		{false, func(v *vocab.Vocab) { v.Tokens = nil }, []string{"tokenizer.ggml.tokens", "empty"}},
		{false, func(v *vocab.Vocab) { v.Types = v.Types[1:] }, []string{"token_type has 589", "tokens 590"}},
		{false, func(v *vocab.Vocab) { v.Types[7] = 7 }, []string{"token 7", "type 7"}},
		{false, func(v *vocab.Vocab) { v.Types[7] = 0 }, []string{"token 7", "type 0"}},
		{false, func(v *vocab.Vocab) { v.Tokens[7] = "" }, []string{"token 7 is empty"}},
		{false, func(v *vocab.Vocab) { v.Tokens[7] = "\xff" }, []string{"token 7", "UTF-8"}},
		{false, func(v *vocab.Vocab) { v.Tokens[7] = v.Tokens[5] }, []string{"tokens 5 and 7", "once"}},
		{false, func(v *vocab.Vocab) { v.Merges = nil }, []string{"tokenizer.ggml.merges", "empty"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{"ab"} }, []string{"merge 0", "one space"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{"a b c"} }, []string{"merge 0", "one space"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{" b"} }, []string{"merge 0", "one space"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{"a zz"} }, []string{"merge 0", "must be tokens"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{"q q"} }, []string{"merge 0", "must be tokens"}},
		{false, func(v *vocab.Vocab) { v.Merges = []string{"e r", "e r"} }, []string{"merge 1", "twice"}},
		{false, func(v *vocab.Vocab) { v.BOS = 590 }, []string{"bos_token_id is 590", "590 tokens"}},
		{false, func(v *vocab.Vocab) { v.Pad = -2 }, []string{"padding_token_id is -2"}},
		{false, func(v *vocab.Vocab) { v.BOS, v.AddBOS = -1, &yes }, []string{"add_bos_token", "no bos_token_id"}},
		{false, func(v *vocab.Vocab) { v.EOS, v.AddEOS = -1, &yes }, []string{"add_eos_token", "no eos_token_id"}},
		{true, func(v *vocab.Vocab) { v.Scores = nil }, []string{"scores has 0", "tokens 703"}},
		{true, func(v *vocab.Vocab) { v.Scores[300] = float32(math.NaN()) }, []string{"token 300", "not a number"}},
		{true, func(v *vocab.Vocab) { clear(v.Scores) }, []string{"same score"}},
		{true, func(v *vocab.Vocab) { v.Tokens[3] = "x0x" }, []string{"<0x00>", "bytes"}},
		{true, func(v *vocab.Vocab) { v.Tokens[300] = "a☃" }, []string{"a☃", `"☃"`}},
		{true, func(v *vocab.Vocab) {
			for n := range 400 {
				add(v, vocab.Normal, strings.Repeat("a", 9+n))
			}
			v.Scores = append(v.Scores[:0], make([]float32, len(v.Tokens))...)
			for i := range v.Scores {
				v.Scores[i] = -float32(i)
			}
		}, []string{"damaged or hostile"}},
		{false, func(v *vocab.Vocab) { v.HuggingFace = "{" }, []string{"tokenizer.huggingface.json"}},
		{false, func(v *vocab.Vocab) { v.HuggingFace = whole(v, "!", 1) }, []string{"token 1,", `"!"`, "contradicts"}},
		{false, func(v *vocab.Vocab) { v.HuggingFace = whole(v, "z", 590) }, []string{"token 590", "none", "contradicts"}},
		{false, func(v *vocab.Vocab) { v.HuggingFace = whole(v, "", 0) }, []string{"lacks the token 0", "contradicts"}},
	} {
		v := r.byteLevel("qwen2")
		if c.scored {
			v = r.scored()
		}
		c.change(&v)
		_, err := v.Files()
		expect.Error(t, err, c.want...)
	}
}

// whole returns a tokenizer.json that has the tokens of v, but id has another, or none if it is "".
func whole(v *vocab.Vocab, token string, id int) string {
	tokens := map[string]int{}
	for i, t := range v.Tokens {
		if i != id {
			tokens[t] = i
		}
	}
	if token != "" {
		tokens[token] = id
	}
	text, _ := json.Marshal(map[string]any{"model": map[string]any{"vocab": tokens}}) // texts and numbers
	return string(text)
}

// TestFromFiles_NotesAndRefuses changes a tokenizer.json, and expects an error, a note, or neither.
func TestFromFiles_NotesAndRefuses(t *testing.T) {
	r := readRecorded(t)
	byteLevel, _ := open(t, r.byteLevel("llama-bpe"))
	scored, _ := open(t, r.scored())
	const split, digits = `{"behavior":"Isolated"`, `{"type":"Digits","individual_digits":true},`
	for _, c := range []struct {
		scored       bool
		old, new     string
		config       string
		refused, pre string
		note         string
	}{
		{old: "", pre: "llama-bpe"},
		{old: "'s|'t|'re|'ve|'m|'ll|'d)", new: "'S|'t)", refused: "as no pre-tokenizer of llama.cpp does"},
		{old: "(?i:'s|'t|'re|'ve|'m|'ll|'d)", new: "'(?i:[sdmt]|ll|ve|re)", pre: "llama-bpe"},
		{old: `"ignore_merges": true`, new: `"ignore_merges": false`, pre: "dbrx"},
		{old: `\\p{N}{1,3}`, new: `\\p{N}`, pre: "qwen2", note: "ignore_merges is false there and true here"},
		{old: split, new: digits + split, pre: "qwen2", note: "two or more white-space characters"},
		{old: `"normalizer": null`, new: `"normalizer": {"type":"NFC"}`, pre: "llama-bpe", note: "NFC"},
		{old: `"normalizer": null`, new: `"normalizer": {"type":"NFKC"}`, refused: "NFKC"},
		{old: `"add_prefix_space":false`, new: `"add_prefix_space":true`, refused: "space before texts"},
		{old: split, new: `{"type":"Punctuation"},` + split, refused: "Punctuation"},
		{old: `"behavior":"Isolated"`, new: `"behavior":"Removed"`, refused: "Removed"},
		{old: `"type": "BPE"`, new: `"type": "Unigram"`, refused: "not BPE"},
		{old: `"lstrip":false`, new: `"lstrip":true`, pre: "llama-bpe", note: "white space next to it"},
		{old: `"!": 0`, new: `"!": 703`, refused: "703"},
		{old: `"!": 0`, new: `"!": 1`, refused: "id 1"},
		{config: `{"eos_token":{"content":"nope"}}`, refused: "nope"},
		{config: `{"added_tokens_decoder":{"600":{"content":"nope"}}}`, refused: "nope"},
		{config: `{"chat_template":[{"name":1}]}`, refused: "chat_template"},
		{config: `{"bos_token":`, refused: "tokenizer_config.json"},
		{scored: true, pre: "default"},
		{scored: true, old: `"byte_fallback": true`, new: `"byte_fallback": false`, refused: "Prepend"},
		{scored: true, old: `"<0x00>": 3`, new: `"<0xXX>": 3`, refused: "<0x00>"},
		{scored: true, old: "\"▁ '\",\n", new: "", refused: "does not merge"},
		{scored: true, old: `{"prepend":"▁","type":"Prepend"},`, new: "", pre: "default"},
		{scored: true, old: `"normalizer": {`, new: `"normalizer": {"type":"Lowercase"}, "x": {`, refused: "Lowercase"},
		{scored: true, old: `"normalizer": {`, new: `"normalizer": null, "x": {`, refused: "does not write spaces"},
	} {
		name := fmt.Sprintf("%q for %q %s", c.new, c.old, c.config)
		text := string(byteLevel["tokenizer.json"])
		if c.scored {
			text = string(scored["tokenizer.json"])
		}
		if !strings.Contains(text, c.old) {
			t.Fatalf("%s: it is not there", name)
		}
		config := []byte(c.config)
		if c.config == "" {
			config = nil
		}
		v, notes, err := vocab.FromFiles([]byte(strings.Replace(text, c.old, c.new, 1)), config, nil, 703)
		switch {
		case c.refused != "":
			expect.Error(t, err, c.refused)
		case err != nil || v.Pre != c.pre || !noted(notes, c.note):
			t.Errorf("%s: pre %q, notes %q: %v", name, v.Pre, notes, err)
		}
	}
}

// noted reports whether the notes have these words, or there are none if there are to be none.
func noted(notes []string, words string) bool {
	return (len(notes) > 0) == (words != "") && strings.Contains(strings.Join(notes, "\n"), words)
}

// TestFromFiles_KeepsFurtherEnds checks that tokens of generation_config.json end answers in llama.cpp.
func TestFromFiles_KeepsFurtherEnds(t *testing.T) {
	files, _ := open(t, readRecorded(t).byteLevel("qwen2"))
	for _, c := range []struct{ config, ends, note string }{
		{`{}`, "[587]", ""},
		{`{"eos_token_id": 3}`, "[3 587]", ""},
		{`{"eos_token_id": [587, 3, 4]}`, "[3 4 587]", ""},
		{`{"eos_token_id": [1, 2, 3, 4]}`, "[1 2 3 587]", "will not end answers"},
		{`{"eos_token_id": null}`, "[587]", ""},
	} {
		v, notes, err := vocab.FromFiles(files["tokenizer.json"], nil, []byte(c.config), 590)
		if ends := fmt.Sprint(v.Ends()); err != nil || ends != c.ends || !noted(notes, c.note) {
			t.Errorf("%s: ends %s, want %s; notes %q: %v", c.config, ends, c.ends, notes, err)
		}
	}
	_, _, err := vocab.FromFiles(files["tokenizer.json"], nil, []byte(`{"eos_token_id": 590}`), 590)
	expect.Error(t, err, "590")
}

func FuzzFromFiles(f *testing.F) {
	r := readRecorded(f)
	for _, v := range []vocab.Vocab{r.byteLevel("smollm"), r.scored()} {
		files, _ := open(f, v)
		f.Add(string(files["tokenizer.json"]), string(files["tokenizer_config.json"]),
			string(files["generation_config.json"]))
	}
	for _, text := range hostile.Wide() {
		f.Add(text, "{}", "{}")
		for _, part := range []string{"pre_tokenizer", "added_tokens"} {
			f.Add(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"`+part+`":`+text+"}", text, text)
		}
	}
	f.Fuzz(func(t *testing.T, tokens, config, generation string) {
		hostile.Within(t, hostile.Linear(len(tokens)+len(config)+len(generation)), func() {
			v, _, err := vocab.FromFiles([]byte(tokens), []byte(config), []byte(generation), 600)
			if err == nil {
				_ = v.Ends()
			}
		})
	})
}

// FuzzFiles gives lists of tokens, types, merges and scores, and checks that what is written can be read.
func FuzzFiles(f *testing.F) {
	r := readRecorded(f)
	for _, v := range []vocab.Vocab{r.byteLevel("smollm"), r.scored()} {
		types := make([]byte, len(v.Types))
		for i, kind := range v.Types {
			types[i] = byte(kind)
		}
		f.Add(v.Model, v.Pre, strings.Join(v.Tokens, "\n"), types, strings.Join(v.Merges, "\n"), v.BOS, "")
		f.Add(v.Model, v.Pre, strings.Join(v.Tokens, "\n"), types, strings.Join(v.Merges, "\n"), v.BOS, whole(&v, "", -1))
	}
	f.Add("llama", "", strings.Repeat("a", 300), []byte{1}, "a a", 5, `{"added_tokens":[{"id":-1}]}`)
	f.Fuzz(func(t *testing.T, model, pre, tokens string, types []byte, merges string, bos int, whole string) {
		v := empty(model, pre)
		v.Tokens, v.Merges = strings.Split(tokens, "\n"), strings.Split(merges, "\n")
		v.BOS, v.HuggingFace, v.Template = bos, whole, pre
		for i, kind := range types {
			v.Types, v.Scores = append(v.Types, int(kind)), append(v.Scores, -float32(i))
		}
		// As the file has them: a length of eight bytes before each text, four bytes for each type and score.
		size := len(tokens) + len(merges) + len(whole) + 16*len(v.Tokens) + 8*len(v.Merges)
		var files map[string][]byte
		var err error
		hostile.Within(t, hostile.Linear(size), func() { files, err = v.Files() })
		if err != nil || whole != "" {
			return
		}
		if tok, err := tokenizer.Parse(files["tokenizer.json"]); err == nil {
			for id, token := range v.Tokens {
				if got := tok.Token(int32(id)); got != token {
					t.Errorf("token %d is %q, want %q", id, got, token)
				}
			}
		} else if !slices.ContainsFunc([]string{"two ids", "bytes", "byte alphabet"}, func(why string) bool {
			return strings.Contains(err.Error(), why)
		}) {
			t.Error(err)
		}
	})
}
