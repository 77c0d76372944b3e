package parity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/chat"
	"restyle/tokenizer"
)

// compareClasses tests the tokenizer on every code point in the same way as the engines whose results are recorded: by
// its encoding of texts that contain the code point. A probe is a text of a character and the code point. If both are
// in one pre-token, a merge across them shows, and the first token is longer than the character.
func (f *folder) compareClasses(file string) error {
	j, err := f.values(file)
	if err != nil {
		return err
	}
	letters, numbers, others, err := f.pieces()
	if err != nil {
		return err
	}
	compare := func(name string, got []rune) {
		var want [][2]rune
		j.get(name, &want)
		f.compare("classes of characters", j.key(name), differ(slices.Equal(ranges(got), want)), exact)
	}
	compare("L", letters)
	compare("N", numbers)
	compare("s", without(without(without(all(), letters), numbers), others))

	word, err := added("single_word")
	if err != nil {
		return err
	}
	compare("added_word", word.where("cat%c", func(e tokenizer.Encoding,
		text string) bool {
		return e.IDs[0] != word.cat
	}))
	space, err := added("rstrip")
	if err != nil {
		return err
	}
	compare("added_space", space.where("cat%c", func(e tokenizer.Encoding, text string) bool {
		return len(e.IDs) == 1 &&
			e.IDs[0] == space.cat
	}))
	stripped, err := strips()
	if err != nil {
		return err
	}
	compare("strip", stripped)
	return f.compareFolds(j, letters)
}

// all returns the code points except surrogates.
func all() []rune {
	list := make([]rune, 0, utf8.MaxRune+1)
	for c := rune(0); c <= utf8.MaxRune; c++ {
		if utf8.ValidRune(c) {
			list = append(list, c)
		}
	}
	return list
}

// ranges returns the ranges [first, last] of ascending code points.
func ranges(list []rune) (r [][2]rune) {
	for _, c := range list {
		if n := len(r); n > 0 && r[n-1][1] == c-1 {
			r[n-1][1] = c
		} else {
			r = append(r, [2]rune{c, c})
		}
	}
	return r
}

// without returns the elements of a that are not in b. Both must be ascending.
func without(a, b []rune) (list []rune) {
	for _, c := range a {
		for len(b) > 0 && b[0] < c {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != c {
			list = append(list, c)
		}
	}
	return list
}

// both returns the elements that are in both a and b.
func both(a, b []rune) []rune { return without(a, without(a, b)) }

// A probe is a byte-level tokenizer for one test of all code points.
type probe struct {
	*tokenizer.Tokenizer
	cat int32 // the id of the added token "cat"
}

// where returns the code points for which is reports true of the text, made with format, and its encoding.
func (p probe) where(format string, is func(e tokenizer.Encoding, text string) bool) (list []rune) {
	const batch = 1 << 16
	every := all()
	for at := 0; at < len(every); at += batch {
		part := every[at:min(at+batch, len(every))]
		texts := make([]string, len(part))
		for i, c := range part {
			texts[i] = strings.Replace(format, "%c", string(c), 1)
		}
		for i, e := range p.EncodeBatch(texts, tokenizer.EncodeOptions{Special: tokenizer.Everywhere}) {
			if is(e, texts[i]) {
				list = append(list, part[i])
			}
		}
	}
	return list
}

// pieces returns the letters, the numbers, and what is neither of them nor white space: characters of the same class
// are in one pre-token.
func (f *folder) pieces() (letters, numbers, others []rune, err error) {
	for _, class := range []struct {
		first string
		list  *[]rune
	}{{"a", &letters}, {"1", &numbers}, {"!", &others}} {
		p, err := newProbe(tokenizer.GPT2Pattern, class.first, true, "")
		if err != nil {
			return nil, nil, nil, err
		}
		*class.list = p.where(class.first+"%c", func(e tokenizer.Encoding, text string) bool {
			return int(e.Ends[0]) > len(class.first)
		})
	}
	return letters, numbers, others, nil
}

// added returns a tokenizer with an added token "cat" that has a property.
func added(property string) (probe, error) {
	return newProbe(tokenizer.GPT2Pattern, "", false, property)
}

// newProbe returns a tokenizer that merges a character with every byte that may follow it or, if follows is false, come
// before it.
func newProbe(pattern, char string, follows bool, property string) (probe, error) {
	vocab := map[string]int{}
	for _, c := range alphabet() {
		vocab[c] = len(vocab)
	}
	merges := [][2]string{}
	if char != "" {
		for _, c := range alphabet() {
			pair := [2]string{char, c}
			if !follows {
				pair = [2]string{c, char}
			}
			if !follows && c == "'" {
				continue // as a contraction of the character itself it would be the first to merge
			}
			if joined := pair[0] + pair[1]; vocab[joined] == 0 {
				vocab[joined] = len(vocab)
				merges = append(merges, pair)
			}
		}
	}
	tok, err := byteLevel(pattern, vocab, merges, property)
	return probe{tok, int32(len(vocab))}, err
}

// byteLevel returns a byte-level tokenizer that encodes words in its vocabulary as one token. If property is not empty,
// it has an added token "cat" with that property.
func byteLevel(pattern string, vocab map[string]int, merges [][2]string, property string) (*tokenizer.Tokenizer,
	error) {
	if merges == nil {
		merges = [][2]string{}
	}
	object := map[string]any{
		"version": "1.0",
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": true},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]string{"Regex": pattern}, "behavior": "Isolated",
				"invert": false},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}},
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
	}
	if property != "" {
		token := map[string]any{"id": len(vocab), "content": "cat", "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": false}
		token[property] = true
		object["added_tokens"] = []any{token}
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("a tokenizer for asking: %w", err)
	}
	return tok, nil
}

// alphabet returns the 256 characters that represent bytes in byte-level vocabularies, in the order of the bytes:
// printable ones represent themselves, the others are from U+0100 on.
func alphabet() (list []string) {
	next := rune(256)
	for b := range rune(256) {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b && b <= 0xFF {
			list = append(list, string(b))
			continue
		}
		list = append(list, string(next))
		next++
	}
	return list
}

// strips returns the code points that a chat template's trim removes. Each is tested at the end of a message.
func strips() ([]rune, error) {
	family, err := chat.ByName("llama3")
	if err != nil {
		return nil, err
	}
	var list []rune
	for some := range slices.Chunk(all(), 10_000) {
		messages := make([]chat.Message, len(some))
		for i, c := range some {
			messages[i] = chat.Message{Role: "user", Content: "x" + string(c)}
		}
		r, err := family.Render(messages, chat.Options{})
		if err != nil {
			return nil, err
		}
		for i, c := range some {
			if s := r.Contents[i]; s.End-s.Start == 1 {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// compareFolds compares which code points make a contraction such as 's, whatever their case. A word starts again after
// a contraction: in "'sa" the a is a pre-token of its own.
func (f *folder) compareFolds(j *values, letters []rune) error {
	p, err := newProbe(tokenizer.Llama3Pattern, "a", false, "")
	if err != nil {
		return err
	}
	folds := map[string][]rune{}
	for _, path := range []string{"s", "t", "r", "e", "v", "m", "l", "d"} {
		var list []rune
		j.get("fold."+path, &list)
		folds[path] = list
	}
	// One format tests all letters that occur at the same place of several contractions.
	for _, probe := range []struct{ format, letters string }{
		{"'%ca", "stmd"}, {"'%cea", "rv"}, {"'r%ca", "e"}, {"'%cla", "l"}, {"'l%ca", "l"},
	} {
		var want []rune
		for _, letter := range probe.letters {
			want = append(want, folds[string(letter)]...)
		}
		slices.Sort(want)
		// Anything but a letter ends a word anyway.
		got := both(letters, p.where(probe.format, func(e tokenizer.Encoding, text string) bool {
			return len(e.Ends) > 1 && int(e.Ends[len(e.Ends)-2]) == len(text)-1
		}))
		for _, letter := range probe.letters {
			f.compare("letters of contractions", j.key("fold."+string(letter)), differ(slices.Equal(got, want)), exact)
		}
	}
	return nil
}
