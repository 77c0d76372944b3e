package vocab_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/gguf/vocab"
	"restyle/internal/expect"
	"restyle/tokenizer"
)

// recorded is testdata/llamacpp.json: what llama_tokenize of llama.cpp v0.5.0 makes of texts, with control tokens.
type recorded struct {
	Merges []string // of a byte-level vocabulary whose tokens are the bytes, then these
	Texts  []string
	IDs    map[string][][]int32 // by pre; null where the package's comment says that llama.cpp has an approximation
	Pieces []string             // of a SentencePiece vocabulary: its tokens after the bytes
	Scores []float32            // of Pieces
	Scored [][]int32            // its ids, with BOS
}

func readRecorded(t testing.TB) (r recorded) {
	t.Helper()
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, "testdata/llamacpp.json")), &r))
	return r
}

func empty(model, pre string) vocab.Vocab {
	return vocab.Vocab{Model: model, Pre: pre, BOS: -1, EOS: -1, EOT: -1, EOM: -1, Unknown: -1, Pad: -1}
}

// add adds tokens of one type.
func add(v *vocab.Vocab, kind int, tokens ...string) {
	for _, token := range tokens {
		v.Tokens, v.Types = append(v.Tokens, token), append(v.Types, kind)
	}
}

// byteLevel returns the byte-level vocabulary.
func (r recorded) byteLevel(pre string) vocab.Vocab {
	v := empty("gpt2", pre)
	var alphabet []string
	for b := range 256 { // the printable ones are themselves, and the others follow each other from U+0100 on
		if '!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b {
			alphabet = append(alphabet, string(rune(b)))
		}
	}
	for i := range 256 - len(alphabet) {
		alphabet = append(alphabet, string(rune(256+i)))
	}
	add(&v, vocab.Normal, alphabet...)
	for _, m := range r.Merges {
		add(&v, vocab.Normal, strings.ReplaceAll(m, " ", ""))
	}
	v.Merges, v.BOS, v.EOS, v.AddBOS = r.Merges, len(v.Tokens), len(v.Tokens)+1, new(bool)
	add(&v, vocab.Control, "<|im_start|>", "<|im_end|>")
	add(&v, vocab.UserDefined, "@=@")
	add(&v, vocab.Unused, "[PAD589]")
	return v
}

// scored returns the SentencePiece vocabulary. The file does not name BOS, EOS and the unknown token: they are 1, 2, 0.
func (r recorded) scored() vocab.Vocab {
	v := empty("llama", "default")
	add(&v, vocab.Unknown, "<unk>")
	add(&v, vocab.Control, "<s>", "</s>")
	for b := range 256 {
		add(&v, vocab.Byte, fmt.Sprintf("<0x%02X>", b))
	}
	add(&v, vocab.Normal, r.Pieces...)
	v.Scores = slices.Concat(make([]float32, 259), r.Scores, make([]float32, 3))
	add(&v, vocab.Control, "<|im_start|>", "<|im_end|>")
	add(&v, vocab.UserDefined, "@=@")
	return v
}

// open returns the files of a vocabulary, and the tokenizer that they are.
func open(t testing.TB, v vocab.Vocab) (map[string][]byte, *tokenizer.Tokenizer) {
	t.Helper()
	files, err := v.Files()
	expect.OK(t, err)
	tok, err := tokenizer.Read(func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return data, nil
		}
		return nil, fs.ErrNotExist
	})
	expect.OK(t, err)
	return files, tok
}

func encode(tok *tokenizer.Tokenizer, text string, add bool) []int32 {
	return tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: add, Special: tokenizer.Everywhere}).IDs
}

func TestFiles_GiveLlamaCppsIDs(t *testing.T) {
	r := readRecorded(t)
	check := func(name string, v vocab.Vocab, want [][]int32, add bool) {
		_, tok := open(t, v)
		for i, text := range r.Texts {
			if got := encode(tok, text, add); want[i] != nil && !slices.Equal(got, want[i]) {
				t.Errorf("%s: %q: ids\n%v, want\n%v", name, text, got, want[i])
			}
		}
	}
	if len(r.IDs) != 18 {
		t.Errorf("%d names are recorded", len(r.IDs))
	}
	for pre, want := range r.IDs {
		check(pre, r.byteLevel(pre), want, false)
	}
	check("llama", r.scored(), r.Scored, true)
}

// same checks that a tokenizer gives the ids of another, both ways.
func same(t *testing.T, name string, got, want *tokenizer.Tokenizer, texts []string) {
	t.Helper()
	for _, text := range texts {
		for _, add := range []bool{false, true} {
			ids := encode(want, text, add)
			if back := encode(got, text, add); !slices.Equal(back, ids) {
				t.Errorf("%s: %q: ids\n%v, want\n%v", name, text, back, ids)
			}
			if back, text := got.Decode(ids, false), want.Decode(ids, false); back != text {
				t.Errorf("%s: ids %v: text %q, want %q", name, ids, back, text)
			}
		}
	}
}

// TestFromFiles_ComesBack checks that a tokenizer.json comes back the same from the keys that are written for it: from
// the whole one in them, and from the tokens, merges and scores, if there are no notes.
func TestFromFiles_ComesBack(t *testing.T) {
	r := readRecorded(t)
	texts := map[string][]string{}
	files := map[string][]byte{}
	for _, path := range expect.Recordings(t, "vectors*.jsonl") {
		dir, file := filepath.Split(path)
		name := dir + "tokenizer" + strings.TrimSuffix(file[len("vectors"):], ".jsonl") + ".json"
		if filepath.Base(dir) == "hf-tiny" {
			name = filepath.Join(dir, "../../../data/tokenizer/hf-tiny/tokenizer.json")
		} else if filepath.Base(filepath.Dir(filepath.Clean(dir))) != "tokenizer" {
			continue // conversations
		}
		files[name] = []byte(expect.Read(t, name))
		expect.Lines(t, path, func(_ int, row map[string]any) {
			texts[name] = append(texts[name], row["text"].(string))
		})
	}
	files["starter"] = []byte(expect.Read(t, "../../data/starter-llama/tokenizer.json"))
	made, _ := open(t, r.scored())
	files["scored"] = made["tokenizer.json"]
	noPrefix := r.scored()
	noPrefix.AddSpacePrefix = new(bool)
	made, _ = open(t, noPrefix)
	files["scored, no prefix"] = made["tokenizer.json"]
	for name, data := range files {
		want, err := tokenizer.Parse(data)
		expect.OK(t, err)
		texts := append(texts[name], r.Texts...)
		if strings.HasSuffix(name, "tokenizer_bos_eos.json") {
			_, _, err := vocab.FromFiles(data, nil, nil, int(want.MaxID())+1)
			expect.Error(t, err, "2 tokens after each text")
			continue
		}
		rows := int(want.MaxID()) + 1 + 3
		v, notes, err := vocab.FromFiles(data, nil, nil, rows)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := len(v.Tokens); n != rows || v.Tokens[n-1] != fmt.Sprintf("[PAD%d]", n-1) || v.Types[n-1] != vocab.Unused {
			t.Errorf("%s: %d tokens, the last one %q, want %d", name, n, v.Tokens[n-1], rows)
		}
		_, got := open(t, v)
		same(t, name, got, want, texts)
		if v.HuggingFace = ""; len(notes) == 0 {
			_, got = open(t, v)
			same(t, name+" without the whole", got, want, texts)
		}
	}
}

func TestFiles_KeepTemplatesAndEnds(t *testing.T) {
	v := readRecorded(t).byteLevel("qwen2")
	add(&v, vocab.Normal, "<|endoftext|>", "<|eom_id|>", "<|end|>", "<|repo_name|>", "<|channel|>", "last")
	id := func(token string) int { return slices.Index(v.Tokens, token) }
	v.EOS, v.Pad, v.Template = id("last"), id("<|endoftext|>"), "{{ 'é' }}\r\n <&>"
	ends := []int{id("<|im_end|>"), id("<|endoftext|>"), id("<|eom_id|>"), id("<|end|>"), id("<|repo_name|>"), id("last")}
	if got := v.Ends(); !reflect.DeepEqual(got, ends) {
		t.Errorf("ends %v, want %v", got, ends)
	}
	files, tok := open(t, v)
	var config struct {
		BOS      string `json:"bos_token"`
		EOS      string `json:"eos_token"`
		Pad      string `json:"pad_token"`
		Template any    `json:"chat_template"`
		Ends     []int  `json:"eos_token_id"`
	}
	read := func(files map[string][]byte) {
		for _, name := range []string{"tokenizer_config.json", "generation_config.json"} {
			expect.OK(t, json.Unmarshal(files[name], &config))
		}
	}
	read(files)
	if config.BOS != "<|im_start|>" || config.EOS != "last" || config.Pad != "<|endoftext|>" ||
		config.Template != v.Template || !slices.Equal(config.Ends, ends) {
		t.Errorf("%+v", config)
	}
	// A token that llama.cpp knows by its text is a control token, whatever the file says, and so is EOS.
	for token, special := range map[string]bool{"<|endoftext|>": true, "<|im_start|>": true, "@=@": false, "last": true,
		"<|channel|>": false} {
		if tok.IsSpecial(int32(id(token))) != special {
			t.Errorf("%q is special: %v", token, !special)
		}
	}
	back, _, err := vocab.FromFiles(files["tokenizer.json"], files["tokenizer_config.json"],
		files["generation_config.json"], len(v.Tokens))
	if err != nil || back.BOS != v.BOS || back.EOS != v.EOS || back.Pad != v.Pad || back.Template != v.Template ||
		!slices.Equal(back.Tokens, v.Tokens) || !slices.Equal(back.Ends(), ends) {
		t.Errorf("it comes back as %+v: %v", back, err)
	}
	v.Templates = map[string]string{"rag": "r", "default": "not this one"}
	files, _ = open(t, v)
	read(files)
	want := []any{map[string]any{"name": "default", "template": v.Template},
		map[string]any{"name": "rag", "template": "r"}}
	if !reflect.DeepEqual(config.Template, want) {
		t.Errorf("templates %v", config.Template)
	}
	back, _, err = vocab.FromFiles(files["tokenizer.json"], files["tokenizer_config.json"], nil, len(v.Tokens))
	if err != nil || back.Template != v.Template || !maps.Equal(back.Templates, map[string]string{"rag": "r"}) {
		t.Errorf("templates %q and %v come back: %v", back.Template, back.Templates, err)
	}
}

// TestEnds_LeaveOutWhatStandsInsideAnswers checks the families whose <|end|> or </s> ends no answer.
func TestEnds_LeaveOutWhatStandsInsideAnswers(t *testing.T) {
	for _, c := range []struct{ tokens, ends string }{
		{"<|end|> <|return|>", "<|end|> <|return|>"},
		{"<|end|> <|return|> <|call|>", "<|return|> <|call|>"},
		{"<|end|> <|flush|> <|calls|> x", "<|flush|> <|calls|>"},
		{"</s> <eos>", "</s> <eos>"},
		{"</s> <|tool_response>", "<|tool_response>"},
	} {
		v := empty("gpt2", "gpt-2")
		add(&v, vocab.Control, strings.Fields(c.tokens)...)
		var ends []string
		for _, id := range v.Ends() {
			ends = append(ends, v.Tokens[id])
		}
		if got := strings.Join(ends, " "); got != c.ends {
			t.Errorf("%s: ends %s, want %s", c.tokens, got, c.ends)
		}
	}
}
