package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"restyle/internal/expect"
	"slices"
	"testing"
)

// patched applies a change to a tokenizer.json, as testdata/make_testdata.py describes.
func patched(t testing.TB, file string, patch map[string]json.RawMessage) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	expect.OK(t, err)
	read := func(data []byte, v any) {
		expect.OK(t, json.Unmarshal(data, v))
	}
	write := func(v any) []byte {
		data, err := json.Marshal(v)
		expect.OK(t, err)
		return data
	}
	var doc, model map[string]json.RawMessage
	var vocab map[string]int
	var merges [][2]string
	read(data, &doc)
	read(doc["model"], &model)
	read(model["vocab"], &vocab)
	read(model["merges"], &merges)
	for key, part := range patch {
		switch key {
		case "without":
			var tokens []string
			read(part, &tokens)
			for _, token := range tokens {
				vocab["gone "+token] = vocab[token]
				delete(vocab, token)
			}
			merges = slices.DeleteFunc(merges, func(m [2]string) bool {
				for _, token := range []string{m[0], m[1], m[0] + m[1]} {
					if _, ok := vocab[token]; !ok {
						return true
					}
				}
				return false
			})
			model["vocab"], model["merges"] = write(vocab), write(merges)
		case "merge":
			var pair [2]string
			read(part, &pair)
			vocab[pair[0]+pair[1]] = len(vocab)
			merges = slices.Insert(merges, 0, pair)
			model["vocab"], model["merges"] = write(vocab), write(merges)
		case "model":
			var fields map[string]json.RawMessage
			read(part, &fields)
			maps.Copy(model, fields)
		default:
			doc[key] = part
		}
	}
	doc["model"] = write(model)
	return write(doc)
}

// variant is a line of testdata/variants.jsonl.
type variant struct {
	Name, Base string
	Patch      map[string]json.RawMessage
	Vectors    []struct {
		IDs         []int32 `json:"ids"`
		IDsSpecial  []int32 `json:"ids_special"`
		IDsPlain    []int32 `json:"ids_plain"`
		Decoded     *string
		DecodedSkip *string `json:"decoded_skip"`
	}
}

func variantTexts(t testing.TB) []string {
	t.Helper()
	var texts []string
	data, err := os.ReadFile("testdata/texts.json")
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	expect.OK(t, err)
	return texts
}

// TestVariants_AsHuggingFace compares every supported kind of tokenizer with Hugging Face's result for the same
// texts.
func TestVariants_AsHuggingFace(t *testing.T) {
	texts := variantTexts(t)
	expect.Lines(t, "testdata/variants.jsonl", func(_ int, v variant) {
		t.Run(v.Name, func(t *testing.T) {
			tok, err := Parse(patched(t, v.Base, v.Patch))
			expect.OK(t, err)
			if len(v.Vectors) != len(texts) {
				t.Fatalf("%d vectors for %d texts", len(v.Vectors), len(texts))
			}
			for i, text := range texts {
				want := v.Vectors[i]
				if want.IDsSpecial == nil {
					want.IDsSpecial = append(slices.Clone(tok.before), want.IDs...)
				}
				if want.IDsPlain == nil {
					want.IDsPlain = want.IDs
				}
				if want.Decoded == nil {
					want.Decoded = &text
				}
				if want.DecodedSkip == nil {
					want.DecodedSkip = want.Decoded
				}
				for _, test := range []struct {
					what string
					o    EncodeOptions
					want []int32
				}{
					{"as Hugging Face", EncodeOptions{Special: Everywhere}, want.IDs},
					{"with the template", EncodeOptions{Special: Everywhere, AddSpecial: true}, want.IDsSpecial},
					{"without special tokens", EncodeOptions{}, want.IDsPlain},
				} {
					got := tok.Encode(text, test.o)
					if !slices.Equal(got.IDs, test.want) {
						t.Errorf("%q, %s: ids\n%v, want\n%v", text, test.what, got.IDs, test.want)
					}
					checkTiling(t, text, got)
				}
				if got := tok.Decode(want.IDs, false); got != *want.Decoded {
					t.Errorf("%q: decoded %q, want %q", text, got, *want.Decoded)
				}
				if v.Name == "llama2, tokens normalized" {
					continue // an intended difference: see the package comment, and TestSkipNormalizedSpecial
				}
				if got := tok.Decode(want.IDs, true); got != *want.DecodedSkip {
					t.Errorf("%q: decoded without special tokens %q, want %q", text, got, *want.DecodedSkip)
				}
			}
		})
	})
}
