package voice

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// validate makes the checks that need the whole file.
func (p *parser) validate() {
	s := p.style
	p.line = max(p.line, 1)
	if s.Name == "" && p.seen["setting name"] == 0 {
		p.failAt(1, "no name: begin the file with name: …")
	}
	if len(s.lexicon) == 0 {
		p.fail("no [lexicon]: without cues no text can be in the voice")
	}
	if s.System == "" && len(s.Skeletons) == 0 {
		p.fail("neither [system] nor [skeletons]: write a prompt for a teacher or skeletons for the composer")
	}
	p.validateSkeletons()
	p.mark()
	for i, e := range s.Examples {
		p.validateExample(p.lines["example "+strconv.Itoa(i)], e)
	}
}

// mark sets the marked words of every phrase: the long words and the cues, whose repetition readers notice. It needs
// the whole file because the lexicon may be at its end.
func (p *parser) mark() {
	ids := map[string]int{}
	for _, l := range p.phrases {
		if word := p.style.BannedIn(Read(l.literal)); word != "" {
			p.failAt(l.line, "phrase: banned word %q", word)
		}
		for _, t := range tokens(l.literal, -1) {
			if n := utf8.RuneCountInString(t.word); t.code || n < longWord && (n < longWord-1 || !p.style.lexicon.has(t.word)) {
				continue
			}
			id, ok := ids[t.word]
			if !ok {
				id = len(ids)
				ids[t.word] = id
			}
			l.phrase.marks = append(l.phrase.marks, id)
		}
	}
	p.style.marks = len(ids)
}

// longWord is the minimum length of a marked word, in letters; for a cue it is one less.
const longWord = 7

// validateSkeletons checks the skeletons and the blocks of the phrase bank.
func (p *parser) validateSkeletons() {
	s := p.style
	used := map[string]bool{"bridge": true, "comment": true, "opener": true}
	var blocks []string
	for name := range p.lines {
		if block, ok := strings.CutPrefix(name, "block "); ok {
			blocks = append(blocks, block)
		}
	}
	slices.Sort(blocks)
	all := s.Skeletons
	s.Skeletons = nil
	for _, text := range all {
		words := strings.Fields(text)
		if slices.Contains(words, "answer") {
			s.answers = append(s.answers, words)
		} else {
			s.Skeletons, s.skeletons = append(s.Skeletons, text), append(s.skeletons, words)
		}
		p.validateSkeleton(text, words, blocks)
		for _, w := range words {
			used[w] = true
		}
	}
	for _, b := range blocks {
		line := p.lines["block "+b]
		if !used[b] {
			others := slices.DeleteFunc(slices.Concat(headers, blocks), func(name string) bool { return name == b })
			p.failAt(line, "section [%s]: unknown, and no skeleton names it%s", clip(b), suggest(b, others))
			continue
		}
		if b == "opener" {
			continue
		}
		if !slices.ContainsFunc(s.pools[b], plain) {
			p.failAt(line, "block [%s]: needs a phrase without slots and conditions, for answers that no other phrase fits", b)
		}
	}
	for _, key := range s.Openers {
		if !slices.ContainsFunc(s.openings[key], plain) {
			p.failAt(p.lines["opener "+key], "opener %q: needs a phrase without slots and conditions", key)
		}
	}
}

// validateSkeleton checks one skeleton: around code it starts with the opener, and around an answer in words it has
// none.
func (p *parser) validateSkeleton(text string, words, blocks []string) {
	line := p.lines["skeleton "+text]
	count := map[string]int{}
	for _, w := range words {
		count[w]++
		if w != "/" && w != "code" && w != "answer" && !slices.Contains(blocks, w) {
			p.failAt(line, "skeleton: block %q has no section%s", clip(w), suggest(w, blocks))
		}
	}
	switch {
	case count["answer"] > 0 && (count["answer"] > 1 || count["opener"]+count["code"] > 0):
		p.failAt(line, "skeleton %q: must have answer exactly once, and neither opener nor code", clip(text))
	case count["answer"] > 0:
	case words[0] != "opener" || count["opener"] != 1:
		p.failAt(line, "skeleton %q: must begin with opener, and have it only once", clip(text))
	case count["code"] != 1:
		p.failAt(line, "skeleton %q: must have code exactly once", clip(text))
	}
}

// plain reports whether a phrase fits any answer.
func plain(p *phrase) bool { return p.slots == 0 && p.condition.always() }

// validateExample checks a few-shot example.
func (p *parser) validateExample(line int, e Example) {
	s := p.style
	if !slices.ContainsFunc(s.Devices, func(d Device) bool { return d.Name == e.Device }) {
		var names []string
		for _, d := range s.Devices {
			names = append(names, d.Name)
		}
		p.failAt(line, "example: device %q is not in [devices]%s", clip(e.Device), suggest(e.Device, names))
	}
	if strings.Count("\n"+e.Rewrite+"\n", "\n[[CODE_1]]\n") != 1 || strings.Count(e.Rewrite, "[[") != 1 {
		p.failAt(line, "example: rewrite must have [[CODE_1]] exactly once, on its own line")
	}
	if err := s.Accepts(s.Tone(Read(e.Rewrite))); err != nil {
		p.failAt(line, "example: not in the voice: %w", err)
	}
	if word := s.BannedIn(Read(e.Rewrite)); word != "" {
		p.failAt(line, "example: banned word %q", word)
	}
}
