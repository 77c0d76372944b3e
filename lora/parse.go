package lora

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	none      = "none"
	allLinear = "all-linear"
)

// Parse reads a Spec from text such as "r=8,alpha=16,targets=q_proj+v_proj,rslora,dropout=0.05". What the text does
// not name is as in [Default], so "" means Default; "none" means no adapters. The keys are
//
//	r, alpha, dropout   numbers
//	rslora              no value
//	targets, exclude    modules with + between them; targets also all-linear
//	match, unmatch      instead of these, regular expressions for whole names
//	layers              indices with + between them
//	also                modules, trained whole
//	r:KEY, alpha:KEY    values of the modules that the regular expression KEY matches; the first that does counts
//
// A word with one of , + = : " or a space in it is written as a Go string in double quotes.
func Parse(text string) (Spec, error) { return Default().With(text) }

// With is like [Parse], but what text does not name is as in s, so "" means s. If text names ranks of patterns, they
// replace all that s has, and likewise alphas.
func (s Spec) With(text string) (Spec, error) {
	if text == none {
		return Spec{}, nil
	}
	of := s
	s.Ranks, s.Alphas = nil, nil
	p := parser{rest: text}
	for p.err == nil && p.rest != "" {
		p.field(&s)
		if p.err == nil && p.rest != "" && !p.take(",") {
			p.fail("%.40q: expected a comma", p.rest)
		}
	}
	if s.Ranks == nil {
		s.Ranks = of.Ranks
	}
	if s.Alphas == nil {
		s.Alphas = of.Alphas
	}
	if p.err == nil {
		p.err = s.Validate()
	}
	if p.err != nil {
		return Spec{}, fmt.Errorf("lora %.60q: %w", text, p.err)
	}
	return s, nil
}

// String returns the text that Parse reads back.
func (s Spec) String() string {
	var fields []string
	add := func(key, value string) { fields = append(fields, key+"="+value) }
	targets := func(names, match string, t Targets) {
		switch {
		case t.AllLinear:
			add(names, allLinear)
		case t.Match != "":
			add(match, quoted(t.Match))
		case len(t.Names) > 0:
			add(names, joined(t.Names))
		}
	}
	if s.Rank != 0 {
		add("r", strconv.Itoa(s.Rank))
		add("alpha", number(s.Alpha))
	}
	targets("targets", "match", s.Targets)
	targets("exclude", "unmatch", s.Exclude)
	if s.RSLoRA {
		fields = append(fields, "rslora")
	}
	if s.Dropout != 0 {
		add("dropout", number(s.Dropout))
	}
	if len(s.Layers) > 0 {
		var layers []string
		for _, layer := range s.Layers {
			layers = append(layers, strconv.Itoa(layer))
		}
		add("layers", strings.Join(layers, "+"))
	}
	for _, p := range s.Ranks {
		add("r:"+quoted(p.Key), number(p.Value))
	}
	for _, p := range s.Alphas {
		add("alpha:"+quoted(p.Key), number(p.Value))
	}
	if len(s.Also) > 0 {
		add("also", joined(s.Also))
	}
	if fields == nil {
		return none
	}
	return strings.Join(fields, ",")
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func joined(names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = quoted(name)
	}
	return strings.Join(words, "+")
}

// special end a word.
const special = ",+=:\" \t"

// inQuotes matches a quoted string that is complete, whether Go can read it or not.
var inQuotes = regexp.MustCompile(`^"(?:\\.|[^"\\])*"`)

func quoted(word string) string {
	if q := strconv.Quote(word); word == "" || word == allLinear || strings.ContainsAny(word, special) ||
		q != `"`+word+`"` {
		return q
	}
	return word
}

// parser reads text from its front. err keeps the first error.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail(format string, a ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, a...)
	}
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

// take takes a separator, if it comes next.
func (p *parser) take(separator string) (ok bool) {
	p.space()
	p.rest, ok = strings.CutPrefix(p.rest, separator)
	return ok
}

// word takes a word. plain is false if it is in quotes.
func (p *parser) word() (word string, plain bool) {
	p.space()
	if strings.HasPrefix(p.rest, `"`) {
		q, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			if inQuotes.MatchString(p.rest) {
				p.fail("%.40q: in quotes each backslash is written twice", p.rest)
			}
			p.fail("%.40q: the string does not end", p.rest)
			return "", false
		}
		p.rest = p.rest[len(q):]
		word, _ = strconv.Unquote(q) // QuotedPrefix has checked it
		return word, false
	}
	end := strings.IndexAny(p.rest, special)
	if end < 0 {
		end = len(p.rest)
	}
	word, p.rest = p.rest[:end], p.rest[end:]
	if word == "" {
		p.fail("%.40q: expected a word", p.rest)
	}
	return word, true
}

// words takes words with + between them.
func (p *parser) words() (words []string) {
	for p.err == nil {
		word, _ := p.word()
		words = append(words, word)
		if !p.take("+") {
			break
		}
	}
	return words
}

func (p *parser) number() float64 {
	word, _ := p.word()
	x, err := strconv.ParseFloat(word, 64)
	if err != nil && p.err == nil {
		p.fail("%.40q is not a number", word)
	}
	return x
}

func (p *parser) int() int {
	word, _ := p.word()
	n, err := strconv.Atoi(word)
	if err != nil && p.err == nil {
		p.fail("%.40q is not a whole number", word)
	}
	return n
}

// field takes a key and its value.
func (p *parser) field(s *Spec) {
	key, _ := p.word()
	if key == "rslora" {
		s.RSLoRA = true
		return
	}
	var of string
	patterned := p.take(":")
	if patterned {
		of, _ = p.word()
		key += ":"
	}
	if p.err == nil && !slices.Contains(keys, key) {
		p.fail("%.40q: must be one of %s and rslora; modules have + between them", key, strings.Join(keys, ", "))
	}
	if p.err == nil && !p.take("=") {
		p.fail("%s has no value: write %s=…", key, key)
	}
	if p.err != nil {
		return
	}
	switch key {
	case "r":
		s.Rank = p.int()
	case "alpha":
		s.Alpha = p.number()
	case "dropout":
		s.Dropout = p.number()
	case "targets":
		s.Targets = p.targets()
	case "exclude":
		s.Exclude = p.targets()
	case "match":
		s.Targets = Targets{Match: p.expression()}
	case "unmatch":
		s.Exclude = Targets{Match: p.expression()}
	case "layers":
		s.Layers = nil
		for more := true; more && p.err == nil; more = p.take("+") {
			s.Layers = append(s.Layers, p.int())
		}
	case "also":
		s.Also = p.words()
	case "r:":
		s.Ranks = append(s.Ranks, Pattern{of, p.number()})
	case "alpha:":
		s.Alphas = append(s.Alphas, Pattern{of, p.number()})
	}
}

var keys = []string{"r", "alpha", "dropout", "targets", "exclude", "match", "unmatch", "layers", "also", "r:", "alpha:"}

func (p *parser) targets() Targets {
	if rest, ok := strings.CutPrefix(p.rest, allLinear); ok && (rest == "" || strings.ContainsRune(",", rune(rest[0]))) {
		p.rest = rest
		return Targets{AllLinear: true}
	}
	return Targets{Names: p.words()}
}

func (p *parser) expression() string {
	word, _ := p.word()
	return word
}
