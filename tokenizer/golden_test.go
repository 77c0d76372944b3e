package tokenizer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

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
	expect.Lines(t, path, func(line int, v vector) {
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
		var tokens []string
		for _, id := range v.IDs {
			tokens = append(tokens, tok.Token(id))
			if back, ok := tok.TokenID(tok.Token(id)); !ok || back != id {
				t.Errorf("%s:%d: the id of %q is %d, want %d", path, line, tok.Token(id), back, id)
			}
		}
		if !slices.Equal(tokens, v.Tokens) {
			t.Errorf("%s:%d: tokens %q, want %q", path, line, tokens, v.Tokens)
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

// TestReferenceVectors compares vectors_X.jsonl with tokenizer_X.json next to it, or with the tokenizer of the
// directory's name among the data. Vectors next to a template.jinja are conversations.
func TestReferenceVectors(t *testing.T) {
	for _, path := range expect.Recordings(t, "vectors*.jsonl") {
		dir, file := filepath.Split(path)
		if _, err := os.Stat(dir + "template.jinja"); err == nil {
			continue
		}
		t.Run(filepath.Base(dir)+"/"+file, func(t *testing.T) {
			tok, err := Load(dir + "tokenizer" + strings.TrimSuffix(file[len("vectors"):], ".jsonl") + ".json")
			if errors.Is(err, fs.ErrNotExist) {
				tok, err = Load(filepath.Join(dir, "../../../data/tokenizer", filepath.Base(dir), "tokenizer.json"))
			}
			expect.OK(t, err)
			checkVectors(t, tok, path)
		})
	}
}

// TestReferenceStream compares streams of Llama-3's tokens.
func TestReferenceStream(t *testing.T) {
	type row struct {
		Note        string
		IDs         []int32 `json:"ids"`
		SkipSpecial bool    `json:"skip_special"`
		Bytes       string
		Emit        []string
		Held        []int
		Tail        string
		Decoded     string
		WellFormed  bool `json:"well_formed"` // at each token, all that is complete is out
	}
	for _, path := range expect.Recordings(t, "stream.jsonl") {
		tok, err := Load(expect.TokenizerWith(t, "<|start_header_id|>", filepath.Dir(path)))
		expect.OK(t, err)
		expect.Lines(t, path, func(line int, r row) {
			got := r
			got.Emit, got.Held, got.WellFormed = []string{}, []int{}, true
			s := tok.Stream(r.SkipSpecial)
			var raw []byte
			for _, id := range r.IDs {
				got.Emit = append(got.Emit, s.Add(id))
				got.Held = append(got.Held, s.Held())
				if !r.SkipSpecial || !tok.IsSpecial(id) {
					raw = append(raw, tok.Bytes(id)...)
				}
				out := strings.Join(got.Emit, "")
				got.WellFormed = got.WellFormed && bytes.HasPrefix(raw, []byte(out)) && len(raw)-len(out) <= 3
			}
			got.Bytes = hex.EncodeToString(raw)
			got.Tail = s.Flush()
			got.Decoded = tok.Decode(r.IDs, r.SkipSpecial)
			if !reflect.DeepEqual(got, r) || strings.Join(got.Emit, "")+got.Tail != r.Decoded {
				t.Errorf("%s:%d: got\n%+v, want\n%+v", path, line, got, r)
			}
		})
	}
}

// TestReferenceChat encodes rendered conversations, once as Hugging Face does and once so that the content of a message
// never becomes a special token, and determines the tokens that may count in the loss.
func TestReferenceChat(t *testing.T) {
	type row struct {
		Name, Text     string
		Error          string
		ErrorType      string          `json:"error_type"`
		Messages       json.RawMessage // these are chat's
		Options        json.RawMessage
		Spans          json.RawMessage
		PrefixOK       bool      `json:"prefix_ok"`
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
	safe := 0
	for _, c := range expect.Chats(t) {
		if c.Tokenizer == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			tok, err := Load(c.Tokenizer)
			expect.OK(t, err)
			expect.Lines(t, c.File, func(line int, r row) {
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
		})
	}
	if safe == 0 {
		t.Error("no conversation spells a special token in a message")
	}
}
