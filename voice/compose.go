package voice

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// An Assignment is what an answer has to use, chosen before it is written so that openers and orders of blocks can be
// spread over a dataset by quota.
type Assignment struct {
	Seed     uint64 // decides everything else; another seed gives another text
	Opener   string // one of Style.Openers
	Skeleton int    // an index into Style.Skeletons
	Device   string // the name of one of Style.Devices: for a teacher's prompt; Compose does not read it
}

// drafts is the number of texts that Compose writes before it gives up. Most first drafts meet the thresholds.
const drafts = 100

// ErrNoBank is returned by Compose for a style that has no phrase bank.
var ErrNoBank = errors.New("style has no phrase bank")

// KeepsAnswers reports whether Compose can write around an answer in words.
func (s *Style) KeepsAnswers() bool { return len(s.answers) > 0 }

// Compose writes the prose of one answer from the style's phrase bank, around the placeholders of its code, each of
// which gets its own line, or around an answer in words. The text follows the assigned skeleton, around code starts
// with the assigned opener, fills every slot from the facts, uses no phrase or striking word twice, and meets the
// style's thresholds. The same arguments give the same bytes. Compose returns an error if the assignment names an
// opener or a skeleton that the style lacks, if there is neither a placeholder nor an answer, or if no draft meets
// the thresholds; for a style without a phrase bank the error wraps ErrNoBank.
func (s *Style) Compose(f Facts, a Assignment) (string, error) {
	if len(s.skeletons) == 0 {
		return "", fmt.Errorf("style %s: %w: add [skeletons] and the blocks that they name", s.Name, ErrNoBank)
	}
	if a.Skeleton < 0 || a.Skeleton >= len(s.skeletons) {
		return "", fmt.Errorf("style %s: skeleton %d: must be 0 to %d", s.Name, a.Skeleton, len(s.skeletons)-1)
	}
	if s.openings[a.Opener] == nil {
		return "", fmt.Errorf("style %s: no opener %q: use one of the style's", s.Name, a.Opener)
	}
	skeleton := s.skeletons[a.Skeleton]
	switch {
	case f.Answer != "" && !s.KeepsAnswers():
		return "", fmt.Errorf("style %s: %w for answers in words: add skeletons with answer", s.Name, ErrNoBank)
	case f.Answer != "":
		skeleton = s.answers[a.Skeleton%len(s.answers)]
	case len(f.Placeholders) == 0:
		return "", errors.New("no placeholders: there must be code to write around")
	}
	rng := rand.NewPCG(a.Seed, fnv1a(fnvOffset+uint64(a.Skeleton), a.Opener))
	pick := func(n int) int { return int(rng.Uint64() % uint64(n)) }
	w := &writer{style: s, pick: pick, has: f.features(), calls: f.Calls, marks: make([]bool, s.marks), answer: f.Answer}
	w.values = f.slots(pick)
	w.inline = make([][]string, len(w.values))
	for i, v := range w.values {
		if v != "" {
			w.filled |= 1 << i
		}
		w.inline[i] = inlineCode.FindAllString(v, -1)
	}
	var last error
	reserve := "" // a text with a phrase that fits every answer, because none about this one was left
	for range drafts {
		text := w.draft(skeleton, a.Opener, f.Placeholders)
		if w.particular && w.answer == "" && !slices.ContainsFunc(w.used, func(p *phrase) bool { return !plain(p) }) {
			last = errors.New("no phrase is about this question or this code")
			continue
		}
		read := Read(text)
		if last = s.Accepts(s.Tone(read)); last != nil {
			continue
		}
		if banned := s.BannedIn(read, Read(f.Answer)); banned != "" {
			last = fmt.Errorf("banned word %q", banned)
			continue
		}
		if !w.vague {
			return text, nil
		}
		if reserve == "" {
			reserve = text
		}
	}
	if reserve != "" {
		return reserve, nil
	}
	return "", fmt.Errorf("style %s: none of %d drafts is in the voice: %w", s.Name, drafts, last)
}

// Comment returns a remark, from the block "comment", for a comment on a line of code whose facts are f. It is not in
// taken, which lists the remarks that the answer already has. Comment returns "" if the style has no such block, or
// no other remark that fits.
func (s *Style) Comment(f Facts, seed uint64, taken []string) string {
	rng := rand.NewPCG(seed, fnvOffset)
	pick := func(n int) int { return int(rng.Uint64() % uint64(n)) }
	w := &writer{style: s, has: f.features(), calls: f.Calls, values: f.slots(pick)}
	for i, v := range w.values {
		if v != "" {
			w.filled |= 1 << i
		}
	}
	var fit []string
	for _, p := range s.pools["comment"] {
		if p.slots&^w.filled != 0 || !p.condition.holds(w.has, w.calls) {
			continue
		}
		var b strings.Builder
		p.write(&b, w.values)
		if text := strings.ReplaceAll(b.String(), "`", ""); !slices.Contains(taken, text) {
			fit = append(fit, text)
			if !plain(p) {
				fit = append(fit, text, text) // a remark about this line is more likely
			}
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return fit[pick(len(fit))]
}

// A writer has what is fixed for one answer, and what its current draft has used.
type writer struct {
	style  *Style
	pick   func(int) int
	has    Feature
	calls  []string
	values []string
	inline [][]string // the text that each value has in backticks, backticks included
	filled uint64     // slots that have a value
	answer string     // in words

	particular bool // a phrase about this question or this code was available

	used       []*phrase
	conditions []*condition
	slots      uint64
	marks      []bool
	named      []string // what the draft has said in backticks
	pool, best []*phrase
	otherwise  []*phrase // fit only if nothing else does
	vague      bool      // a phrase from otherwise, which also has no slots, is in the draft
}

// draft writes a text along the skeleton.
func (w *writer) draft(skeleton []string, opener string, placeholders []string) string {
	w.used, w.conditions, w.slots = w.used[:0], w.conditions[:0], 0
	clear(w.marks)
	w.named, w.vague = w.named[:0], false
	var b strings.Builder
	gap := ""
	for _, word := range skeleton {
		switch word {
		case "/":
			gap = "\n\n"
		case "code":
			for i, p := range placeholders {
				if i > 0 && len(w.style.pools["bridge"]) > 0 {
					b.WriteString("\n\n")
					w.choose(w.style.pools["bridge"]).write(&b, w.values)
				}
				b.WriteString("\n\n" + p)
			}
			gap = "\n\n"
		case "answer": // a paragraph of its own: it may start with a list
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(w.answer)
			gap = "\n\n"
		default:
			pool := w.style.pools[word]
			if word == "opener" {
				pool = w.style.openings[opener]
			}
			b.WriteString(gap)
			w.choose(pool).write(&b, w.values)
			gap = " "
		}
	}
	return b.String()
}

// choose chooses a phrase whose condition holds, whose slots have values, that this draft has not used, and that
// names nothing in backticks that it has named: one remark about a name is enough. It prefers one that repeats no
// slot, condition or marked word. If only phrases of an otherwise section fit, it chooses among those, with slots if
// it can. If none of these fits either, it chooses one without slots and conditions.
func (w *writer) choose(pool []*phrase) *phrase {
	w.pool, w.best, w.otherwise = w.pool[:0], w.best[:0], w.otherwise[:0]
	for _, p := range pool {
		if p.slots&^w.filled != 0 || !p.condition.holds(w.has, w.calls) || slices.Contains(w.used, p) || w.names(p) {
			continue
		}
		if p.condition.otherwise {
			w.otherwise = append(w.otherwise, p)
			continue
		}
		w.pool = append(w.pool, p)
		w.particular = w.particular || !plain(p)
		if p.slots&w.slots != 0 || !p.condition.always() && slices.Contains(w.conditions, p.condition) || w.marked(p) {
			continue
		}
		w.best = append(w.best, p)
		if !plain(p) && w.answer == "" { // around an answer in words, few are
			w.best = append(w.best, p, p, p) // a phrase about this answer is four times as likely
		}
	}
	from := w.best
	if len(from) == 0 {
		from = w.pool
	}
	if len(from) == 0 {
		from = w.otherwise
		if slots := withSlots(from); len(slots) > 0 {
			from = slots
		}
		w.vague = w.vague || len(from) > 0 && plain(from[0])
	}
	if len(from) == 0 {
		// The parser has checked that there are some.
		from = slices.DeleteFunc(slices.Clone(pool), func(p *phrase) bool { return !plain(p) })
	}
	p := from[w.pick(len(from))]
	w.used = append(w.used, p)
	w.conditions = append(w.conditions, p.condition)
	w.slots |= p.slots | sameSubject(p.slots)
	for _, m := range p.marks {
		w.marks[m] = true
	}
	w.named = append(w.named, p.names...)
	for _, part := range p.parts {
		if part.slot >= 0 {
			w.named = append(w.named, w.inline[part.slot]...)
		}
	}
	return p
}

// withSlots returns the phrases that have slots.
func withSlots(pool []*phrase) []*phrase {
	return slices.DeleteFunc(slices.Clone(pool), func(p *phrase) bool { return p.slots == 0 })
}

// names reports whether a phrase has in backticks something that the draft has already named.
func (w *writer) names(p *phrase) bool {
	said := func(name string) bool { return slices.Contains(w.named, name) }
	for _, part := range p.parts {
		if part.slot >= 0 && slices.ContainsFunc(w.inline[part.slot], said) {
			return true
		}
	}
	return slices.ContainsFunc(p.names, said)
}

// marked reports whether the draft has a marked word of a phrase already.
func (w *writer) marked(p *phrase) bool {
	for _, m := range p.marks {
		if w.marks[m] {
			return true
		}
	}
	return false
}
