package teacher

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"restyle/internal/python"
)

// A value in prose is inline code, a list, dict or tuple of literals, a number, a constant or a quoted string. An
// apostrophe does not open a string, and neither does a quotation mark around a whole remark.
const (
	codeValue = "`[^`\\n]+`"
	bracketed = `\[[^\[\]\n]*\]|\{[^{}\n]*\}|\(\s*[-'"\d][^()\n]*,[^()\n]*\)`
	literal   = bracketed + `|-?\b\d{1,3}(?:,\d{3})+\b|-?\b\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?\b|(?-i:\b(?:True|False|` +
		`None)\b)`
	quotedValue = `"[^\s".,;!?][^"\n]{0,60}"|“[^\s”.,;!?][^”\n]{0,60}”|'[^\s'.,;!?][^'\n]{0,60}'`
	whatIs      = `output|result|return value|printed value|answer|sum|total|average|mean|median|product|maximum|` +
		`minimum|count|length|difference`
	comesOut = `prints?|printing|outputs?|outputting|returns?|returning|displays?|yields?|produces?|evaluates? to|` +
		`comes? (?:out|back) (?:as|to|with)|comes? to|gives?|results? in|you(?:'ll| will|’ll)? (?:get|see)|spits? out|` +
		`ends? up (?:with|as)|becomes?|turns? into|equals?|amounts? to|(?:adds? up|sums?) to|leaves (?:you|us) with`
)

// statedResults match prose that starts with a word for the code's result or output and continues with a value.
var statedResults = []statement{
	{ofResult, regexp.MustCompile(`^(?i)(?:` + whatIs + `)s?\b[^.!?\n]{0,40}?(?:\bis\b|\bare\b|\bbe\b|\bwas\b|:|=)\s*(` +
		literal + `|` + quotedValue + `|` + codeValue + `)`)},
	{ofOutput, regexp.MustCompile(`^(?i)(?:` + comesOut + `)\b[^.!?\n]{0,25}?[\s(:](` + literal + `|` + codeValue + `)`)},
	{ofOutput, regexp.MustCompile(`^(?i)(?:` + comesOut +
		`)(?: (?:a|an|the|you|us|out|back|just|simply|exactly|string|text|message|value|word|words))*:?\s+` +
		`(` + quotedValue + `)`)},
}

// A statement is a pattern and the kind of word that it starts with.
type statement struct {
	begins  uint8 // ofResult or ofOutput
	pattern *regexp.Regexp
}

const (
	ofResult = 1 << iota // a word of whatIs
	ofOutput             // a word of comesOut
)

// stems has the beginnings of the words that statedResults start with, in lower case. The patterns are slow, and most
// words do not start a statement.
var stems = indexWords([]string{"output", "result", "return", "printed", "answer", "sum", "total", "average", "mean",
	"median",
	"product", "maximum", "minimum", "count", "length", "difference"},
	[]string{"print", "output", "result", "return", "display", "yield", "produce", "evaluate", "come", "give", "you",
		"spit", "end", "become",
		"turn", "equal", "amount", "add", "sum", "leave"})

// stated yields where a sentence states a result by the pattern s: the offsets of the statement and of the value's
// start and end. Statements do not overlap.
func stated(sentence string, s statement) iter.Seq[[3]int] {
	return func(yield func([3]int) bool) {
		for at := 0; at < len(sentence); at++ {
			if mayBegin(sentence, at)&s.begins == 0 {
				continue
			}
			if m := s.pattern.FindStringSubmatchIndex(sentence[at:]); m != nil {
				if !yield([3]int{at, at + m[2], at + m[3]}) {
					return
				}
				at += m[1] - 1
			}
		}
	}
}

// mayBegin returns the kinds of statement that may start at an offset, by the stem of the word there.
func mayBegin(sentence string, at int) (kinds uint8) {
	rest := sentence[at:]
	if at > 0 && isWord(sentence[at-1]) || len(rest) < 2 {
		return 0
	}
	for _, s := range stems[pair(rest)] { // the pair is the same in capitals
		if len(rest) >= len(s.word) && strings.EqualFold(rest[:len(s.word)], s.word) {
			kinds |= s.list
		}
	}
	return kinds
}

// isWord reports whether a byte matches \w; \b matches between a byte that does and one that does not.
func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// mayState is a fast test for whether a sentence has a value that a statement could end with.
func mayState(sentence string) bool {
	return strings.ContainsAny(sentence, "`[({\"“0123456789") || strings.Count(sentence, "'") > 1 ||
		constants.in(sentence) != 0
}

var constants = indexWords([]string{"True", "False", "None"})

var (
	// counts matches text after a number that counts the next word, and so is not a value: "10 seconds away", "1 less
	// excuse".
	counts = regexp.MustCompile(`^ [a-z]`)
	// afterValue matches text that may follow a number that is a value.
	afterValue = regexp.MustCompile(`^ (?:for|when|if|as|and|or|because|since|given|which|on|in|with|to|after|every|` +
		`at|but|of course|again|here|exactly|obviously|naturally)\b`)
	// remark matches a word in quotation marks, which may be a remark on a result: the answer is "helpful", I am
	// told.
	remark = regexp.MustCompile(`^(?:"[a-z]+(?:",|,")|“[a-z]+(?:”,|,”))`)
)

// statesValue reports whether sentence[from:to], in a statement that starts at start, is meant as a value.
func statesValue(sentence string, start, from, to int) bool {
	value, rest := sentence[from:to], sentence[to:]
	if isNumber(value) {
		return !counts.MatchString(rest) || afterValue.MatchString(rest)
	}
	subject := strings.ToLower(sentence[start:from])
	return !remark.MatchString(sentence[from:]) ||
		!strings.HasPrefix(subject, "result") && !strings.HasPrefix(subject, "answer")
}

// precise matches values that no one writes by chance: decimal fractions, numbers of two or more digits that count
// nothing, and brackets around two or more elements that do not follow a name or a call.
var precise = regexp.MustCompile(`-?\b\d+\.\d+\b|-?\b\d{2,}\b|(?:^|[^\w\])])(` + bracketed + `)`)

// mayBePrecise is a fast test for whether precise may match: two digits, a digit and a point, a bracket or brace, or a
// parenthesis before a literal.
func mayBePrecise(prose string) bool {
	for rest := prose; ; {
		i := strings.IndexAny(rest, "0123456789[{(")
		if i < 0 || i+1 == len(rest) {
			return false
		}
		mark, after := rest[i], rest[i+1:]
		rest = after
		switch next := after[0]; {
		case mark == '[' || mark == '{':
			return true
		case mark != '(':
			if next == '.' || '0' <= next && next <= '9' {
				return true
			}
		case strings.IndexAny(strings.TrimLeft(after, " \t\n\v\f\r"), "-'\"0123456789") == 0:
			return true
		}
	}
}

// nothingInvented refuses a fenced block that the source does not contain. It also refuses a value that is in neither
// the code nor the question if it is stated as a result or could hardly be anything else. It cannot tell whether a
// value of the source is the right one, so it accepts only values that no one had to compute.
func nothingInvented(c *candidate) (bool, string) {
	for _, p := range c.pieces {
		if p.code && !c.isOwnCode(p) {
			return false, fmt.Sprintf("it has a block that the source does not contain: %q", firstLine(p.text))
		}
	}
	found := 0
	for sentence := range sentences(c.prose) {
		if !mayState(sentence) {
			continue
		}
		for _, s := range statedResults {
			for at := range stated(sentence, s) {
				if !statesValue(sentence, at[0], at[1], at[2]) {
					continue
				}
				found++
				if value := sentence[at[1]:at[2]]; !c.contains(value) {
					return false, fmt.Sprintf("it states a result, %s, that the source does not contain", value)
				}
			}
		}
	}
	if !mayBePrecise(c.prose) {
		return true, fmt.Sprintf("%d stated, all in the source", found)
	}
	for _, m := range precise.FindAllStringSubmatchIndex(c.prose, -1) {
		value, rest := c.prose[m[0]:m[1]], c.prose[m[1]:]
		switch {
		case m[2] >= 0:
			value = c.prose[m[2]:m[3]]
			if !strings.Contains(value, ",") || !onlyLiterals(value) {
				continue
			}
		case strings.HasPrefix(rest, "%"), strings.HasPrefix(rest, " %"),
			!strings.Contains(value, ".") && counts.MatchString(rest) && !afterValue.MatchString(rest):
			continue
		}
		if !c.has(value) {
			return false, fmt.Sprintf("it has a value, %s, that the source does not contain", value)
		}
	}
	return true, fmt.Sprintf("%d stated, all in the source", found)
}

// sentences splits prose after each full stop, question mark or exclamation mark that white space follows. No match of
// the patterns goes beyond such a mark.
func sentences(prose string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i+1 < len(prose); i++ {
			if strings.IndexByte(".!?", prose[i]) >= 0 && strings.IndexByte(" \t\r\n", prose[i+1]) >= 0 {
				if !yield(prose[start : i+1]) {
					return
				}
				start = i + 1
			}
		}
		yield(prose[start:])
	}
}

// isOwnCode reports whether a fenced block is code of the source or a part of it, and not an invented result. Refusing
// a changed copy of the code is left to A3: here a block only has to look like code.
func (c *candidate) isOwnCode(p piece) bool {
	if slices.Contains(c.parts.Blocks, p.text) || c.has(p.text) {
		return true
	}
	if !isPythonTag(p.tag) || python.Check(p.text) != nil {
		return false
	}
	// A result such as [1, 3, 5] is also valid Python. Code defines, assigns or calls something.
	tokens, err := python.Tokenize(p.text)
	if err != nil {
		return false
	}
	for _, t := range tokens {
		if t.Kind == python.Name && (c.isName(t.Text) || python.IsKeyword(t.Text)) && !isConstant(t.Text) {
			return true
		}
	}
	return false
}

// contains reports whether the code or the question contains a stated value: a literal as it is, other code by its
// names.
func (c *candidate) contains(value string) bool {
	if value[0] == '`' {
		value = strings.TrimSpace(strings.Trim(value, "`"))
		return c.has(value) || !onlyLiterals(value) && c.knows(value)
	}
	return c.has(strings.Trim(value, "\"'“”"))
}

// onlyLiterals reports whether text is code without names: numbers, strings and constants, in brackets or not.
func onlyLiterals(text string) bool {
	tokens, err := python.Tokenize(text)
	return err == nil && !slices.ContainsFunc(tokens, func(t python.Token) bool {
		return t.Kind == python.Name && !isConstant(t.Text)
	})
}

func isConstant(name string) bool { return name == "True" || name == "False" || name == "None" }

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.,-_e+") == "" && strings.ContainsAny(s, "0123456789")
}

// has reports whether the code or the question contains the lexemes of text, one after another: x1 does not contain 1,
// and 3 1 2 does not contain 312.
func (c *candidate) has(text string) bool {
	if c.context == "" {
		c.context = lexemes(c.source)
	}
	words := lexemes(text)
	if strings.TrimSpace(words) == "" {
		return strings.Contains(c.source, text) // only white space or its escapes
	}
	return strings.Contains(c.context, words)
}

var (
	binaryMinus = regexp.MustCompile(`([\p{L}\p{N}_)\]])-`)
	lexeme      = regexp.MustCompile(`[\p{L}_][\p{L}\p{N}_]*|-?\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?|\S`)
	spelling    = strings.NewReplacer("“", "'", "”", "'", "‘", "'", "’", "'", `"`, "'", "−", "-", `\n`, " ", `\t`, " ")
)

// lexemes returns the words, signed numbers and marks of code or prose, separated by spaces: in lower case, with one
// kind of quotation mark, and with the common escapes for white space as white space.
func lexemes(text string) string {
	text = binaryMinus.ReplaceAllString(spelling.Replace(strings.ToLower(text)), "$1 - ")
	return " " + strings.Join(lexeme.FindAllString(text, -1), " ") + " "
}

// firstLine returns the first line of s, at most 60 bytes of it.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 60 {
		line = line[:60] + "…"
	}
	return strings.ToValidUTF8(line, "")
}

// invisible reports whether a character is invisible: a control character other than a line break or a tab, or a mark
// of the direction of writing, with which a text can display something other than what it contains.
func invisible(r rune) bool {
	switch {
	case r < ' ':
		return r != '\t' && r != '\n' && r != '\r'
	case r < 0x200e:
		return r == 0x7f
	}
	return r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0xfeff
}

// tokenTraces matches tokens that a decoder should have turned into text, and byte sequences that it cut in two.
var tokenTraces = regexp.MustCompile("[\u0120\u010a\u2581\ufffd]|<\\|[a-z_0-9]+\\|>|</?s>|<0x[0-9A-Fa-f]{2}>|" +
	"\\[/?INST\\]")

// traceWords has literal parts of tokenTraces. Every match has one of them.
var traceWords = indexWords([]string{"\u0120", "\u010a", "\u2581", "\ufffd", "<|", "<s>", "</s>", "<0x", "[INST]",
	"[/INST]"})

// cleanUp does what Hugging Face's decoder does if clean_up_tokenization_spaces is on: it removes spaces from code and
// prose alike, so that " ".join becomes "".join.
var cleanUp = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m",
	" 's", "'s", " 've", "'ve", " 're", "'re")

// noArtifacts refuses decoder traces in the text, and code that differs from the source only by the clean-up.
func noArtifacts(c *candidate) (bool, string) {
	if at := strings.IndexFunc(c.prose, invisible); at >= 0 {
		r, _ := utf8.DecodeRuneInString(c.prose[at:])
		return false, fmt.Sprintf("it contains the invisible character %+q", string(r))
	}
	if m := traceIn(c.text); m != "" && !strings.Contains(c.source, m) {
		return false, fmt.Sprintf("it contains %q, a trace of tokens", m)
	}
	for _, p := range c.pieces {
		for _, b := range c.parts.Blocks {
			if !p.code || p.text == b || cleanUp.Replace(b) == b {
				continue
			}
			if ok, _ := python.Equal(b, p.text); ok {
				continue
			}
			if ok, _ := python.Equal(cleanUp.Replace(b), cleanUp.Replace(p.text)); ok {
				return false, "the code lost spaces to a decoder's clean-up"
			}
		}
	}
	return true, "none"
}

// traceIn returns the first trace of tokens in a text, or "" if there is none.
func traceIn(text string) string {
	if traceWords.in(text) == 0 && utf8.ValidString(text) { // patterns take a byte that is not UTF-8 for U+FFFD
		return ""
	}
	return tokenTraces.FindString(text)
}
