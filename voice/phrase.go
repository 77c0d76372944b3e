package voice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A phrase is one line of the phrase bank: text with slots, and the condition of its section.
type phrase struct {
	parts     []part
	condition *condition
	slots     uint64   // bits of the slots that it has
	marks     []int    // its marked words, whose repetition in an answer readers notice
	names     []string // what it has in backticks, backticks included, apart from its slots
}

// A part is a slot, or text if slot is negative.
type part struct {
	text  string
	slot  int
	upper bool // the slot's name starts with a capital, and so will its value
}

// A condition is what follows "if" in a section's header.
type condition struct {
	with, without Feature
	calls         []string // names that the code must call
	otherwise     bool     // only if no other phrase of the block fits
}

// holds reports whether the code has what the condition requires.
func (c *condition) holds(has Feature, calls []string) bool {
	if has&c.with != c.with || has&c.without != 0 {
		return false
	}
	for _, name := range c.calls {
		if !slices.Contains(calls, name) {
			return false
		}
	}
	return true
}

// always reports whether the condition requires nothing.
func (c *condition) always() bool { return c.with == 0 && c.without == 0 && len(c.calls) == 0 }

// parseCondition parses the words of a condition, such as "loop print not input len()".
func parseCondition(words []string) (*condition, error) {
	c := &condition{}
	negate := false
	for _, w := range words {
		if w == "not" && !negate {
			negate = true
			continue
		}
		if name, ok := strings.CutSuffix(w, "()"); ok && !negate {
			if !printableName(name) {
				return nil, fmt.Errorf("call %q: not a name", w)
			}
			c.calls = append(c.calls, name)
			continue
		}
		i := slices.Index(featureNames, w)
		if i < 0 {
			return nil, fmt.Errorf("condition: unknown feature %q%s", w, suggest(w, featureNames))
		}
		if negate {
			c.without |= 1 << i
		} else {
			c.with |= 1 << i
		}
		negate = false
	}
	if negate || len(words) == 0 {
		return nil, fmt.Errorf("condition: incomplete: write a feature after it")
	}
	if c.with&c.without != 0 {
		return nil, fmt.Errorf("condition: requires both a feature and its absence")
	}
	return c, nil
}

// parsePhrase parses one line of the phrase bank.
func parsePhrase(line string) (*phrase, error) {
	p := &phrase{}
	for rest := line; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			p.parts = append(p.parts, part{rest, -1, false})
			break
		}
		if i > 0 {
			p.parts = append(p.parts, part{rest[:i], -1, false})
		}
		end := strings.IndexByte(rest, '}')
		if rest[i] == '}' || end < 0 {
			return nil, fmt.Errorf("unbalanced brace: write a slot as {name}")
		}
		name := rest[i+1 : end]
		slot := slices.Index(slotNames, strings.ToLower(name))
		if slot < 0 {
			return nil, fmt.Errorf("unknown slot {%s}%s", name, suggest(strings.ToLower(name), slotNames))
		}
		p.parts = append(p.parts, part{"", slot, unicode.IsUpper(rune(name[0]))})
		p.slots |= 1 << slot
		rest = rest[end+1:]
	}
	p.names = inlineCode.FindAllString(p.literal(), -1)
	return p, nil
}

var inlineCode = regexp.MustCompile("`[^`]+`")

// literal returns the text of a phrase without its slots.
func (p *phrase) literal() string {
	var b strings.Builder
	for _, part := range p.parts {
		if part.slot >= 0 {
			b.WriteString(" ")
		}
		b.WriteString(part.text)
	}
	return b.String()
}

// write appends the phrase to b, with these values of its slots.
func (p *phrase) write(b *strings.Builder, values []string) {
	for _, part := range p.parts {
		switch {
		case part.slot < 0:
			b.WriteString(part.text)
		case part.upper:
			r, size := utf8.DecodeRuneInString(values[part.slot])
			b.WriteRune(unicode.ToUpper(r))
			b.WriteString(values[part.slot][size:])
		default:
			b.WriteString(values[part.slot])
		}
	}
}
