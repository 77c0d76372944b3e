package tokenizer

import "strings"

// A stretch is a piece of the text between added tokens, as the normalizer and the pre-tokenizers have left it.
type stretch struct {
	text string
	// origin[i] is the byte of the caller's text at which the i bytes text[:i] end; nil when the text is unchanged, and
	// then it is base+i.
	origin []int
	base   int
}

// start is the byte of the caller's text where the stretch begins.
func (s stretch) start() int {
	if s.origin != nil {
		return s.origin[0]
	}
	return s.base
}

// end is the byte of the caller's text at which text[:i] ends.
func (s stretch) end(i int) int {
	if s.origin != nil {
		return s.origin[i]
	}
	return s.base + i
}

// cut is the part [from, to) of a stretch.
func (s stretch) cut(from, to int) stretch {
	if s.origin != nil {
		return stretch{text: s.text[from:to], origin: s.origin[from : to+1]}
	}
	return stretch{text: s.text[from:to], base: s.base + from}
}

// A rewrite changes the text of a stretch. What it puts in place of something stands, all of it, for what it replaced;
// what it adds stands for nothing.
type rewrite func(stretch) stretch

// rewriting builds the stretch that a rewrite returns.
type rewriting struct {
	from   stretch
	at     int // how much of from.text is done
	text   strings.Builder
	origin []int
}

func newRewriting(s stretch) *rewriting {
	w := &rewriting{from: s, origin: make([]int, 1, len(s.text)+len(s.text)/4+8)}
	w.text.Grow(cap(w.origin))
	w.origin[0] = s.start()
	return w
}

// keep copies the text up to end.
func (w *rewriting) keep(end int) {
	w.text.WriteString(w.from.text[w.at:end])
	for i := w.at + 1; i <= end; i++ {
		w.origin = append(w.origin, w.from.end(i))
	}
	w.at = end
}

// replace puts text in place of what stands up to end, unless it is the same.
func (w *rewriting) replace(end int, text string) {
	if text == w.from.text[w.at:end] {
		w.keep(end)
		return
	}
	w.text.WriteString(text)
	origin := w.from.end(end)
	for range len(text) {
		w.origin = append(w.origin, origin)
	}
	w.at = end
}

func (w *rewriting) done() stretch {
	w.keep(len(w.from.text))
	return stretch{text: w.text.String(), origin: w.origin}
}

// prepend puts text in front of every stretch that is not empty.
func prepend(text string) rewrite {
	return func(s stretch) stretch {
		if s.text == "" {
			return s
		}
		w := newRewriting(s)
		w.replace(0, text)
		return w.done()
	}
}

// replaceAll puts another text in place of every occurrence of one.
func replaceAll(old, text string) rewrite {
	return func(s stretch) stretch {
		if !strings.Contains(s.text, old) {
			return s
		}
		w := newRewriting(s)
		for {
			n := strings.Index(s.text[w.at:], old)
			if n < 0 {
				return w.done()
			}
			w.keep(w.at + n)
			w.replace(w.at+len(old), text)
		}
	}
}

// metaspace writes mark for a space, and one more in front of a stretch that does not begin with it: of every one
// (always), of the one that the text begins with (first), or of none (never).
func metaspace(mark, scheme string) rewrite {
	spaces, front := replaceAll(" ", mark), prepend(mark)
	return func(s stretch) stretch {
		s = spaces(s)
		if !strings.HasPrefix(s.text, mark) && (scheme == "always" || scheme == "first" && s.start() == 0) {
			s = front(s)
		}
		return s
	}
}
