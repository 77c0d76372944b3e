package tokenizer

import "strings"

// A stretch is the text between added tokens, as the normalizer and the pre-tokenizers have left it.
type stretch struct {
	text string
	// origin[i] is the byte of the caller's text at which the i bytes text[:i] end. If it is nil the text is unchanged,
	// and that byte is base+i. Otherwise base is 0.
	origin []int
	base   int
}

// start returns the byte of the caller's text at which the stretch starts.
func (s stretch) start() int {
	if s.origin != nil {
		return s.origin[0]
	}
	return s.base
}

// end returns the byte of the caller's text at which text[:i] ends.
func (s stretch) end(i int) int {
	if s.origin != nil {
		return s.origin[i]
	}
	return s.base + i
}

// cut returns the part [from, to) of a stretch.
func (s stretch) cut(from, to int) stretch {
	if s.origin != nil {
		return stretch{text: s.text[from:to], origin: s.origin[from : to+1]}
	}
	return stretch{text: s.text[from:to], base: s.base + from}
}

// A rewrite changes the text of a stretch. A replacement represents, all of it, what it replaced. An addition
// represents nothing.
type rewrite func(stretch) stretch

// rewriting builds the result of a rewrite.
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

// replace replaces the text up to end, unless it is the same.
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

// prepend puts text before every stretch that is not empty.
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

// replaceAll replaces every occurrence of one text by another.
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

// metaspace writes mark for a space, and adds one before a stretch that does not start with it: before every stretch
// (always), before the one at the start of the text (first), or never.
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
