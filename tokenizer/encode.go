package tokenizer

import (
	"fmt"
	"math"
	"sort"
)

// A Span is the bytes [Start, End) of a text.
type Span struct{ Start, End int }

// Everywhere recognizes special tokens in the whole text, as Hugging Face does by default. Do not use it for text that
// a user or a dataset controls: that could end its own turn.
var Everywhere = []Span{{0, math.MaxInt}}

// EncodeOptions configure Encode. The zero value recognizes and adds no special tokens.
type EncodeOptions struct {
	// AddSpecial adds what the file's post-processor adds to a text, such as <|begin_of_text|> in front.
	AddSpecial bool

	// Special lists the parts of the text, ascending and without overlap, in which special tokens are recognized.
	// Elsewhere their spelling is ordinary text. A token must be within one part. Added tokens that are not special are
	// always recognized, as in Hugging Face.
	Special []Span
}

// An Encoding is a text as tokens. Token i represents the bytes from the end of token i-1 (0 for the first) to
// Ends[i], so the tokens tile the text. Tokens that were added to the text represent no bytes. If a normalizer has
// replaced a character and the replacement becomes several tokens, the first of them has all bytes of the character.
type Encoding struct {
	IDs  []int32
	Ends []int32
}

// Tokens returns the range [first, end) of tokens that contain the bytes of a span, from the token of its first byte
// to the token of its last. For an empty span first equals end.
func (e Encoding) Tokens(s Span) (first, end int) {
	find := func(end int) int { return sort.Search(len(e.Ends), func(i int) bool { return int(e.Ends[i]) >= end }) }
	first = find(s.Start + 1)
	if s.End <= s.Start {
		return first, first
	}
	return first, min(find(s.End)+1, len(e.Ends))
}

// Encode encodes a text. The text should be UTF-8; for other bytes see the package comment. Encode panics if the text
// has 2 GiB or more, or if spans do not ascend.
func (t *Tokenizer) Encode(text string, o EncodeOptions) Encoding {
	if len(text) > math.MaxInt32 {
		panic(fmt.Sprintf("tokenizer: a text of %d bytes: encode it in parts below 2 GiB", len(text)))
	}
	e := t.encoder()
	defer t.release(e)
	e.ids, e.ends = make([]int32, 0, len(text)/3+4), make([]int32, 0, len(text)/3+4)
	if o.AddSpecial {
		e.add(t.before, 0)
	}
	if len(o.Special) == 1 && o.Special[0].Start <= 0 && o.Special[0].End >= len(text) {
		t.encodePart(e, text, 0, true)
	} else {
		done, last := 0, 0
		for _, span := range o.Special {
			if span.Start < last || span.End < span.Start {
				panic(fmt.Sprintf("tokenizer: Special has [%d, %d) after a span that ends at %d: spans must ascend", span.Start,
					span.End, last))
			}
			last = span.End
			from, to := min(span.Start, len(text)), min(span.End, len(text))
			for _, c := range t.specials.cuts(nil, text[from:to], true) {
				t.encodePart(e, text[done:max(done, from+c.from)], done, false)
				done = max(done, from+c.to)
				e.add([]int32{c.id}, done)
			}
		}
		t.encodePart(e, text[done:], done, false)
	}
	if o.AddSpecial {
		e.add(t.after, len(text))
	}
	return Encoding{e.ids, e.ends}
}

// encodePart encodes a text, or the part from base between special tokens.
func (t *Tokenizer) encodePart(e *encoder, text string, base int, specials bool) {
	e.cuts[0] = t.raw.cuts(e.cuts[0][:0], text, specials)
	done := 0
	for _, c := range e.cuts[0] {
		if done < c.from {
			t.encodeRaw(e, stretch{text: text[done:c.from], base: base + done}, specials)
		}
		e.add([]int32{c.id}, base+c.to)
		done = c.to
	}
	if done < len(text) {
		t.encodeRaw(e, stretch{text: text[done:], base: base + done}, specials)
	}
}

// encodeRaw normalizes a stretch and encodes it.
func (t *Tokenizer) encodeRaw(e *encoder, s stretch, specials bool) {
	for _, f := range t.normalizer {
		s = f(s)
	}
	e.cuts[1] = t.normalized.cuts(e.cuts[1][:0], s.text, specials)
	done := 0
	for _, c := range e.cuts[1] {
		if done < c.from {
			t.encodeNormalized(e, s.cut(done, c.from))
		}
		e.add([]int32{c.id}, s.end(c.to))
		done = c.to
	}
	if done < len(s.text) {
		t.encodeNormalized(e, s.cut(done, len(s.text)))
	}
}

// encodeNormalized splits a stretch without added tokens into words and encodes them.
func (t *Tokenizer) encodeNormalized(e *encoder, s stretch) {
	for _, f := range t.preparation {
		s = f(s)
	}
	first := len(e.ids)
	t.encodeWords(e, s.text, 0, len(s.text), s.base, t.splits)
	if s.origin != nil {
		for i := first; i < len(e.ends); i++ {
			e.ends[i] = int32(s.origin[e.ends[i]])
		}
	}
	e.settle(first)
}

// encodeWords splits text[from:to] by each of the splitters in turn and encodes the words.
func (t *Tokenizer) encodeWords(e *encoder, text string, from, to, base int, splits []splitter) {
	if len(splits) == 0 {
		e.encodeWord(text, from, to, base)
		return
	}
	for from < to {
		n := splits[0](t.classes, text[from:to])
		if len(splits) == 1 {
			e.encodeWord(text, from, from+n, base)
		} else {
			t.encodeWords(e, text, from, from+n, base, splits[1:])
		}
		from += n
	}
}

// add appends tokens that end at a byte of the text.
func (e *encoder) add(ids []int32, end int) {
	first := len(e.ids)
	e.ids = append(e.ids, ids...)
	for range ids {
		e.ends = append(e.ends, int32(end))
	}
	e.settle(first)
}

// settle keeps the ends ascending if a token includes white space that another also includes (see matcher.cuts).
func (e *encoder) settle(first int) {
	if first == 0 {
		return
	}
	last := e.ends[first-1]
	for i := first; i < len(e.ends) && e.ends[i] < last; i++ {
		e.ends[i] = last
	}
}

// encoder returns an encoder that no other goroutine uses.
func (t *Tokenizer) encoder() *encoder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		e := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return e
	}
	return &encoder{merger: merger{bpe: &t.model, vocab: &t.vocab}, cache: make([][2]wordSlot, 1<<cacheBits)}
}

// release makes an encoder available for the next text. It frees memory that a very long word needed.
func (t *Tokenizer) release(e *encoder) {
	e.ids, e.ends = nil, nil
	if cap(e.symbols) > 1<<16 {
		e.symbols, e.heap = nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, e)
}
