package teacher

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"restyle/voice"
)

// proseFacts are the facts of prose that a rewrite has to keep, as far as they can be found without understanding it.
type proseFacts struct {
	exact      []string // links, e-mail addresses, paths, inline code and quoted text
	moments    []moment
	quantities []quantity
	names      [][]string // each one word or several in a row
	items      int        // of its lists
	plain      string     // the text without exact, markers of lists and emphasis
	undated    string     // plain without moments
}

var (
	// exactPatterns match text that is either the same character by character or wrong.
	exactPatterns = []*regexp.Regexp{
		regexp.MustCompile("`([^`\n]+)`"),
		regexp.MustCompile(`((?:[a-z][a-z+]{1,9}://|www\.)[^\s<>"'\])}|*]+)`),
		regexp.MustCompile(`([\pL\pN.+_-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+)`),
		regexp.MustCompile(`(?:^|[\s(])((?:~|\.{1,2})?(?:/[\pL\pN_.@-]+){2,}/?|~/[\pL\pN_./-]+|[A-Za-z]:\\[^\s"']+)`),
		regexp.MustCompile(`\b([\pL\pN_-]{2,}(?:\.[\pL\pN_-]+)*\.[a-z]{2,5})\b`),
		regexp.MustCompile(`(?:^|[\s(])([@#][\pL_][\pL\pN_]+)`),
		regexp.MustCompile(`(?:^|[\s(\[—–-])"([^\s"](?:[^"\n]{0,198}[^\s"])?)"`),
		regexp.MustCompile(`[“„]([^“”\n]{1,200})[”“]`),
		regexp.MustCompile(`«\s?([^«»\n]{1,200}?)\s?»`),
		regexp.MustCompile(`「([^「」\n]{1,200})」`),
		regexp.MustCompile(`(?:^|[\s(\[])'([^\s'](?:[^'\n]{0,98}[^\s'])?)'(?:[\s.,;:!?)\]]|$)`),
	}
	listItem = regexp.MustCompile(`(?m)^[ \t]*(?:(?:[-*+•–]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+\S|\d{1,3}[.)]\pL)`)
	emphasis = regexp.MustCompile(`[*_]{1,3}|(?m:^[ \t]*#{1,6}[ \t]+|^[ \t]*>[ \t]?)`)
)

// readProse returns the facts of prose.
func readProse(text string) (f proseFacts) {
	text = listItem.ReplaceAllStringFunc(text, func(item string) string {
		f.items++
		_, size := utf8.DecodeLastRuneInString(item)
		return strings.Repeat(" ", len(item)-size) + item[len(item)-size:]
	})
	whole := text
	for _, pattern := range exactPatterns {
		for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
			exact := strings.TrimRight(whole[m[2]:m[3]], ".,;:!?")
			if strings.TrimSpace(text[m[2]:m[3]]) != "" && exact != "" {
				f.exact = append(f.exact, exact)
			}
			text = text[:m[2]] + strings.Repeat(" ", len(exact)) + text[m[2]+len(exact):]
		}
	}
	f.plain = emphasis.ReplaceAllStringFunc(text, func(m string) string { return strings.Repeat(" ", len(m)) })
	f.moments, f.undated = moments(f.plain)
	f.quantities = quantities(f.undated)
	return f
}

// maxFacts is the largest size, in bytes, of answer, question and rewrite together for which facts are read. It is
// more than rows may have, and bounds the time that comparing facts takes.
const maxFacts = 8 * maxRow

// facts returns the facts of the answer, the rewrite and the question, in this order.
func (c *candidate) facts() [3]proseFacts {
	if c.read == nil && len(c.prose)+len(c.source) > maxFacts {
		c.read = new([3]proseFacts) // A9 or S2 refuses it
	}
	if c.read == nil {
		c.read = &[3]proseFacts{readProse(c.parts.Prose()), readProse(c.prose), readProse(c.question)}
		c.read[0].names = properNames(c.read[0].undated, c.question)
	}
	return *c.read
}

// maxNamed is the maximum number of facts that a refusal lists.
const maxNamed = 6

// missing returns a verdict about facts that have to be in the rewrite. The reason, why with its %s filled in, lists
// the facts for which kept is false.
func missing[T any](all []T, what, why string, kept func(T) bool, show func(T) string) (bool, string) {
	var lost []string
	for _, fact := range all {
		if s := show(fact); !kept(fact) && !slices.Contains(lost, s) {
			lost = append(lost, s)
		}
	}
	if len(lost) > 0 {
		more := ""
		if len(lost) > maxNamed {
			more = fmt.Sprintf(" and %d more", len(lost)-maxNamed)
			lost = lost[:maxNamed]
		}
		return false, fmt.Sprintf(why, strings.Join(lost, ", ")+more)
	}
	return true, fmt.Sprintf("%s: %d", what, len(all))
}

// numbersKept finds each number, date and time of the answer in the rewrite, in digits or words and in any unit that
// it can be converted to, and no number in digits that neither the answer nor the question has.
func numbersKept(c *candidate) (bool, string) {
	facts := c.facts()
	source, text, question := facts[0], facts[1], facts[2]
	has := func(f proseFacts, q quantity) bool {
		return slices.ContainsFunc(f.quantities, q.same) || slices.ContainsFunc(f.moments, func(m moment) bool {
			return slices.ContainsFunc(m.parts, q.same)
		}) || f.items > 1 && q.same(quantity{values: []float64{float64(f.items)}})
	}
	prose := strings.ToLower(c.prose)
	in := func(q quantity) bool {
		if !q.digits && q.values[0] == 1 && (hasWord(prose, q.unit) || strings.Contains(prose, q.unit+"ly") ||
			slices.ContainsFunc(rates[q.unit], func(rate string) bool { return strings.Contains(prose, rate) })) {
			return true
		}
		return has(text, q) || slices.ContainsFunc(quantities(strings.Join(text.exact, "\n")), q.same)
	}
	var due []string
	lost := func(text string, kept bool) {
		if due = append(due, text); kept {
			due[len(due)-1] = ""
		}
	}
	for _, q := range source.quantities {
		if q.fact {
			lost(q.String(), in(q))
		}
	}
	for _, m := range source.moments {
		lacks := func(q quantity) bool { return !slices.ContainsFunc(text.quantities, q.same) }
		lost(fmt.Sprintf("%q", m.text), slices.ContainsFunc(text.moments, m.same) ||
			len(m.parts) > 1 && !slices.ContainsFunc(m.parts, lacks))
	}
	if ok, why := missing(due, "numbers", "it lacks %s of the answer", func(s string) bool { return s == "" },
		func(s string) string { return s }); !ok {
		return false, why
	}
	known := append(quantities(strings.Join(append(source.exact, question.exact...), "\n")), quantity{})
	for _, q := range text.quantities {
		if q.digits && !has(source, q) && !has(question, q) && !slices.ContainsFunc(known, q.same) {
			return false, fmt.Sprintf("it has a number, %q, that neither the question nor the answer has", q.text)
		}
	}
	numbers := append(source.quantities, question.quantities...)
	for _, m := range text.moments {
		if !slices.ContainsFunc(append(source.moments, question.moments...), m.within) &&
			slices.ContainsFunc(m.parts, func(q quantity) bool { return !slices.ContainsFunc(numbers, q.same) }) {
			return false, fmt.Sprintf("it has a date or time, %q, that neither the question nor the answer has", m.text)
		}
	}
	return true, fmt.Sprintf("numbers: %d", len(due))
}

// rates has the forms of units that express a unit without its name.
var rates = map[string][]string{"second": {"/s", "ps"}, "minute": {"/min", "rpm", "bpm"}, "hour": {"/h", "mph", "kph",
	"kmh"}, "day": {"daily", "everyday"}, "year": {"annual", "p.a."}}

// exactKept finds each link, address, path, piece of inline code and quotation of the answer in the rewrite.
func exactKept(c *candidate) (bool, string) {
	plain := func(s string) string { return strings.Join(strings.Fields(spelling.Replace(strings.ToLower(s))), " ") }
	text := plain(c.prose)
	return missing(c.facts()[0].exact, "links, names in code and quotations", "it lacks, character by character, %s",
		func(s string) bool { return strings.Contains(text, plain(s)) },
		func(s string) string { return fmt.Sprintf("%q", s) })
}

// namesKept finds each name of the answer in the rewrite (see properNames).
func namesKept(c *candidate) (bool, string) {
	if capitalizes(c.parts.Prose()) {
		return true, "not checked: the language gives many words capitals"
	}
	words, initials, text := map[string]bool{}, "", strings.ToLower(c.prose)
	for _, w := range nameWord.FindAllString(days.ReplaceAllString(c.prose, "$1 $2"), -1) {
		w = bareName(w)
		words[w] = true
		if !voice.SmallWord(w) {
			r, _ := utf8.DecodeRuneInString(w)
			initials += string(r)
		}
	}
	has := func(name string) bool {
		name = bareName(name)
		if weekday.MatchString(name) {
			return slices.ContainsFunc(slices.Collect(maps.Keys(words)), func(w string) bool {
				return weekday.MatchString(w) && w[:3] == name[:3]
			})
		}
		if parts := hyphen.Split(name, -1); len(parts) > 1 && !slices.Contains(parts, "") { // Wi-Fi may be WiFi
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			return regexp.MustCompile(`\b` + strings.Join(parts, `\s*[+-]?\s*`) + `(?:s?\b|$)`).MatchString(text)
		}
		return words[name] || words[name+"s"] || words[strings.TrimSuffix(name, "s")] || hasWord(text, name)
	}
	kept := func(name []string) bool {
		if !slices.ContainsFunc(name, func(w string) bool { return !has(w) }) {
			return true
		}
		short := ""
		for _, w := range name {
			r, _ := utf8.DecodeRuneInString(bareName(w))
			short += string(r)
		}
		if len(name) > 1 {
			return words[short] // the United Nations are the UN
		}
		long := bareName(strings.ReplaceAll(name[0], ".", ""))
		return len(long) > 1 && strings.ToUpper(name[0]) == name[0] && strings.Contains(initials, long)
	}
	return missing(c.facts()[0].names, "names", "it lacks the names %s", kept, func(name []string) string {
		return strings.Join(name, " ")
	})
}

// listsKept compares the numbers of list items.
func listsKept(c *candidate) (bool, string) {
	want, got := c.facts()[0].items, c.facts()[1].items
	if want > 1 && got != want {
		return false, fmt.Sprintf("its lists have %d items, the answer's %d: keep each on a line of its own", got, want)
	}
	return true, fmt.Sprintf("items: %d", want)
}

// minMeanings is the smallest share of the answer's words, each in any form, that the rewrite has to have.
const minMeanings = 0.25

// wordsKept finds some of the words of an English answer in an English rewrite. A rewrite that says the same cannot
// do without all of them.
func wordsKept(c *candidate) (bool, string) {
	own := meanings(c.facts()[0].plain)
	if len(own) == 0 || len(own) < minTies && len(c.facts()[0].exact) > 0 { // such as: see example.org
		return true, "not checked: it has hardly any words"
	}
	if c.said().English() < minEnglish || len(own) > 4 && !speaksEnglish(c.parts.Prose()) {
		return true, "not checked: not English"
	}
	text, kept := meanings(c.prose), 0
	for w := range own {
		if text[w] {
			kept++
		}
	}
	value := fmt.Sprintf("%d of %d words of the answer", kept, len(own))
	if float64(kept) < minMeanings*float64(len(own)) {
		return false, fmt.Sprintf("it has only %s: say everything that the answer says", value)
	}
	return true, value
}

var (
	nameWord = regexp.MustCompile(`[\pL\pN]+(?:[.'’&+#-][\pL\pN]+|[+#]+)*`)
	// sentenceStart matches text after which a sentence starts.
	sentenceStart = regexp.MustCompile(`(?:^\s*|[.!?:;…。"“”«(\[|–—]["'”’)\]*]*\s*|\n\s*)$`)
	innerWord     = regexp.MustCompile(`\pL[ ,](\pL)\pL+`)
	initialDot    = regexp.MustCompile(`(?i)(?:^|[\s(.])(?:\pL|dr|mr|mrs|ms|prof|st|vs|no|e\.g|i\.e|inc|jr|sr)\.\s*$`)
)

// weekday matches the name of a day of the week in lower case.
var weekday = regexp.MustCompile(`^(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?$`)

// days matches a range such as Mon-Fri, and names such as Coca-Cola, which then count as two words.
var days = regexp.MustCompile(`\b([A-Z][a-z]{2,8})-([A-Z][a-z]+)`)

// hyphen separates the parts of names such as Wi-Fi and Ctrl+C.
var hyphen = regexp.MustCompile(`[+-]`)

// dotted matches an abbreviation such as U.S in lower case.
var dotted = regexp.MustCompile(`^\pL(?:\.\pL)+$`)

// loud are words that are written in capitals for emphasis.
var loud = strings.Fields("do not must never always all only warning note important caution tip ok okay yes no and " +
	"or stop before after any every faq asap diy")

// bareName returns a name in lower case without a possessive ending and without the dots of U.S.
func bareName(w string) string {
	w = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.ReplaceAll(w, "’", "'")), "'s"), ".")
	if dotted.MatchString(w) {
		return strings.ReplaceAll(w, ".", "")
	}
	return w
}

// properNames returns the names in English or similar prose: words with capitals inside sentences, words that are all
// capitals or mix them, and words that mix letters and digits. Words that the text or the question also has without
// capitals are not names. Names that follow each other are one name.
func properNames(text, question string) (found [][]string) {
	text = days.ReplaceAllString(text, "$1 $2")
	common := map[string]bool{}
	for _, w := range nameWord.FindAllString(text+"\n"+question, -1) {
		if w == strings.ToLower(w) && !mixes(w) {
			common[w] = true
		}
	}
	asked := map[string]bool{} // names of the question
	for i, at := range nameWord.FindAllStringIndex(question, -1) {
		if i > 0 && startsUpper(question[at[0]:]) {
			asked[bareName(question[at[0]:at[1]])] = true
		}
	}
	short := len(strings.Fields(text)) <= 3 // the answer is a name, most likely
	for line := range strings.Lines(text) {
		title, last := isTitle(line), -1
		for _, at := range nameWord.FindAllStringIndex(line, -1) {
			w := line[at[0]:at[1]]
			before := line[max(0, at[0]-12):at[0]] // the patterns look no further back, and so take linear time
			starts := sentenceStart.MatchString(before) && !initialDot.MatchString(before)
			bare := bareName(w)
			isName := false
			switch {
			case strings.HasSuffix(before, " ."): // the ending of a file's name
				isName = true
			case voice.SmallWord(bare) || common[bare] || slices.Contains(loud, bare) || bare == "i":
			case units[bare].name != "" || strings.HasSuffix(strings.TrimRight(before, " "), "°"): // of a quantity
			case mixes(w), startsUpper(w) && weekday.MatchString(bare):
				isName = true
			case !startsUpper(w), title && !short:
			default:
				isName = !starts || short || asked[bare]
			}
			if !isName {
				continue
			}
			if last >= 0 && strings.TrimSpace(line[last:at[0]]) == "" {
				found[len(found)-1] = append(found[len(found)-1], w)
			} else {
				found = append(found, []string{w})
			}
			last = at[1]
		}
	}
	return found
}

func startsUpper(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}

// mixes reports whether a word mixes letters and digits as names do, is an acronym, or has capitals inside.
func mixes(w string) bool {
	upper, lower, digits := 0, 0, 0
	for _, r := range w {
		switch {
		case unicode.IsUpper(r):
			upper++
		case unicode.IsLetter(r):
			lower++
		case unicode.IsDigit(r):
			digits++
		}
	}
	switch r, _ := utf8.DecodeRuneInString(w); {
	case digits > 0 && upper+lower > 0:
		return !unicode.IsDigit(r) || len(quantities(w)) == 0 // 5km is a quantity
	case digits > 0:
		return strings.Count(w, ".") > 1 // a version or an address
	}
	return upper > 1 || upper == 1 && !startsUpper(w)
}

// isTitle reports whether a line gives most of its longer words capitals, as titles do.
func isTitle(line string) bool {
	all, upper := 0, 0
	for _, w := range nameWord.FindAllString(line, -1) {
		if utf8.RuneCountInString(w) > 3 {
			all++
			if startsUpper(w) {
				upper++
			}
		}
	}
	return all > 2 && 4*upper >= 3*all && !strings.ContainsAny(strings.TrimSpace(line), ".!?")
}

// capitalizes reports whether a text is in a language that gives all nouns capitals, such as German.
func capitalizes(text string) bool {
	if speaksEnglish(text) {
		return false
	}
	all, upper := 0, 0
	for _, m := range innerWord.FindAllStringSubmatch(text, -1) {
		if all++; startsUpper(m[1]) {
			upper++
		}
	}
	return all > 5 && 6*upper > all
}
