package tokenizer

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"restyle/internal/expect"
)

// eachLine calls check with each line of a JSONL file.
func eachLine[T any](t *testing.T, path string, check func(line int, row T)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	n := 0
	for n = 1; lines.Scan(); n++ {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		check(n, row)
	}
	if err := lines.Err(); err != nil || n == 1 {
		t.Fatalf("%s: %d lines, %v", path, n-1, err)
	}
}

// vector is the result of Hugging Face for a text.
type vector struct {
	Kind, Text  string
	IDs         []int32 `json:"ids"`
	IDsSpecial  []int32 `json:"ids_special"`
	IDsPlain    []int32 `json:"ids_plain"` // if it differs from IDs
	Tokens      []string
	Decoded     string
	DecodedSkip *string `json:"decoded_skip"` // if it differs from Decoded
	Quirk       string
}

func checkVectors(t *testing.T, tok *Tokenizer, path string) {
	t.Helper()
	eachLine(t, path, func(line int, v vector) {
		got := tok.Encode(v.Text, EncodeOptions{Special: Everywhere})
		if !slices.Equal(got.IDs, v.IDs) {
			t.Errorf("%s:%d: %s %q: ids\n%v, want\n%v", path, line, v.Kind, v.Text, got.IDs, v.IDs)
		}
		checkTiling(t, v.Text, got)
		if special := tok.Encode(v.Text, EncodeOptions{AddSpecial: true, Special: Everywhere}); !slices.Equal(special.IDs,
			v.IDsSpecial) {
			t.Errorf("%s:%d: %s %q: ids with special tokens added\n%v, want\n%v", path, line, v.Kind, v.Text, special.IDs,
				v.IDsSpecial)
		}
		want := v.IDsPlain
		if want == nil {
			want = v.IDs
		}
		if plain := tok.Encode(v.Text, EncodeOptions{}); !slices.Equal(plain.IDs, want) {
			t.Errorf("%s:%d: %s %q: ids without special tokens\n%v, want\n%v", path, line, v.Kind, v.Text, plain.IDs, want)
		}
		for i, id := range v.IDs {
			if i < len(v.Tokens) && tok.Token(id) != v.Tokens[i] {
				t.Errorf("%s:%d: token %d is %q, want %q", path, line, id, tok.Token(id), v.Tokens[i])
			}
			if back, ok := tok.TokenID(tok.Token(id)); !ok || back != id {
				t.Errorf("%s:%d: the id of %q is %d, want %d", path, line, tok.Token(id), back, id)
			}
		}
		if decoded := tok.Decode(v.IDs, false); decoded != v.Decoded {
			t.Errorf("%s:%d: %s: decoded\n%q, want\n%q", path, line, v.Kind, decoded, v.Decoded)
		}
		skipped := v.Decoded
		if v.DecodedSkip != nil {
			skipped = *v.DecodedSkip
		}
		if decoded := tok.Decode(v.IDs, true); decoded != skipped {
			t.Errorf("%s:%d: %s: decoded without special tokens\n%q, want\n%q", path, line, v.Kind, decoded, skipped)
		}
	})
}

// checkTiling checks that the tokens of a text cover all of it, in order.
func checkTiling(t *testing.T, text string, e Encoding) {
	t.Helper()
	last := int32(0)
	for i, end := range e.Ends {
		if end < last || int(end) > len(text) {
			t.Errorf("%q: token %d ends at %d, behind one that ends at %d of %d", text, i, end, last, len(text))
		}
		last = end
	}
	if len(e.Ends) != len(e.IDs) || len(e.Ends) > 0 && int(last) != len(text) {
		t.Errorf("%q: %d tokens with %d ends, the last at %d of %d", text, len(e.IDs), len(e.Ends), last, len(text))
	}
}

func TestReferenceVectors(t *testing.T) {
	for _, test := range []struct {
		name       string
		json, want []string
	}{
		{"llama3", []string{"golden", "tokenizer", "llama3", "tokenizer.json"}, []string{"golden", "tokenizer", "llama3",
			"vectors.jsonl"}},
		{"gpt2", []string{"golden", "tokenizer", "gpt2-tiny", "tokenizer.json"}, []string{"golden", "tokenizer", "gpt2-tiny",
			"vectors.jsonl"}},
		{"gpt2 with a template", []string{"golden", "tokenizer", "gpt2-tiny", "tokenizer_bos_eos.json"},
			[]string{"golden", "tokenizer", "gpt2-tiny", "vectors_bos_eos.jsonl"}},
		{"qwen2", []string{"golden", "tokenizer", "qwen2-tiny", "tokenizer.json"}, []string{"golden", "tokenizer",
			"qwen2-tiny", "vectors.jsonl"}},
		{"hf-tiny", []string{"data", "tokenizer", "hf-tiny", "tokenizer.json"}, []string{"golden", "tokenizer", "hf-tiny",
			"vectors.jsonl"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tok, err := Load(expect.Reference(t, test.json...))
			if err != nil {
				t.Fatal(err)
			}
			checkVectors(t, tok, expect.Reference(t, test.want...))
		})
	}
}

func TestReferenceStream(t *testing.T) {
	tok, err := Load(expect.Reference(t, "golden", "tokenizer", "llama3", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Note        string
		IDs         []int32 `json:"ids"`
		SkipSpecial bool    `json:"skip_special"`
		Bytes       string
		Emit        []string
		Held        []int
		Tail        string
		Decoded     string
	}
	eachLine(t, expect.Reference(t, "golden", "tokenizer", "stream.jsonl"), func(line int, r row) {
		s := tok.Stream(r.SkipSpecial)
		var raw []byte
		for i, id := range r.IDs {
			if got := s.Add(id); got != r.Emit[i] {
				t.Errorf("%d: %s: token %d gives %q, want %q", line, r.Note, i, got, r.Emit[i])
			}
			if s.Held() != r.Held[i] {
				t.Errorf("%d: %s: token %d leaves %d bytes held back, want %d", line, r.Note, i, s.Held(), r.Held[i])
			}
			if !r.SkipSpecial || !tok.IsSpecial(id) {
				raw = append(raw, tok.Bytes(id)...)
			}
		}
		if got := s.Flush(); got != r.Tail {
			t.Errorf("%d: %s: the tail is %q, want %q", line, r.Note, got, r.Tail)
		}
		if got := tok.Decode(r.IDs, r.SkipSpecial); got != r.Decoded {
			t.Errorf("%d: %s: decoded %q, want %q", line, r.Note, got, r.Decoded)
		}
		if got := hex.EncodeToString(raw); got != r.Bytes {
			t.Errorf("%d: %s: bytes %s, want %s", line, r.Note, got, r.Bytes)
		}
	})
}

// TestReferenceChat encodes rendered conversations, once as Hugging Face does and once so that the content of a message
// never becomes a special token, and determines the tokens that may count in the loss.
func TestReferenceChat(t *testing.T) {
	type row struct {
		Name           string
		Text           string
		Error          string
		SpansBytes     [][2]int  `json:"spans_bytes"`
		ContentSpans   []*[2]int `json:"content_spans"` // in code points
		IDs            []int32   `json:"ids"`
		IDsSafe        []int32   `json:"ids_safe"` // if it differs from IDs
		LossTokens     [][2]int  `json:"loss_tokens"`
		LossTokensSafe [][2]int  `json:"loss_tokens_safe"`
	}
	check := func(t *testing.T, what string, r row, e Encoding, ids []int32, loss [][2]int) {
		t.Helper()
		if !slices.Equal(e.IDs, ids) {
			t.Errorf("%s, %s: ids\n%v, want\n%v", r.Name, what, e.IDs, ids)
		}
		got := make([][2]int, 0)
		for _, s := range r.SpansBytes {
			first, end := e.Tokens(Span{s[0], s[1]})
			got = append(got, [2]int{first, end})
		}
		if !slices.Equal(got, loss) {
			t.Errorf("%s, %s: tokens of the spans %v, want %v", r.Name, what, got, loss)
		}
		checkTiling(t, r.Text, e)
	}
	for _, test := range []struct{ family, tokenizer string }{
		{"llama3", "llama3"}, {"llama3.1", "llama3"}, {"llama3.2", "llama3"}, {"chatml", "qwen2-tiny"},
		{"qwen2.5", "qwen2-tiny"}, {"smollm2", "qwen2-tiny"},
	} {
		t.Run(test.family, func(t *testing.T) {
			tok, err := Load(expect.Reference(t, "golden", "tokenizer", test.tokenizer, "tokenizer.json"))
			if err != nil {
				t.Fatal(err)
			}
			safe := 0
			eachLine(t, expect.Reference(t, "golden", "chat", test.family+".jsonl"), func(line int, r row) {
				if r.Error != "" {
					return
				}
				check(t, "as Hugging Face", r, tok.Encode(r.Text, EncodeOptions{Special: Everywhere}), r.IDs, r.LossTokens)

				// The template wrote everything that no content covers.
				var bytesAt []int
				for i := range r.Text {
					bytesAt = append(bytesAt, i)
				}
				bytesAt = append(bytesAt, len(r.Text))
				var contents []Span
				for _, c := range r.ContentSpans {
					if c != nil {
						contents = append(contents, Span{bytesAt[c[0]], bytesAt[c[1]]})
					}
				}
				slices.SortFunc(contents, func(a, b Span) int { return a.Start - b.Start })
				var markup []Span
				at := 0
				for _, c := range contents {
					markup = append(markup, Span{at, c.Start})
					at = c.End
				}
				markup = append(markup, Span{at, len(r.Text)})
				ids, loss := r.IDs, r.LossTokens
				if r.IDsSafe != nil {
					ids, loss = r.IDsSafe, r.LossTokensSafe
					safe++
				}
				check(t, "safely", r, tok.Encode(r.Text, EncodeOptions{Special: markup}), ids, loss)
			})
			if safe == 0 {
				t.Error("no conversation spells a special token in a message")
			}
		})
	}
}
