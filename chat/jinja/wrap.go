package jinja

import (
	"slices"
	"strings"
	"unicode"
)

// wordwrap wraps each line as Python's textwrap does: it breaks at white space and after hyphens, and breaks words
// that are longer than a line.
func wordwrap(in *interp, a *args) any {
	has := a.want("wordwrap", 1, "s", "width", "break_long_words", "wrapstring", "break_on_hyphens")
	w := wrapper{in: in, width: 79, long: !has[2] || truth(a.list[2]), hyphens: !has[4] || truth(a.list[4])}
	if has[1] {
		w.width = toInt(a.list[1])
	}
	if w.width < 1 {
		fail("wordwrap wants a width of at least 1")
	}
	end := own("\n")
	if has[3] && a.list[3] != nil {
		end = toStr(a.list[3])
	}
	b := builder{in: in}
	for i, line := range in.lines(toStr(a.list[0]), false) {
		if i > 0 {
			b.add(end)
		}
		for j, part := range w.wrap(line.(Str)) {
			if j > 0 {
				b.add(end)
			}
			b.add(part)
		}
	}
	return b.str()
}

type wrapper struct {
	in            *interp
	width         int
	long, hyphens bool // break long words, and after hyphens
}

// wrap breaks a line. White space where it breaks is dropped.
func (w wrapper) wrap(line Str) (lines []Str) {
	w.in.spend(slowly * len(line.s))
	text := []rune(line.s)
	at := w.in.points(line.s)
	chunks := w.chunks(text)
	slices.Reverse(chunks) // so that the next one is the last
	for len(chunks) > 0 {
		w.in.step(1)
		if len(lines) > 0 && w.isBlank(text, chunks[len(chunks)-1]) {
			chunks = chunks[:len(chunks)-1]
		}
		var taken [][2]int
		room := w.width
		for len(chunks) > 0 && size(chunks[len(chunks)-1]) <= room {
			w.in.step(1)
			next := chunks[len(chunks)-1]
			taken, chunks, room = append(taken, next), chunks[:len(chunks)-1], room-size(next)
		}
		if n := len(chunks); n > 0 && size(chunks[n-1]) > w.width {
			switch next := &chunks[n-1]; {
			case w.long:
				end := next[0] + room
				if hyphen := lastHyphen(text[next[0]:min(end, next[1])]); w.hyphens && hyphen > 0 {
					end = next[0] + hyphen + 1
				}
				taken = append(taken, [2]int{next[0], end})
				next[0] = end
			case len(taken) == 0:
				taken, chunks = append(taken, *next), chunks[:n-1]
			}
		}
		if n := len(taken); n > 0 && w.isBlank(text, taken[n-1]) {
			taken = taken[:n-1]
		}
		if n := len(taken); n > 0 {
			w.in.spend(2 * valueBytes)
			lines = append(lines, line.cut(at[taken[0][0]], at[taken[n-1][1]]))
		}
	}
	return lines
}

func size(chunk [2]int) int { return chunk[1] - chunk[0] }

func (w wrapper) isBlank(text []rune, chunk [2]int) bool {
	w.in.pay(size(chunk))
	return !slices.ContainsFunc(text[chunk[0]:chunk[1]], func(r rune) bool { return !IsSpace(r) })
}

// lastHyphen returns the index of the last hyphen that has something else before it, or -1.
func lastHyphen(text []rune) int {
	for i := len(text) - 1; i > 0; i-- {
		if text[i] == '-' {
			if slices.ContainsFunc(text[:i], func(r rune) bool { return r != '-' }) {
				return i
			}
			return -1
		}
	}
	return -1
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' }

// isLetter is [^\d\W] of Python.
func isLetter(r rune) bool { return isWord(r) && !unicode.Is(unicode.Nd, r) }

func isWordOrPunctuation(r rune) bool { return isWord(r) || strings.ContainsRune(`!"'&.,?`, r) }

func isWrapSpace(r rune) bool { return strings.ContainsRune("\t\n\v\f\r ", r) }

// chunks cuts a text into parts that are not broken: white space, words, parts of words that end with a hyphen, and
// dashes.
func (w wrapper) chunks(text []rune) (chunks [][2]int) {
	is := func(f func(rune) bool, i int) bool { return i >= 0 && i < len(text) && f(text[i]) }
	hyphen := func(r rune) bool { return r == '-' }
	// dashes returns the end of at least two hyphens between words, or 0.
	dashes := func(i int) int {
		if !is(hyphen, i) || !is(isWordOrPunctuation, i-1) {
			return 0
		}
		end := i
		for is(hyphen, end) {
			end++
		}
		if end-i < 2 || !is(isWord, end) {
			return 0
		}
		return end
	}
	// inside reports whether the hyphen at i is in a word: two letters before it, perhaps with a hyphen in between,
	// and two after it.
	inside := func(i int) bool {
		before := is(isLetter, i-2) && is(isLetter, i-1) || is(isLetter, i-3) && is(hyphen, i-2) && is(isLetter, i-1)
		behind := is(isLetter, i+1) && (is(isLetter, i+2) || is(hyphen, i+2) && is(isLetter, i+3))
		return before && behind
	}
	for i := 0; i < len(text); {
		w.in.step(1)
		end := i + 1
		switch d := 0; {
		case isWrapSpace(text[i]):
			for is(isWrapSpace, end) {
				end++
			}
		case !w.hyphens:
			for end < len(text) && !isWrapSpace(text[end]) {
				end++
			}
		default:
			if d = dashes(i); d > 0 {
				end = d
				break
			}
			for end < len(text) && !isWrapSpace(text[end]) && dashes(end) == 0 {
				if text[end] == '-' && inside(end) {
					end++
					break
				}
				end++
			}
		}
		chunks = append(chunks, [2]int{i, end})
		i = end
	}
	return chunks
}
