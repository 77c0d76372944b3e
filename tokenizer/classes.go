package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// Classes of characters, as bits. The sets are the same as in the engines that Hugging Face uses. Go's package
// unicode has another version of Unicode: \p{L}, \p{N} and \s follow Unicode 16.
const (
	letter  uint8 = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s, Unicode's white space, not ASCII's
	word                      // \w of Rust, around a single_word token
	numeric                   // a digit for Digits
	unsure                    // NFC may change it, or a character before it
)

type classTable [utf8.MaxRune + 1]uint8

// classes expands the generated ranges into one byte per code point, once.
var classes = sync.OnceValue(func() *classTable {
	t := new(classTable)
	for _, set := range []struct {
		class  uint8
		ranges []rune
	}{
		{space, tables()["spaces"]}, {word, tables()["words"]}, {numeric, tables()["numeric"]},
	} {
		for i := 0; i < len(set.ranges); i += 2 {
			t.mark(set.class, set.ranges[i], set.ranges[i+1])
		}
	}
	eachCategory(func(first, last rune, category int) {
		switch of := uint16(1) << category; {
		case of&categoryNames["L"] != 0:
			t.mark(letter, first, last)
		case of&categoryNames["N"] != 0:
			t.mark(number, first, last)
		}
	})
	markUnsure(t)
	return t
})

func (t *classTable) mark(class uint8, first, last rune) {
	for c := first; c <= last; c++ {
		t[c] |= class
	}
}

// at returns the class and the length in bytes of the character at s[i]. A byte that is not UTF-8 is a character
// without a class, and so is U+FFFD.
func (t *classTable) at(s string, i int) (class uint8, size int) {
	if c := s[i]; c < utf8.RuneSelf {
		return t[c], 1
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	return t[r], size
}

// run returns the end of the run of characters at s[i:] that have one of the classes in want.
func (t *classTable) run(s string, i int, want uint8) int {
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if t[c]&want == 0 {
				break
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if t[r]&want == 0 {
			break
		}
		i += size
	}
	return i
}

// runWithout returns the end of the run of characters at s[i:] that have none of the classes in without.
func (t *classTable) runWithout(s string, i int, without uint8) int {
	for i < len(s) {
		class, size := t.at(s, i)
		if class&without != 0 {
			break
		}
		i += size
	}
	return i
}

// runBack returns the start, not below limit, of the run of characters that ends at s[i] and have one of the classes in
// want.
func (t *classTable) runBack(s string, i, limit int, want uint8) int {
	for i > limit {
		r, size := utf8.DecodeLastRuneInString(s[limit:i])
		if t[r]&want == 0 {
			break
		}
		i -= size
	}
	return i
}
