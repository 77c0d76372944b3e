package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestCharacters makes a vocabulary of characters of one to four bytes, among them line ends and a space: ids are in
// the order of code points, every text of these characters comes back, and any other character is missing.
func TestCharacters(t *testing.T) {
	texts := []string{"b\r\n“a ä", "😀ab\n"}
	file, err := Characters(slices.Values(texts))
	expect.OK(t, err)
	tok := mustParse(t, file)
	const all = "\n\r abä“😀"
	got := tok.Encode(all, EncodeOptions{AddSpecial: true}).IDs
	if want := []int32{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(got, want) || tok.VocabSize() != len(want) {
		t.Errorf("the ids of %q are %v of %d, want %v", all, got, tok.VocabSize(), want)
	}
	for _, text := range texts {
		ids := tok.Encode(text, EncodeOptions{}).IDs
		if back := tok.Decode(ids, false); back != text || len(ids) != len([]rune(text)) {
			t.Errorf("%q became %v and then %q", text, ids, back)
		}
		if err := tok.CheckText(text); err != nil {
			t.Error(err)
		}
	}
	const want = "line 3: character 'é' (U+00E9): it is not in the vocabulary of the model, which has 8 tokens"
	if err := tok.CheckText("a\nb\nbéa\na"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	for text, want := range map[string]string{"": "the texts have 0 different ones",
		"a\n\uFFFD\xff": "not valid UTF-8: line 2 has the byte 0xff"} {
		if _, err := Characters(slices.Values([]string{text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestCharacters_NothingIsMissing checks that no character is missing from a vocabulary with all bytes or with an
// unknown token.
func TestCharacters_NothingIsMissing(t *testing.T) {
	bytes, err := Train(slices.Values([]string{"ab"}), TrainOptions{VocabSize: 256})
	expect.OK(t, err)
	for _, file := range []string{string(bytes),
		`{"decoder":{"type":"Fuse"},"model":{"unk_token":"u","vocab":{"u":0,"a":1},"merges":[]}}`} {
		if r, missing := mustParse(t, []byte(file)).Missing("aé😀"); missing {
			t.Errorf("%q is missing", r)
		}
	}
}
