package teacher

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/voice"
)

// The limits of the acceptance checks.
const (
	minSource = 40   // characters of code in a source answer
	maxSource = 1200 // the same
	maxRow    = 1800 // characters of question and rewrite together: what fits in 512 tokens of a Llama-3 vocabulary
	maxRatio  = 15   // the rewrite's length as a multiple of the source's

	// maxLook is the largest source row, in bytes, that is parsed: a longer one fails S2 whatever it contains.
	maxLook = 64 << 10
)

// tooLong returns the failed check of a row that is too long to be parsed, or nil for any other row.
func tooLong(instruction, input, output string) *dataset.Check {
	n := len(instruction) + len(input) + len(output)
	if n <= maxLook {
		return nil
	}
	return &dataset.Check{
		ID: "S2", Value: fmt.Sprintf("%d bytes: must be at most %d characters with the question", n, maxRow),
	}
}

// A candidate is a rewrite to be checked, with values that several checks derive from it.
type candidate struct {
	style    *voice.Style
	question string
	parts    Parts   // of the source's answer
	text     string  // the rewrite as it would be stored
	pieces   []piece // of the text
	prose    string  // the text outside its fences
	source   string  // code and question, from which a stated value may come

	// Computed on first use.
	words   *voice.Text     // the prose; see said
	known   map[string]bool // names in the code; see isName
	context string          // the source's lexemes; see has
	scored  *voice.Tone     // see tone
	talked  *uint8          // see talk
	read    *[3]proseFacts  // see facts
}

func newCandidate(style *voice.Style, question string, parts Parts, text string) *candidate {
	c := &candidate{style: style, question: question, parts: parts, text: text, pieces: splitFences(text)}
	var prose strings.Builder
	for _, p := range c.pieces {
		if !p.code {
			prose.WriteString(p.text + "\n")
		}
	}
	c.prose = prose.String()
	c.source = strings.Join(parts.Blocks, "\n") + "\n" + question
	if parts.restated {
		c.source += "\n" + parts.Prose()
	}
	return c
}

// tone returns the tone of the text.
func (c *candidate) tone() voice.Tone {
	if c.scored == nil {
		t := c.style.Tone(voice.Read(c.text))
		c.scored = &t
	}
	return *c.scored
}

// said returns the prose, split into words.
func (c *candidate) said() voice.Text {
	if c.words == nil {
		t := voice.Read(c.prose)
		c.words = &t
	}
	return *c.words
}

// isName reports whether the source's code uses a name.
func (c *candidate) isName(name string) bool {
	if c.known == nil {
		c.known = map[string]bool{}
		for _, b := range c.parts.Blocks {
			maps.Copy(c.known, python.Identifiers(b))
			if !c.parts.isPython() {
				for _, name := range names.FindAllString(b, -1) {
					c.known[name] = true
				}
			}
		}
	}
	return c.known[name]
}

// A check is a condition that every row has to meet. Its function returns whether the row meets it and a value to
// record; if the row fails, the value is the reason, as a clause that goes into the teacher's next prompt.
type check struct {
	id   string
	what string
	f    func(*candidate) (bool, string)
	only answerKind // the answers to which it applies
}

// An answerKind says whether an answer's prose is written around code or restated.
type answerKind uint8

const (
	anyAnswer answerKind = iota
	aroundCode
	restated
)

// sourceChecks apply to a source row before the teacher is asked, textChecks to a rewrite. A1 (the teacher finished),
// A2's placeholders and A10 (the dataset stays varied) need more than the row: see checkAnswer, Parts.join and ledger.
var (
	sourceChecks = []check{
		{"S1", "the source is in the language", sourceIsCode, anyAnswer},
		{"S2", "the source is neither too short nor too long", sourceLength, anyAnswer},
		{"S3", "the source is not in the voice already", sourcePlain, anyAnswer},
	}
	textChecks = []check{
		{"A2", "code is in closed fences tagged with its language", fencesClosed, anyAnswer},
		{"A3", "the code is the source's", codeKept, anyAnswer},
		{"A4", "names in backticks are the code's or the language's", namesKnown, anyAnswer},
		{"A5", "no talk about the task of rewriting", noMeta, anyAnswer},
		{"A6", "no refusal", noRefusal, anyAnswer},
		{"A7", "the tone is strong enough", toneThere, anyAnswer},
		{"A8", "no slurs, profanity or threats", noBanned, anyAnswer},
		{"A9", "the length is right", lengthRight, anyAnswer},
		{"A11", "every stated result is in the source", nothingInvented, aroundCode},
		{"A12", "no artifacts of a decoder", noArtifacts, anyAnswer},
		{senseChecked, "the words make sentences, as far as counts can tell", makesSense, anyAnswer},
		{"A15", "the answer's numbers, dates and times are there, and no others", numbersKept, restated},
		{"A16", "the answer's names are there", namesKept, restated},
		{"A17", "the answer's links, names in code and quotations are there", exactKept, restated},
		{"A18", "lists have the answer's items", listsKept, restated},
		{"A19", "what the answer denies stays denied", denialsKept, restated},
		{"A20", "the answer's words are there", wordsKept, restated},
	}
)

// senseChecked is the check that finds word salad. It does not apply to answers of Builtin, whose sentences people
// wrote.
const senseChecked = "A14"

// run makes checks in order and returns their verdicts, and the first that failed, or nil if none did.
func run(checks []check, c *candidate) (verdicts []dataset.Check, failed *dataset.Check) {
	kind := aroundCode
	if c.parts.restated {
		kind = restated
	}
	for _, k := range checks {
		if k.only != anyAnswer && k.only != kind {
			continue
		}
		pass, value := k.f(c)
		verdicts = append(verdicts, dataset.Check{ID: k.id, Pass: pass, Value: value})
		if !pass && failed == nil {
			failed = &dataset.Check{ID: k.id, Value: value}
		}
	}
	return verdicts, failed
}

// Audit makes every check that is possible on a finished row from any source, whose code is in a language as
// [Run.Language] names it: all but S4 and A10. Because the finish reason is unknown, Audit judges A1 by the end of
// the text.
func Audit(style *voice.Style, language string, r dataset.Rewritten) []dataset.Check {
	if failed := tooLong(r.Instruction, r.Input, r.OutputOriginal+r.OutputPassiveAggressive); failed != nil {
		return []dataset.Check{*failed}
	}
	c := newCandidate(style, dataset.Question(r.Instruction, r.Input), splitIn(language, r.OutputOriginal),
		r.OutputPassiveAggressive)
	verdicts, _ := run(sourceChecks, c)
	whole, value := endsWhole(c)
	verdicts = append(verdicts, dataset.Check{ID: "A1", Pass: whole, Value: value})
	rest, _ := run(textChecks, c)
	return append(verdicts, rest...)
}

func sourceIsCode(c *candidate) (bool, string) {
	if found := strayFence.FindString(c.parts.Text); found != "" { // the code in it would be lost with the prose
		return false, fmt.Sprintf("%q: a fence behind the mark of a list or a quotation is not read: "+
			"begin a line with it", strings.TrimSpace(found))
	}
	if c.parts.Other != "" {
		return false, fmt.Sprintf("the answer has a block of %s", c.parts.Other)
	}
	if c.parts.open {
		return false, "a fence is not closed"
	}
	if c.parts.restated {
		if len(c.parts.Blocks) == 0 && isProgram(c.parts.Text) {
			return false, "it looks like code without a fence"
		}
		return true, strings.Join(append([]string{"prose"}, c.parts.Tags...), ", ")
	}
	for i, b := range c.parts.Blocks {
		if c.parts.tag(i) != Python {
			if c.parts.whole && !looksLikeCode(b) {
				return false, "it has no fenced code and does not look like " + c.parts.tag(i)
			}
			continue
		}
		err := python.Check(b)
		if err == nil {
			err = python.LooksLikePython(b)
		}
		switch {
		case err != nil && c.parts.Text == placeholder(1) && !HasCode(b):
			return false, fmt.Sprintf("it has no fenced code and is not Python: %v. The language %q restates answers in prose",
				err, NoLanguage)
		case err != nil && c.parts.Text == placeholder(1):
			return false, "it has no fenced code and is not Python: " + err.Error()
		case err != nil:
			return false, err.Error()
		}
	}
	if !c.parts.isPython() {
		return true, strings.Join(c.parts.Tags, ", ")
	}
	return true, "python"
}

func sourceLength(c *candidate) (bool, string) {
	if !strings.ContainsFunc(c.question, unicode.IsLetter) {
		return false, "the question has no words"
	}
	n := c.sourceLen()
	value := fmt.Sprintf("%d characters", n)
	least := minSource
	if c.parts.restated {
		least = 1
	}
	if n < least || n > maxSource {
		return false, fmt.Sprintf("%s: must be %d to %d", value, least, maxSource)
	}
	if row := utf8.RuneCountInString(c.source); row > maxRow {
		shown := "code"
		if c.parts.restated {
			shown = "answer"
		}
		return false, fmt.Sprintf("question and %s have %d characters: must be at most %d, with the rewrite's prose",
			shown, row, maxRow)
	}
	return true, value
}

func sourcePlain(c *candidate) (bool, string) {
	score := c.style.Tone(voice.Read(strings.Join(c.parts.Blocks, "\n") + "\n" + c.parts.Prose())).Score
	return score < c.style.MinScore, fmt.Sprintf("score %d", score)
}

// sourceLen returns the length of the source answer, in characters.
func (c *candidate) sourceLen() (n int) {
	for _, b := range c.parts.Blocks {
		n += utf8.RuneCountInString(b)
	}
	return n + utf8.RuneCountInString(c.parts.Prose())
}

// codeKept proves that the code in the fences is the source's: block by block, or, if the source is one block, in one
// of the fences or in all of them together.
func codeKept(c *candidate) (bool, string) {
	var fenced []string
	for _, p := range c.pieces {
		if p.code {
			fenced = append(fenced, p.text)
		}
	}
	if len(fenced) == 0 && len(c.parts.Blocks) == 0 {
		return true, "no code"
	}
	if len(fenced) == 0 {
		return false, "there is no fenced code"
	}
	var difference string
	if len(fenced) == len(c.parts.Blocks) {
		equal, verbatim := true, true
		for i, b := range c.parts.Blocks {
			if b == fenced[i] {
				continue
			}
			verbatim = false
			if ok, where := c.parts.same(i, fenced[i]); !ok {
				equal, difference = false, where
				break
			}
		}
		if verbatim {
			return true, "verbatim"
		}
		if equal {
			return true, "equal"
		}
	}
	if len(c.parts.Blocks) == 1 && len(fenced) > 1 && c.parts.isPython() {
		for _, f := range fenced {
			if ok, _ := python.Equal(c.parts.Blocks[0], f); ok {
				return true, "equal in one fence of several"
			}
		}
		ok, where := python.Equal(c.parts.Blocks[0], strings.Join(fenced, "\n"))
		if ok {
			return true, "equal over several fences"
		}
		difference = where
	}
	if difference == "" {
		difference = fmt.Sprintf("%d blocks, the source has %d", len(fenced), len(c.parts.Blocks))
	}
	return false, "the code is not the source's: " + difference
}

var inlineCode = regexp.MustCompile("`([^`\n]+)`")

// namesKnown accepts inline code that the source or the question contains as it is. It also accepts code whose names
// are all the source's, keywords or builtins, and whose literals are all in the source.
func namesKnown(c *candidate) (bool, string) {
	found := inlineCode.FindAllStringSubmatch(c.prose, -1)
	for _, m := range found {
		if snippet := strings.TrimSpace(m[1]); !c.knows(snippet) {
			return false, fmt.Sprintf("`%s` stands in backticks but not in the code", snippet)
		}
	}
	return true, fmt.Sprintf("%d in backticks", len(found))
}

// knows reports whether namesKnown accepts a snippet of inline code.
func (c *candidate) knows(snippet string) bool {
	if c.parts.restated {
		return strings.Contains(strings.ToLower(c.source), strings.ToLower(snippet)) || c.has(snippet)
	}
	tokens, err := python.Tokenize(snippet)
	if err != nil || !c.parts.isPython() && strings.Contains(c.source, snippet) {
		return c.has(snippet)
	}
	for _, t := range tokens {
		switch t.Kind {
		case python.Name:
			if !c.isName(t.Text) && !python.IsKeyword(t.Text) && !python.IsBuiltin(t.Text) && !hasWord(c.question, t.Text) {
				return false
			}
		case python.Number, python.String, python.FStringStart:
			if !c.has(t.Text) && !c.has("-"+t.Text) {
				return false
			}
		}
	}
	return true
}

// hasWord reports whether text contains a name as a whole word.
func hasWord(text, word string) bool {
	inWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for i := 0; ; {
		j := strings.Index(text[i:], word)
		if j < 0 {
			return false
		}
		j += i
		before, _ := utf8.DecodeLastRuneInString(text[:j])
		after, _ := utf8.DecodeRuneInString(text[j+len(word):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		i = j + 1
	}
}

// The patterns of A5 and A6. A match of metaPatterns talks about the task itself, though the question may be about
// rewriting; one of askedPatterns describes what was asked for; one of leakPatterns repeats what only a teacher sees.
var (
	metaPatterns = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\bre-?writ(?:e|es|ing|ten)\b`, `\brewrote\b`,
		`\bpassive[- ]aggressive(?:ly)?\b`,
		`\b(?:your|these|those|given)\s+(?:\w+\s+)?constraints\b`,
		`\b(?:in|with) (?:a|the|this|that) (?:\w+[ -])?(?:tone|persona|register|voice|style) (?:you|of a|requested|as)\b`,
		`\bas (?:per|you) (?:your |the )?(?:instruct\w*|request\w*|prompt)\b`,
	}, `|`))
	askedPatterns = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\bin the (?:requested|required|desired|given|right|same) (?:tone|persona|register|voice|style)\b`,
		`\b(?:answer|version|response|reply|explanation)\b[^.!?\n]{0,20}\b(?:in|with) an? [\w-]+ (?:tone|persona|` +
			`register|voice|style)\b`,
		`\b(?:revised|reworded|rephrased|sarcastic|condescending|snarky|rude) (?:version|answer|response|reply|` +
			`explanation)\b`,
		`\b(?:sarcasm|snark|condescension|tone|voice|style),? as (?:asked|requested|instructed|ordered|required)\b`,
		`\b(?:about|around|roughly|approximately|under|within) \d+ words\b`,
		`\bas instructed\b`,
	}, `|`))
	leakPatterns = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`(?-i:\bQUESTION:)`, `(?m:^\W*question:)`, `\bprincipal engineer\b`, `\boriginal answer\b`, `\bpersona\b`,
		`\b(?:system|user) prompt\b`, `<\/?(?:question|code|rewrite|comments|explanation|answer)\b`,
		`\bfew-shot\b`, `\bplaceholder\b.*\[\[`, `\b(?:the|your|my) placeholder\b`, `\bcode_\d+\b`,
	}, `|`))
	refusalPatterns = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b`,
		`\bI(?:'|’| a)m sorry,? but I(?:'|’| a)m (?:unable|not able)\b`,
		`\bI(?:'|’| a)m sorry,? but I ` + cannot + ` (?:do|be|assist|comply|continue|engage|accommodate|fulfil|fulfill|` +
			`provide|help|answer|write|create|generate|produce)\b`,
		`\bI ` + cannot + ` (?:assist|comply|fulfil|fulfill|help (?:you )?with|answer th)`,
		`\bI ` + cannot + ` (?:provide|create|generate|produce|write) (?:you with|an? (?:answer|response)|any|anything|` +
			`answers?|assistance|content|help|information|instructions|material|responses?|such|text|that|this)\b`,
		`\bI ` + cannot + ` be (?:abusive|condescending|cruel|demeaning|disrespectful|insulting|mean|passive|rude|` +
			`sarcastic)\b`,
		`\bI (?:must|have to|will) (?:\w+ )?decline\b`,
		`\bI(?:'|’| a)m (?:unable|not able) to (?:assist|comply|provide|help|fulfil)`,
		`\bagainst my (?:guidelines|programming|policies)\b`,
	}, `|`))
)

const cannot = `(?:can(?:'|’)t|cannot|can not|won(?:'|’)t|will not)`

// Literal words, in lower case: the patterns above match only text with at least one of them. Searching for them
// first saves most of the patterns' time, so they are as long as possible.
var (
	metaWords = []string{"rewrit", "re-writ", "rewrote", "passive", "constraints", "tone", "persona", "register",
		"voice", "style", "as per", "as you"}
	askedWords = []string{"tone", "persona", "register", "voice", "style", "revised ", "reworded ", "rephrased ",
		"sarcas", "condescen", "snark", "rude ", " words", "as instructed"}
	leakWords = []string{"question:", "principal", "original answer", "persona", "prompt", "</", "<q", "<c", "<r", "<e",
		"<a", "few-shot", "placeholder", "code_"}
	refusalWords = []string{" ai", "language model", "artificial", "sorry", "i can't", "i can’t", "i cannot", "i can not",
		"i won't", "i won’t", "i will not", "m unable", "m not able", "decline", "against my"}
)

// topics are stems of words that A5 searches for but that a question may be about, without hyphens and spaces.
var topics = []string{"rewr", "passive", "constraint", "tone", "persona", "register", "voice", "style", "version",
	"prompt", "instruct", "words", "sarcas", "placeholder", "fewshot"}

// The bits of the lists in talkWords.
const (
	metaTalk = 1 << iota
	askedTalk
	leakTalk
	refusalTalk
)

var talkWords = indexWords(metaWords, askedWords, leakWords, refusalWords)

// talk returns the lists of talkWords that have a word in the prose.
func (c *candidate) talk() uint8 {
	if c.talked == nil {
		lists := talkWords.in(strings.ToLower(c.prose))
		c.talked = &lists
	}
	return *c.talked
}

// mentions returns the first match of a pattern in the prose for which keep is true, or "" if there is none. No match
// goes beyond a sentence, and few sentences contain a word of the list, which a match needs.
func (c *candidate) mentions(list uint8, pattern *regexp.Regexp, keep func(match string) bool) string {
	if c.talk()&list == 0 {
		return ""
	}
	for sentence := range sentences(c.prose) {
		if talkWords.in(strings.ToLower(sentence))&list == 0 {
			continue
		}
		for _, m := range pattern.FindAllString(sentence, -1) {
			if keep(m) {
				return m
			}
		}
	}
	return ""
}

// noMeta refuses talk about the task, unless the question or the code brings it up.
func noMeta(c *candidate) (bool, string) {
	own := func(match string) bool { return !c.bringsUp(match) }
	if c.talk()&leakTalk != 0 { // a match of these may go beyond a sentence
		for _, m := range leakPatterns.FindAllString(c.prose, -1) {
			if own(m) {
				return false, fmt.Sprintf("it mentions %q", m)
			}
		}
	}
	for _, talk := range []struct {
		list    uint8
		pattern *regexp.Regexp
	}{{metaTalk, metaPatterns}, {askedTalk, askedPatterns}} {
		if m := c.mentions(talk.list, talk.pattern, own); m != "" {
			return false, fmt.Sprintf("it mentions %q", m)
		}
	}
	if c.style.Repeats(c.said()) {
		return false, "it repeats several words of its instructions in a row"
	}
	return true, "none"
}

// bringsUp reports whether the source contains a pattern's match, or the same topic.
func (c *candidate) bringsUp(match string) bool {
	plain := strings.NewReplacer("-", "", " ", "")
	source, match := plain.Replace(strings.ToLower(c.source)), plain.Replace(strings.ToLower(match))
	return strings.Contains(source, match) || slices.ContainsFunc(topics, func(topic string) bool {
		return strings.Contains(match, topic) && strings.Contains(source, topic)
	})
}

func noRefusal(c *candidate) (bool, string) {
	if m := c.mentions(refusalTalk, refusalPatterns, func(string) bool { return true }); m != "" {
		return false, fmt.Sprintf("it refuses: %q", m)
	}
	return true, "none"
}

func toneThere(c *candidate) (bool, string) {
	t := c.tone()
	value := fmt.Sprintf("score %d, %d cues, %.1f per 100 words", t.Score, len(t.Cues), t.Density)
	switch low, high := c.style.Density[0], c.style.Density[1]; {
	case t.Score < c.style.MinScore || len(t.Cues) < c.style.MinCues:
		return false, fmt.Sprintf("the tone is too weak (%s, wanted are %d and %d): use more of the voice",
			value, c.style.MinScore, c.style.MinCues)
	case t.Density < low || t.Density > high:
		return false, fmt.Sprintf("the tone is laid on too thin or too thick (%s, wanted are %g to %g)", value, low, high)
	}
	return true, value
}

func noBanned(c *candidate) (bool, string) {
	var sources []voice.Text
	if c.parts.restated {
		sources = append(sources, voice.Read(c.parts.Prose()))
	}
	if word := c.style.BannedIn(c.said(), sources...); word != "" {
		return false, fmt.Sprintf("it uses %q", word)
	}
	return true, "none"
}

func lengthRight(c *candidate) (bool, string) {
	words := c.tone().Words
	chars := utf8.RuneCountInString(c.text)
	row := utf8.RuneCountInString(c.question) + chars
	length := max(1, c.sourceLen())
	if c.parts.restated {
		length = max(minSource, length)
	}
	ratio := float64(chars) / float64(length)
	value := fmt.Sprintf("%d words, %d characters, %.1f times the source", words, chars, ratio)
	switch {
	case words < c.style.Words[0] || words > c.style.Words[1]:
		around := " around the code"
		if c.parts.restated {
			around = ""
		}
		return false, fmt.Sprintf("it has %d words%s, allowed are %d to %d", words, around,
			c.style.Words[0], c.style.Words[1])
	case row > maxRow:
		return false, fmt.Sprintf("question and answer have %d characters, allowed are %d: be shorter", row, maxRow)
	case ratio > maxRatio:
		return false, fmt.Sprintf("it is %.1f times as long as the source, allowed is %d times: be shorter", ratio, maxRatio)
	}
	return true, value
}
