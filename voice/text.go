package voice

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is one word of a text. A word inside inline code is marked, because a name in the code is not a word of the
// voice.
type token struct {
	word       string // in lower case, with straight apostrophes
	code       bool
	start, end int // byte offsets in the text
}

// tokens splits text into words: runs of letters, digits and underscores, with apostrophes inside words. A hyphen
// separates words, so that "spoon-feed" and "spoon feed" are the same two words. tokens returns at most limit words, or
// all if limit is negative.
//
// Inline code runs from one group of backticks to the next on the same line. CommonMark matches groups by their length;
// this simpler rule keeps the scan linear on hostile text.
func tokens(text string, limit int) []token {
	var out []token
	if limit < 0 {
		out = make([]token, 0, len(text)/6)
	}
	codeEnd := 0
	for i := 0; i < len(text) && len(out) != limit; {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '`' {
			closes := i < codeEnd
			for size < len(text)-i && text[i+size] == '`' {
				size++
			}
			i += size
			if n := strings.IndexByte(text[i:], '`'); n >= 0 && !closes && !strings.Contains(text[i:i+n], "\n") {
				codeEnd = i + n + 1
			}
			continue
		}
		if !wordRune(r) {
			i += size
			continue
		}
		start := i
		for i < len(text) {
			r, size = utf8.DecodeRuneInString(text[i:])
			if isApostrophe(r) {
				next, _ := utf8.DecodeRuneInString(text[i+size:])
				if !unicode.IsLetter(next) {
					break
				}
			} else if !wordRune(r) {
				break
			}
			i += size
		}
		out = append(out, token{lower(text[start:i]), start < codeEnd, start, i})
	}
	return out
}

func wordRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' ||
		r >= utf8.RuneSelf && r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func isApostrophe(r rune) bool { return r == '\'' || r == '’' }

// lower returns a word in lower case, with straight apostrophes.
func lower(word string) string {
	word = strings.ToLower(word)
	if strings.Contains(word, "’") {
		word = strings.ReplaceAll(word, "’", "'")
	}
	return word
}

// A Text is the prose of a text, split into words.
type Text struct {
	prose string
	words []token
}

// Read returns the prose of a text (see Prose).
func Read(text string) Text {
	prose := Prose(text)
	return Text{prose, tokens(prose, -1)}
}

// Opener returns the key of the text's opener: its first two words in lower case, without punctuation or Markdown, so
// that "*Sigh.* Fine" and "sigh, fine" are the same opener. The key of a text of one word is that word.
func (t Text) Opener() string { return t.first(2) }

// FirstFive returns the text's first five words, in the form of Opener.
func (t Text) FirstFive() string { return t.first(5) }

func (t Text) first(n int) string {
	var words [5]string
	n = min(n, len(t.words))
	for i, w := range t.words[:n] {
		words[i] = w.word
	}
	return strings.Join(words[:n], " ")
}

// Prose returns a text without its fenced code blocks (see [Pieces]) and without lines that are only a placeholder such
// as [[CODE_1]]. It keeps inline code, which is part of a sentence.
func Prose(text string) string {
	var b strings.Builder
	for p := range Pieces(text) {
		for line := range strings.Lines(p.Text) {
			if !p.Code && !isPlaceholder(strings.TrimSpace(line)) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// isPlaceholder reports whether s is [[CODE_n]].
func isPlaceholder(s string) bool {
	s, a := strings.CutPrefix(s, "[[CODE_")
	s, b := strings.CutSuffix(s, "]]")
	if !a || !b || s == "" {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// Runs yields the runs of words of the text with nothing but white space between them, as their words in the form of
// Opener. Inline code belongs to no run.
func (t Text) Runs() iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var run []string
		for i, w := range t.words {
			if !w.code {
				run = append(run, w.word)
			}
			if i+1 < len(t.words) && !w.code && strings.TrimSpace(t.prose[w.end:t.words[i+1].start]) == "" {
				continue
			}
			if len(run) > 0 && !yield(run) {
				return
			}
			run = nil
		}
	}
}

// abbreviations are words after which a full stop does not end a sentence.
var abbreviations = []string{"e.g", "i.e", "etc", "vs", "cf", "Mr", "Mrs", "Dr"}

// Sentences returns the sentences of the text, each as its words in lower case with single spaces, so that equal ones
// can be counted. A sentence ends at a full stop, question mark, exclamation mark or ellipsis before white space, or at
// an empty line. It does not end at a full stop inside inline code or of an abbreviation such as "e.g.", or at an
// ellipsis before a lower-case word.
func (t Text) Sentences() []string {
	var out, words []string
	for i, w := range t.words {
		words = append(words, w.word)
		if i+1 < len(t.words) && !endsSentence(t.prose, w, t.words[i+1]) {
			continue
		}
		out = append(out, strings.Join(words, " "))
		words = words[:0]
	}
	return out
}

// endsSentence reports whether a sentence ends between the adjacent words a and b.
func endsSentence(prose string, a, b token) bool {
	gap := prose[a.end:b.start]
	if a.code {
		_, after, closed := strings.Cut(gap, "`")
		if !closed {
			return false
		}
		gap = after
	}
	if strings.Contains(gap, "\n\n") {
		return true
	}
	i := strings.IndexAny(gap, ".!?…")
	if i < 0 {
		return false
	}
	mark := gap[i:]
	rest := strings.TrimLeft(mark, ".!?…\"'”’)*_`")
	if rest == "" || !unicode.IsSpace(rune(rest[0])) {
		return false
	}
	if strings.HasPrefix(mark, "…") || strings.HasPrefix(mark, "...") {
		next, _ := utf8.DecodeRuneInString(prose[b.start:])
		return !unicode.IsLower(next)
	}
	if mark[0] == '.' && i == 0 {
		for _, short := range abbreviations {
			if before, ok := strings.CutSuffix(prose[:a.end], short); ok {
				last, _ := utf8.DecodeLastRuneInString(before)
				return wordRune(last)
			}
		}
	}
	return true
}

// Shingles returns a 64-bit hash (FNV-1a) of each run of n words of the text, in order and with repetitions. It returns
// none if the text has fewer than n words or n is less than 1.
func (t Text) Shingles(n int) []uint64 {
	if n < 1 || len(t.words) < n {
		return nil
	}
	out := make([]uint64, 0, len(t.words)-n+1)
	for i := range len(t.words) - n + 1 {
		h := uint64(fnvOffset)
		for _, w := range t.words[i : i+n] {
			h = fnv1a(h, w.word)
			h = (h ^ ' ') * fnvPrime // so that "ab c" and "a bc" differ
		}
		out = append(out, h)
	}
	return out
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}
