package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// Hangul syllables compose and decompose by arithmetic (Unicode, section 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7
	countL, countV, countT             = 19, 21, 28
	countS                             = countL * countV * countT
)

// composition holds the generated tables in a form for lookups.
type composition struct {
	parts map[rune][2]rune // one step of the canonical decomposition; the second is 0 if there is only one
	whole map[[2]rune]rune
	marks map[rune]uint8 // canonical combining classes other than 0
}

var compositions = sync.OnceValue(func() *composition {
	decompositions := tables()["decompositions"]
	c := &composition{
		parts: make(map[rune][2]rune, len(decompositions)/3),
		whole: make(map[[2]rune]rune, len(decompositions)/3),
		marks: make(map[rune]uint8, 1024),
	}
	for d := range slices.Chunk(decompositions, 3) {
		char, pair := d[0], [2]rune{d[1], d[2]}
		c.parts[char] = pair
		if pair[1] != 0 {
			c.whole[pair] = char
		}
	}
	for _, char := range tables()["apart"] {
		delete(c.whole, c.parts[char])
	}
	for marks := range slices.Chunk(tables()["marks"], 3) {
		for char := marks[0]; char <= marks[1]; char++ {
			c.marks[char] = uint8(marks[2])
		}
	}
	return c
})

// markUnsure marks every character that NFC may replace, move, or join to the one before it. Text without them is in
// NFC, and NFC never joins anything to a character before one that is not marked.
func markUnsure(t *classTable) {
	for d := range slices.Chunk(tables()["decompositions"], 3) {
		char, second := d[0], d[2]
		if second == 0 || slices.Contains(tables()["apart"], char) {
			t[char] |= unsure
		}
		if second != 0 {
			t[second] |= unsure
		}
	}
	for marks := range slices.Chunk(tables()["marks"], 3) {
		t.mark(unsure, marks[0], marks[1])
	}
	t.mark(unsure, hangulV, hangulV+countV-1)
	t.mark(unsure, hangulT+1, hangulT+countT-1)
}

// nfc brings text into Unicode's normalization form C of an old Unicode version (before 13), as Hugging Face's engine
// does.
func nfc(s stretch) stretch {
	table := classes()
	first := 0
	for first < len(s.text) {
		class, size := table.at(s.text, first)
		if class&unsure != 0 {
			break
		}
		first += size
	}
	if first == len(s.text) {
		return s
	}
	out := newRewriting(s)
	var work []rune
	for i := 0; i < len(s.text); {
		// One character and the unsure ones after it: only these can interact with it.
		char, size := utf8.DecodeRuneInString(s.text[i:])
		end := i + size
		if char != utf8.RuneError || size > 1 { // keep a byte that is not UTF-8
			end = table.run(s.text, end, unsure)
		}
		if end > i+size || table[char]&unsure != 0 {
			work = compose(work[:0], s.text[i:end])
			out.replace(end, string(work))
		} else {
			out.keep(end)
		}
		i = end
	}
	return out.done()
}

// compose appends the normalization form C of text to out: decompose, order the marks, compose.
func compose(out []rune, text string) []rune {
	c := compositions()
	for _, char := range text {
		out = c.decompose(out, char)
	}
	for i := 0; i < len(out); i++ {
		from := i
		for i < len(out) && c.marks[out[i]] != 0 {
			i++
		}
		slices.SortStableFunc(out[from:i], func(a, b rune) int { return int(c.marks[a]) - int(c.marks[b]) })
	}
	starter, last, n := -1, uint8(0), 0
	for _, char := range out {
		class := c.marks[char]
		// A mark reaches the starter unless one of its own class or a higher one, or another starter, is in between.
		if starter >= 0 && (starter == n-1 || last < class) {
			if whole, ok := c.join(out[starter], char); ok {
				out[starter] = whole
				continue
			}
		}
		if class == 0 {
			starter = n
		}
		last = class
		out[n] = char
		n++
	}
	return out[:n]
}

func (c *composition) decompose(out []rune, char rune) []rune {
	if s := char - hangulS; 0 <= s && s < countS {
		out = append(out, hangulL+s/(countV*countT), hangulV+s%(countV*countT)/countT)
		if s%countT != 0 {
			out = append(out, hangulT+s%countT)
		}
		return out
	}
	pair, ok := c.parts[char]
	if !ok {
		return append(out, char)
	}
	out = c.decompose(out, pair[0])
	if pair[1] != 0 {
		out = append(out, pair[1])
	}
	return out
}

func (c *composition) join(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; 0 <= l && l < countL && 0 <= v && v < countV {
		return hangulS + (l*countV+v)*countT, true
	}
	if s, t := a-hangulS, b-hangulT; 0 <= s && s < countS && s%countT == 0 && 0 < t && t < countT {
		return a + t, true
	}
	whole, ok := c.whole[[2]rune{a, b}]
	return whole, ok
}
