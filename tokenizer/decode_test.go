package tokenizer

import (
	"encoding/json"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestDecode_EveryToken compares every token, as the first of a text and as a later one, with what Hugging Face
// decoded, with every kind of decoder, as a whole and as it arrives (testdata/make_decodes.py).
func TestDecode_EveryToken(t *testing.T) {
	files := 0
	for line := range strings.Lines(string(testFile(t, "decodes.jsonl"))) {
		var recorded struct {
			File  json.RawMessage
			Texts [][2][]string // by id; with special tokens and without; by sequence
		}
		expect.OK(t, json.Unmarshal([]byte(line), &recorded))
		files++
		tok := mustParse(t, recorded.File)
		plain := int32(tok.VocabSize() - 4)
		special, other := plain, plain+2
		for id := range tok.MaxID() + 1 {
			for skip, texts := range recorded.Texts[id] {
				for i, ids := range [][]int32{{id}, {id, 0}, {0, id}, {id, id}, {special, id}, {id, special, id}, {other, id},
					{special, special, id, id, 0}} {
					if got := tok.Decode(ids, skip == 1); got != texts[i] {
						t.Errorf("file %d: ids %v, token %q: %q, want %q", files, ids, tok.Token(id), got, texts[i])
					}
					s, streamed := tok.Stream(skip == 1), ""
					for range 2 { // Flush starts over
						streamed = ""
						for _, id := range ids {
							streamed += s.Add(id)
						}
						streamed += s.Flush()
					}
					if streamed != texts[i] {
						t.Errorf("file %d: ids %v, token %q: streamed %q, want %q", files, ids, tok.Token(id), streamed, texts[i])
					}
				}
			}
		}
	}
	if files < 17 {
		t.Errorf("only %d files", files)
	}
}
