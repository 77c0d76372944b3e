package teacher

import "strings"

// A wordIndex finds, in one pass over a text, which of several lists have a word in it. Words have at least two
// bytes.
type wordIndex [1 << 10][]listed

// A listed word is indexed by its first two bytes.
type listed struct {
	word string
	list uint8 // the bit of its list
}

// pair returns the index of a word: its first two bytes, without the bits in which capitals differ.
func pair(text string) int { return int(text[0]&31)<<5 | int(text[1]&31) }

// indexWords returns the index of lists. The bit of the first list is 1, of the second 2, and so on.
func indexWords(lists ...[]string) *wordIndex {
	x := new(wordIndex)
	for i, words := range lists {
		for _, w := range words {
			x[pair(w)] = append(x[pair(w)], listed{w, 1 << i})
		}
	}
	return x
}

// in returns the bits of the lists that have a word anywhere in text.
func (x *wordIndex) in(text string) (lists uint8) {
	for ; len(text) > 1; text = text[1:] {
		for _, w := range x[pair(text)] {
			if lists&w.list == 0 && strings.HasPrefix(text, w.word) {
				lists |= w.list
			}
		}
	}
	return lists
}
