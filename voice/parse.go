package voice

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProblems is the number of problems that Parse reports. It only counts the rest.
const maxProblems = 25

// headers are the sections with a fixed form. Every other section is a block of the phrase bank.
var headers = []string{"system", "devices", "example", "skeletons", "lexicon", "banned"}

// keys are the settings at the beginning of a file.
var keys = []string{"name", "about", "score", "cues", "density", "words", "repeat"}

// Parse parses a style file, whose form the package documentation describes. Its error joins all problems, up to 25,
// each in the form name:line: problem.
func Parse(name string, src []byte) (*Style, error) {
	p := &parser{
		name: name,
		style: &Style{
			SHA256:   fmt.Sprintf("%x", sha256.Sum256(src)),
			MinScore: 3,
			MinCues:  2,
			Density:  [2]float64{0.5, 40},
			Words:    [2]int{25, 220},
			Repeat:   [2]float64{3, 8},
			lexicon:  lexicon{},
			banned:   lexicon{},
			pools:    map[string][]*phrase{},
			openings: map[string][]*phrase{},
		},
		seen:  map[string]int{},
		lines: map[string]int{},
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes: must be at most %d", name, len(src), maxFile)
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	for line := range bytes.Lines(src) {
		p.line++
		text := strings.TrimRight(string(line), " \t\r\n")
		if i := strings.IndexFunc(text, unprintable); i >= 0 {
			p.fail("unprintable byte %#02x: a style file must be UTF-8 text", text[i])
			continue
		}
		p.take(text)
	}
	p.endSection()
	p.validate()
	if p.more > 0 {
		p.problems = append(p.problems, fmt.Errorf("%s: and %d more problems", name, p.more))
	}
	if len(p.problems) > 0 {
		return nil, errors.Join(p.problems...)
	}
	p.style.readPairs()
	p.style.told = map[uint64]bool{}
	for _, h := range Read(p.style.System).Shingles(repeated) {
		p.style.told[h] = true
	}
	return p.style, nil
}

// unprintable reports whether a character must not be in a style file.
func unprintable(r rune) bool {
	return r == utf8.RuneError || r < ' ' && r != '\t' || r == 0x7f || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Co, r)
}

// A parser is the state of Parse.
type parser struct {
	name     string
	line     int
	problems []error
	more     int // problems beyond maxProblems
	style    *Style

	section   string     // "" before the first header
	condition *condition // of the section
	from      int        // line of the section's header
	body      []string   // lines of [system] or [example]

	seen    map[string]int // line of each setting, device, phrase …, by kind and text
	lines   map[string]int // line where each block, example and skeleton starts
	phrases []located
}

// A located is a phrase with its line, for the checks that need the whole file.
type located struct {
	phrase  *phrase
	literal string
	line    int
}

// fail records a problem in the current line, and failAt one in another line.
func (p *parser) fail(format string, args ...any) { p.failAt(p.line, format, args...) }

func (p *parser) failAt(line int, format string, args ...any) {
	if len(p.problems) == maxProblems {
		p.more++
		return
	}
	p.problems = append(p.problems, fmt.Errorf("%s:%d: %w", p.name, line, fmt.Errorf(format, args...)))
}

// once records something of a kind that may occur only once. If it occurred before, once fails and returns false.
func (p *parser) once(kind, text string) bool {
	if at, ok := p.seen[kind+" "+text]; ok {
		p.fail("%s %q: already in line %d", kind, text, at)
		return false
	}
	p.seen[kind+" "+text] = p.line
	return true
}

// take parses one line.
func (p *parser) take(text string) {
	trimmed := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "#"):
		return
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") && !isPlaceholder(text):
		p.endSection()
		p.start(text[1 : len(text)-1])
	case p.section == "system" || p.section == "example":
		p.body = append(p.body, text)
	case trimmed == "":
	case p.section == "":
		p.setting(trimmed)
	case p.section == "?": // a section with a wrong header
	case p.section == "devices":
		name, instruction, ok := strings.Cut(trimmed, ": ")
		if !ok || name == "" || strings.TrimSpace(instruction) == "" {
			p.fail("device %q: no instruction: write name: instruction", trimmed)
		} else if p.once("device", name) {
			p.style.Devices = append(p.style.Devices, Device{name, strings.TrimSpace(instruction)})
		}
	case p.section == "skeletons":
		if p.once("skeleton", cleanLine(trimmed)) {
			p.style.Skeletons = append(p.style.Skeletons, cleanLine(trimmed))
			p.lines["skeleton "+cleanLine(trimmed)] = p.line
		}
	case p.section == "lexicon":
		weight, words, _ := strings.Cut(trimmed, " ")
		n, err := strconv.Atoi(weight)
		if err != nil || n < 1 || n > 9 {
			p.fail("cue %q: no weight: write a number from 1 to 9, a space, and the words", trimmed)
			return
		}
		p.cue(p.style.lexicon, words, n)
	case p.section == "banned":
		p.cue(p.style.banned, trimmed, 1)
	default:
		p.phrase(trimmed)
	}
}

// setting parses a line before the first section.
func (p *parser) setting(text string) {
	key, value, ok := strings.Cut(text, ":")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok {
		p.fail("%q: not a setting: write key: value, or begin a section with [name]", clip(text))
		return
	}
	if !slices.Contains(keys, key) {
		p.fail("unknown setting %q%s", clip(key), suggest(key, keys))
		return
	}
	if !p.once("setting", key) {
		return
	}
	s := p.style
	switch key {
	case "name":
		s.Name = value
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r != '-' && !wordRune(r) }) {
			p.fail("name %q: must have only letters, digits and hyphens", clip(value))
		}
	case "about":
		s.About = value
	case "score", "cues":
		n := p.numbers(key, value, 1)[0]
		if n != math.Trunc(n) {
			p.fail("%s %g: must be a whole number", key, n)
		}
		if key == "score" {
			s.MinScore = int(n)
		} else {
			s.MinCues = int(n)
		}
	case "repeat":
		copy(s.Repeat[:], p.numbers(key, value, 2))
		if slices.Min(s.Repeat[:]) <= 0 || slices.Max(s.Repeat[:]) > 100 {
			p.fail("repeat %q: both must be above 0 and at most 100", clip(value))
		}
	case "density":
		copy(s.Density[:], p.numbers(key, value, 2))
	case "words":
		n := p.numbers(key, value, 2)
		s.Words = [2]int{int(n[0]), int(n[1])}
	}
}

// numbers parses n increasing numbers from 0 to 100,000. If they are wrong it fails and returns n zeros.
func (p *parser) numbers(key, value string, n int) []float64 {
	var out []float64
	for _, f := range strings.Fields(value) {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || !(x >= 0 && x <= 100000) || len(out) > 0 && x < out[len(out)-1] {
			out = nil
			break
		}
		out = append(out, x)
	}
	if len(out) != n {
		form := []string{"", "a number, such as 3", "the minimum and the maximum, such as 25 220"}[n]
		p.fail("%s %q: write %s", key, clip(value), form)
		return make([]float64, n)
	}
	return out
}

// start parses a section's header, without its brackets.
func (p *parser) start(header string) {
	p.section = "?"
	p.condition = &condition{}
	p.from = p.line
	p.body = nil
	words := strings.Fields(strings.ReplaceAll(header, ",", " "))
	if len(words) == 0 {
		p.fail("section without a name: write [name]")
		return
	}
	name := words[0]
	if len(words) > 1 {
		otherwise := len(words) == 2 && words[1] == "otherwise"
		if words[1] != "if" && !otherwise {
			p.fail("section [%s]: only \"if\" and a condition, or \"otherwise\", may follow the name", clip(header))
			return
		}
		if slices.Contains(headers, name) {
			p.fail("section [%s]: cannot have a condition", name)
			return
		}
		c, err := parseCondition(words[2:])
		switch {
		case otherwise:
			c = &condition{otherwise: true}
		case err != nil:
			p.fail("section [%s]: %w", clip(header), err)
			return
		}
		p.condition = c
	}
	if name == "code" || name == "answer" || name == "/" || name == "?" {
		p.fail("section [%s]: reserved name: skeletons use it", name)
		return
	}
	if name == "system" {
		p.once("section", name)
	}
	if _, ok := p.lines["block "+name]; !ok && !slices.Contains(headers, name) {
		p.lines["block "+name] = p.line
	}
	p.section = name
}

// endSection parses [system] and [example], whose lines belong together.
func (p *parser) endSection() {
	switch p.section {
	case "system":
		p.style.System = strings.TrimSpace(strings.Join(p.body, "\n"))
	case "example":
		p.example()
	}
	p.section = ""
}

// example parses the "key: value" lines of an example; a value may also follow its key on indented lines.
func (p *parser) example() {
	values := map[string]string{}
	key := ""
	for i, text := range p.body {
		if text == "" || text[0] == ' ' || text[0] == '\t' {
			if key != "" {
				if cut, ok := strings.CutPrefix(text, "\t"); ok {
					text = cut
				} else {
					text = strings.TrimPrefix(text, "    ")
				}
				values[key] += text + "\n"
			}
			continue
		}
		k, v, ok := strings.Cut(text, ":")
		exampleKeys := []string{"device", "question", "code", "rewrite"}
		switch {
		case !ok || !slices.Contains(exampleKeys, k):
			p.failAt(p.from+1+i, "example: unknown line %q: use device, question, code and rewrite, "+
				"and indent their text by four spaces", clip(text))
			return
		case values[k] != "":
			p.failAt(p.from+1+i, "example: second %q", k)
			return
		}
		key = k
		values[k] = strings.TrimSpace(v) + "\n"
	}
	e := Example{
		Device:   strings.TrimSpace(values["device"]),
		Question: strings.TrimSpace(values["question"]),
		Code:     strings.Trim(values["code"], "\n"),
		Rewrite:  strings.TrimSpace(values["rewrite"]),
	}
	if e.Device == "" || e.Question == "" || e.Code == "" || e.Rewrite == "" {
		p.failAt(p.from, "example: needs a device, a question, code and a rewrite")
		return
	}
	p.lines["example "+strconv.Itoa(len(p.style.Examples))] = p.from
	p.style.Examples = append(p.style.Examples, e)
}

// cue adds a cue to a lexicon.
func (p *parser) cue(l lexicon, text string, weight int) {
	text = cleanLine(text)
	switch {
	case len(tokens(text, 1)) == 0:
		p.fail("%q: has no word", clip(text))
	case strings.Contains(text, "`"):
		p.fail("%q: cues do not match inline code: remove the backticks", clip(text))
	case l.has(text):
		p.fail("%q: already in [%s]", clip(text), p.section)
	default:
		l.add(text, weight)
	}
}

// phrase parses a line of a block.
func (p *parser) phrase(text string) {
	if !p.once("phrase", text) {
		return
	}
	phrase, err := parsePhrase(text)
	if err != nil {
		p.fail("%w", err)
		return
	}
	phrase.condition = p.condition
	literal := phrase.literal()
	switch {
	case strings.Contains(text, "[["):
		p.fail("phrase: has a placeholder: put code into the skeletons instead")
	case strings.Count(text, "`")%2 != 0:
		p.fail("phrase: unclosed backtick")
	case !strings.ContainsAny(text[len(text)-1:], ".!?:*\"')") && !strings.HasSuffix(text, "…") &&
		!strings.HasSuffix(text, "”") && !strings.HasSuffix(text, "’"):
		p.fail("phrase %q: must end with the end of a sentence", clip(text))
	}
	p.phrases = append(p.phrases, located{phrase, literal, p.line})
	if p.section != "opener" {
		p.style.pools[p.section] = append(p.style.pools[p.section], phrase)
		return
	}
	key := Read(literal).Opener()
	if len(tokens(phrase.parts[0].text, 2)) < 2 {
		p.fail("opener %q: the first two words must have no slots", clip(text))
		return
	}
	if p.style.openings[key] == nil {
		p.style.Openers = append(p.style.Openers, key)
		p.lines["opener "+key] = p.line
	}
	p.style.openings[key] = append(p.style.openings[key], phrase)
}
