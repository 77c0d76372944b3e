package tokenizer

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Characters makes a vocabulary of the characters of texts and returns it as a tokenizer.json, for [Parse] and for
// Hugging Face: a BPE without merges, whose ids are the characters in the order of their code points. There are no
// special tokens. A character of any other text is not in it: see [Tokenizer.Missing].
func Characters(texts iter.Seq[string]) ([]byte, error) {
	found := map[rune]bool{}
	for text := range texts {
		for i, r := range text {
			if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
				return nil, fmt.Errorf("make a vocabulary of characters: a text is not valid UTF-8: line %d has the "+
					"byte 0x%02x: convert it", 1+strings.Count(text[:i], "\n"), text[i])
			}
			found[r] = true
		}
	}
	if len(found) == 0 || len(found) > maxID {
		return nil, fmt.Errorf("make a vocabulary of characters: the texts have %d different ones: must be 1 to %d",
			len(found), maxID)
	}
	var tokens []string
	for _, r := range slices.Sorted(maps.Keys(found)) {
		tokens = append(tokens, string(r))
	}
	return writeTokenizer(tokens, nil, TrainOptions{}, layout{decoder: object{"type": "Fuse"},
		spell: func(token string) string { return token }})
}

// Missing returns the first character of a text that Encode would drop, because neither the vocabulary nor an unknown
// token represents it.
func (t *Tokenizer) Missing(text string) (r rune, missing bool) {
	if t.model.unknown >= 0 || t.model.byteFallback || t.byteLevel {
		return 0, false
	}
	seen := map[rune]bool{}
	for _, r := range text {
		if !seen[r] && len(t.Encode(string(r), EncodeOptions{}).IDs) == 0 {
			return r, true
		}
		seen[r] = true
	}
	return 0, false
}

// CheckText returns an error that names the first character of a text that Missing finds, and its line.
func (t *Tokenizer) CheckText(text string) error {
	r, missing := t.Missing(text)
	if !missing {
		return nil
	}
	line := 1
	for _, c := range text {
		if c == r {
			break
		}
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("line %d: character %q (%U): it is not in the vocabulary of the model, which has %d tokens: leave "+
		"it out, or make the vocabulary from this text, too", line, r, r, t.VocabSize())
}
