package teacher

import "strings"

// A wordIndex finds which of several lists of words a text has a word of, in one pass over the text. Words have two bytes or
// more.
type wordIndex [1 << 10][]listed

// A listed word stands under its first two bytes.
type listed struct {
	word string
	list uint8 // the bit of its list
}

func pair(text string) int { return int(text[0]&31)<<5 | int(text[1]&31) }

// indexWords returns the index of lists; the bit of the first is 1, of the next 2, and so on.
func indexWords(lists ...[]string) *wordIndex {
	x := new(wordIndex)
	for i, words := range lists {
		for _, w := range words {
			x[pair(w)] = append(x[pair(w)], listed{w, 1 << i})
		}
	}
	return x
}

// in returns the bits of the lists that text has a word of, anywhere.
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
