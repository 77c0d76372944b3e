package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A regex is a split pattern that split.go does not implement by hand, in the part of Oniguruma's syntax that published
// patterns use: alternatives of characters, classes and (?i:'s|'t|'re|'ve|'m|'ll|'d), with greedy quantifiers, and
// (?!\S) at an end. Classes are [...], also nested, \s, and \p of the categories in categoryNames. As in Oniguruma, the
// first alternative that matches is taken, not the longest.
type regex struct {
	sets         *charSets
	alternatives [][]atom
}

// An atom is one element of an alternative with its quantifier.
type atom struct {
	set         uint16 // the bit of its class
	char        rune   // if it is one character; 0 for a class
	contraction bool   // (?i:'s|'t|'re|'ve|'m|'ll|'d)
	notBefore   bool   // (?!\S)
	possessive  bool   // it gives nothing back
	min, max    int
}

const unbounded = math.MaxInt

// charSets are the character classes of the patterns of a tokenizer, each a bit of a code point's element.
type charSets struct {
	byText map[string]uint16
	table  *[utf8.MaxRune + 1]uint16
	// alphabet is the table of the bytes that ByteLevel has written as characters, one for each, for patterns after it.
	alphabet *[256]uint16
	space    uint16 // the bit of \s
	// alternatives is the number of alternatives in all patterns: each may be tried at every character of a text.
	alternatives int
}

func newCharSets() *charSets {
	s := &charSets{byText: map[string]uint16{}, table: new([utf8.MaxRune + 1]uint16)}
	s.space, _ = s.add(`\s`, class{ranges: tables()["spaces"]})
	return s
}

// class is a set of characters: of ranges, first and last of each, and of categories.
type class struct {
	ranges     []rune
	categories uint16 // bits by category
	negated    bool
}

// each yields every character of the ranges once, however often and in whatever order the ranges have it.
func (c class) each() iter.Seq[rune] {
	return func(yield func(rune) bool) {
		ranges := slices.SortedFunc(slices.Chunk(c.ranges, 2), func(a, b []rune) int { return cmp.Compare(a[0], b[0]) })
		next := rune(0)
		for _, r := range ranges {
			for next = max(next, r[0]); next <= r[1]; next++ {
				if !yield(next) {
					return
				}
			}
		}
	}
}

// add returns the bit of a class, whose text is its key.
func (s *charSets) add(text string, c class) (bit uint16, err error) {
	if bit, known := s.byText[text]; known {
		return bit, nil
	}
	if len(s.byText) == 16 {
		return 0, errors.New("more than 16 classes of characters")
	}
	bit = 1 << len(s.byText)
	s.byText[text] = bit
	for r := range c.each() {
		s.table[r] |= bit
	}
	if c.categories != 0 {
		eachCategory(func(first, last rune, category int) {
			for r := first; r <= last && c.categories>>category&1 == 1; r++ {
				s.table[r] |= bit
			}
		})
	}
	if c.negated {
		for r := range s.table {
			s.table[r] ^= bit
		}
	}
	return bit, nil
}

// ofBytes returns the same sets for text after ByteLevel, whose characters represent bytes.
func (s *charSets) ofBytes() *charSets {
	after := *s
	after.alphabet = new([256]uint16)
	for b, char := range alphabet().char {
		after.alphabet[b] = s.table[char]
	}
	return &after
}

// at returns the character at text[i], with its sets and its length in bytes.
func (s *charSets) at(text string, i int) (char rune, sets uint16, size int) {
	if s.alphabet != nil {
		return alphabet().char[text[i]], s.alphabet[text[i]], 1
	}
	char, size = rune(text[i]), 1
	if char >= utf8.RuneSelf {
		char, size = utf8.DecodeRuneInString(text[i:])
	}
	return char, s.table[char], size
}

// before returns the start of the character that ends at text[i].
func (s *charSets) before(text string, i int) int {
	if s.alphabet != nil {
		return i - 1
	}
	_, size := utf8.DecodeLastRuneInString(text[:i])
	return i - size
}

// split is a splitter: matches are pre-tokens, and so is what is between them.
func (x *regex) split(_ *classTable, text string) int {
	if end := x.match(text); end > 0 {
		return end
	}
	for i := 0; ; {
		_, _, size := x.sets.at(text, i)
		if i += size; i == len(text) || x.match(text[i:]) > 0 {
			return i
		}
	}
}

// match returns the end of the match at the start of text, or 0 if there is none.
func (x *regex) match(text string) int {
	for _, atoms := range x.alternatives {
		if end := x.matchAtoms(atoms, text, 0); end > 0 {
			return end
		}
	}
	return 0
}

// matchAtoms returns the end of a match of all atoms at text[i:], or -1 if there is none. Each takes as many
// characters as it can, and gives them back one by one until the rest matches; checkLinear limits the work.
func (x *regex) matchAtoms(atoms []atom, text string, i int) int {
	if len(atoms) == 0 {
		return i
	}
	a, end, n := atoms[0], i, 0
	if a.notBefore {
		if i < len(text) && !x.is(a, text, i) {
			return -1
		}
		return x.matchAtoms(atoms[1:], text, i)
	}
	for n < a.max && end < len(text) {
		size := x.length(a, text, end)
		if size == 0 {
			break
		}
		end, n = end+size, n+1
	}
	for ; n >= a.min; n-- {
		if rest := x.matchAtoms(atoms[1:], text, end); rest >= 0 {
			return rest
		}
		switch {
		case n == 0 || a.possessive:
			return -1
		case a.contraction:
			end = i
		default:
			end = x.sets.before(text, end)
		}
	}
	return -1
}

// length returns the length of one match of an atom at text[i:], or 0 if there is none.
func (x *regex) length(a atom, text string, i int) int {
	if a.contraction {
		if text[i] != '\'' {
			return 0
		}
		return contraction(text[i:], true)
	}
	char, sets, size := x.sets.at(text, i)
	if a.set&sets == 0 && (a.set != 0 || a.char != char) {
		return 0
	}
	return size
}

func (x *regex) is(a atom, text string, i int) bool { return x.length(a, text, i) > 0 }

// matchesAll reports whether the pattern matches all of any text: an alternative needs no more than the character.
func (x *regex) matchesAll() bool {
	var sets uint16
	for _, atoms := range x.alternatives {
		need := slices.DeleteFunc(slices.Clone(atoms), func(a atom) bool { return a.min == 0 && !a.notBefore })
		if len(need) == 1 && need[0].min == 1 {
			sets |= need[0].set
		}
	}
	for _, of := range x.sets.table {
		if of&sets == 0 {
			return false
		}
	}
	return true
}

// The limits of the patterns of a tokenizer. Published ones have at most 600 bytes, 20 alternatives and 6 choices.
const (
	maxPattern      = 4096
	maxAlternatives = 100
	maxChoices      = 100 // how many ways an alternative may try its counted repetitions: each multiplies them
)

// checkLinear refuses patterns that could take more than linear time, or too much for each character. What follows a
// repetition without a limit must be optional, for then nothing makes the repetition give characters back. Otherwise,
// as in \s*[\r\n]+, only one atom may follow, and the alternatives after it must be the same up to there, until one
// has nothing required after it, such as \s+: that takes what the first has read in vain.
func (x *regex) checkLinear() error {
	for i, atoms := range x.alternatives {
		if choices(atoms) > maxChoices {
			return fmt.Errorf("alternative %d may try more than %d ways to match", i+1, maxChoices)
		}
		at := slices.IndexFunc(atoms, func(a atom) bool { return a.max == unbounded })
		if at < 0 || !required(atoms[at+1:]) {
			continue
		}
		last := i
		for last < len(x.alternatives)-1 && required(x.alternatives[last][at+1:]) {
			last++
			next := x.alternatives[last]
			same := len(next) > at && slices.Equal(next[:at], atoms[:at]) && next[at].set == atoms[at].set &&
				next[at].char == atoms[at].char && next[at].max == unbounded
			if !same {
				return fmt.Errorf("alternative %d may read much for nothing", i+1)
			}
		}
		if required(x.alternatives[last][at+1:]) || required(atoms[at+2:]) {
			return fmt.Errorf("alternative %d may read much for nothing", i+1)
		}
	}
	return nil
}

// choices returns how many combinations of counts the repetitions with a limit have, at most about maxChoices squared.
func choices(atoms []atom) int {
	n := 1
	for _, a := range atoms {
		if a.max != unbounded && !a.possessive && n <= maxChoices {
			n *= a.max - a.min + 1
		}
	}
	return n
}

// required reports whether any of the atoms must match something.
func required(atoms []atom) bool {
	return slices.ContainsFunc(atoms, func(a atom) bool { return a.min > 0 })
}

// parseRegex parses a pattern. The error says what in it is not supported.
func parseRegex(pattern string, sets *charSets) (*regex, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes: at most %d are", len(pattern), maxPattern)
	}
	p := &regexParser{rest: pattern, sets: sets}
	x := &regex{sets: sets}
	for {
		if sets.alternatives++; sets.alternatives > maxAlternatives {
			return nil, fmt.Errorf("the patterns have more than %d alternatives", maxAlternatives)
		}
		atoms, err := p.alternative()
		if err != nil {
			return nil, err
		}
		if !required(atoms) || len(atoms) == 1 && atoms[0].notBefore {
			return nil, errors.New("an alternative that matches nothing")
		}
		if x.alternatives = append(x.alternatives, atoms); p.rest == "" {
			return x, x.checkLinear()
		}
		p.rest = p.rest[1:] // the |
	}
}

type regexParser struct {
	rest string
	sets *charSets
}

// take consumes a prefix if it is next.
func (p *regexParser) take(prefix string) (taken bool) {
	p.rest, taken = strings.CutPrefix(p.rest, prefix)
	return taken
}

// alternative parses up to a | or the end.
func (p *regexParser) alternative() (atoms []atom, err error) {
	for p.rest != "" && p.rest[0] != '|' {
		a := atom{min: 1, max: 1}
		switch {
		case p.take(`(?!\S)`):
			a.notBefore, a.set = true, p.sets.space
		case p.take(`(?i:'s|'t|'re|'ve|'m|'ll|'d)`), p.take(`'(?i:[sdmt]|ll|ve|re)`):
			a.contraction = true
		case strings.ContainsRune("^$.()*+?{}", rune(p.rest[0])):
			return nil, fmt.Errorf("%.20q", p.rest)
		case p.rest[0] == '[' || strings.HasPrefix(p.rest, `\p{`) || strings.HasPrefix(p.rest, `\s`):
			from := p.rest
			var c class
			if err := p.class(&c); err != nil {
				return nil, err
			}
			if a.set, err = p.sets.add(from[:len(from)-len(p.rest)], c); err != nil {
				return nil, err
			}
		default:
			if a.char, err = p.char(); err != nil {
				return nil, err
			}
		}
		if !a.notBefore {
			if err := p.quantifier(&a); err != nil {
				return nil, err
			}
		}
		atoms = append(atoms, a)
	}
	return atoms, nil
}

// quantifier parses ?, *, +, {n} or {n,m}, if there is one.
func (p *regexParser) quantifier(a *atom) error {
	switch {
	case p.take("?"):
		a.min = 0
	case p.take("*"):
		a.min, a.max = 0, unbounded
	case p.take("+"):
		a.max = unbounded
	case p.take("{"):
		numbers, rest, _ := strings.Cut(p.rest, "}")
		least, most, isRange := strings.Cut(numbers, ",")
		if !isRange {
			most = least
		}
		low, err1 := strconv.Atoi(least)
		high, err2 := strconv.Atoi(most)
		if err1 != nil || err2 != nil || low < 1 || high < low || high > 9 {
			return fmt.Errorf("{%.20s}", numbers)
		}
		a.min, a.max, p.rest = low, high, rest
	}
	a.possessive = (a.min == 0 || a.max == unbounded) && p.take("+")
	if p.rest != "" && strings.ContainsRune("?*+{", rune(p.rest[0])) || a.contraction && a.max > 1 {
		return fmt.Errorf("the quantifier before %.20q", p.rest)
	}
	return nil
}

// class parses [...], \p{...} or \s and adds it to a class.
func (p *regexParser) class(c *class) error {
	switch {
	case p.take(`\s`):
		c.ranges = append(c.ranges, tables()["spaces"]...)
		return nil
	case p.take(`\p{`):
		name, rest, _ := strings.Cut(p.rest, "}")
		categories, known := categoryNames[name]
		if p.rest = rest; !known {
			return fmt.Errorf(`\p{%.20s}`, name)
		}
		c.categories |= categories
		return nil
	}
	p.take("[")
	c.negated = p.take("^")
	return p.members(c)
}

// members parses what is in a class, up to its end. A class in a class adds its members.
func (p *regexParser) members(c *class) error {
	if p.rest == "" || strings.ContainsRune("^]:", rune(p.rest[0])) {
		return fmt.Errorf("a class that begins with %.20q", p.rest)
	}
	for !p.take("]") {
		var err error
		switch {
		case p.rest == "" || strings.HasPrefix(p.rest, "&&"):
			err = fmt.Errorf("a class before %.20q", p.rest)
		case p.take("["):
			err = p.members(c)
		case strings.HasPrefix(p.rest, `\p{`) || strings.HasPrefix(p.rest, `\s`):
			err = p.class(c)
		default:
			err = p.characters(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// characters parses a character or a range of them.
func (p *regexParser) characters(c *class) error {
	first, err := p.char()
	last := first
	if err == nil && strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") {
		p.take("-")
		last, err = p.char()
	}
	if err == nil && last < first {
		err = fmt.Errorf("the range from %q to %q", first, last)
	}
	c.ranges = append(c.ranges, first, last)
	return err
}

// char parses one character, which may be escaped.
func (p *regexParser) char() (rune, error) {
	if !p.take(`\`) {
		char, size := utf8.DecodeRuneInString(p.rest)
		p.rest = p.rest[size:]
		return char, nil
	}
	if p.rest == "" {
		return 0, errors.New("a backslash at the end")
	}
	char := rune(p.rest[0])
	p.rest = p.rest[1:]
	switch {
	case char == 'n':
		return '\n', nil
	case char == 'r':
		return '\r', nil
	case char == 't':
		return '\t', nil
	case char < utf8.RuneSelf && strings.ContainsRune(asciiPunctuation, char):
		return char, nil
	}
	return 0, fmt.Errorf(`\%c`, char)
}

const asciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// categoryNames has the sets of general categories that patterns name, as bits of the numbers in unicode.txt.
var categoryNames = map[string]uint16{"Lu": 1 << 1, "Ll": 1 << 2, "Lt": 1 << 3, "Lm": 1 << 4, "Lo": 1 << 5,
	"L": 0b111110, "M": 1 << 6, "N": 1 << 7, "P": 1 << 8, "S": 1 << 9}

// eachCategory calls each for every range of characters of one category, in order.
func eachCategory(each func(first, last rune, category int)) {
	next := rune(0)
	for run := range slices.Chunk(tables()["categories"], 2) {
		each(next, next+run[0]-1, int(run[1]))
		next += run[0]
	}
}
