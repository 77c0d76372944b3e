package teacher

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	"restyle/internal/python"
)

// A value in prose: inline code, a list, a dict or a tuple of literals, a number, and a quoted string. An apostrophe opens
// no string, and neither does a quotation mark around a whole remark.
const (
	codeValue   = "`[^`\\n]+`"
	literal     = `\[[^\[\]\n]*\]|\{[^{}\n]*\}|\(\s*[-'\d][^()\n]*,[^()\n]*\)|-?\b\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?\b`
	quotedValue = `"[^\s".,;!?][^"\n]{0,60}"|“[^\s”.,;!?][^”\n]{0,60}”|'[^\s'.,;!?][^'\n]{0,60}'`
	comesOut    = `prints?|printing|outputs?|outputting|returns?|returning|displays?|yields?|produces?|evaluates? to|` +
		`comes? (?:out|back) (?:as|to|with)|gives? (?:you|us|back)|results? in|you(?:'ll| will|’ll)? (?:get|see)|spits? out`
)

// statedResults find the places where prose says what comes out of the code.
var statedResults = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:output|result|return value|printed value|answer)s?\b[^.!?\n\x60]{0,40}?(?:\bis\b|\bare\b|\bbe\b|\bwas\b|:|=)\s*(` +
		literal + `|` + quotedValue + `|` + codeValue + `)`),
	regexp.MustCompile(`(?i)\b(?:` + comesOut + `)\b[^.!?\n]{0,25}?[\s(:](` + literal + `|` + codeValue + `)`),
	regexp.MustCompile(`(?i)\b(?:` + comesOut + `)(?: (?:a|an|the|you|us|out|back|just|simply|exactly|string|text|message|value|word|words))*:?\s+(` + quotedValue + `)`),
}

// nothingInvented rejects a fenced block that the source does not have, and a stated result whose value stands neither
// in the code nor in the question. It cannot tell whether a value that stands there is the right one; so it only lets
// through what nobody had to compute.
func nothingInvented(c *candidate) (bool, string) {
	for _, p := range c.pieces {
		if p.code && !c.isOwnCode(p) {
			return false, fmt.Sprintf("it has a block that the source does not contain: %q", firstLine(p.text))
		}
	}
	stated := 0
	for sentence := range sentences(c.prose) {
		// A statement takes a word for what comes out and a value; most sentences do not have both.
		if !strings.ContainsAny(sentence, "`[({\"'“0123456789") || !containsAny(strings.ToLower(sentence), resultWords) {
			continue
		}
		for _, pattern := range statedResults {
			for _, m := range pattern.FindAllStringSubmatch(sentence, -1) {
				stated++
				if !c.contains(m[1]) {
					return false, fmt.Sprintf("it states a result, %s, that the source does not contain", strings.TrimSpace(m[1]))
				}
			}
		}
	}
	return true, fmt.Sprintf("%d stated, all in the source", stated)
}

// resultWords are what the patterns above look for, in lower case and cut to what all forms share.
var resultWords = []string{"output", "result", "value", "answer", "print", "return", "display", "yield", "produc", "evaluate", "come", "give", "get", "see", "spit"}

// sentences cuts prose where a full stop, a question or an exclamation mark is followed by white space, which ends every
// statement that the patterns can match.
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

// isOwnCode tells whether a fenced block is code of the source or a part of it, rather than a made-up result. A changed
// copy of the code is A3's to refuse: here a block only has to be recognisable as code.
func (c *candidate) isOwnCode(p piece) bool {
	text := squeeze(p.text)
	if text == "" || strings.Contains(c.context, text) {
		return true
	}
	if !isPythonTag(p.tag) || python.Check(p.text) != nil {
		return false
	}
	// A result such as [1, 3, 5] is valid Python too. Code defines, assigns or calls something.
	tokens, err := python.Tokenize(p.text)
	if err != nil {
		return false
	}
	for _, t := range tokens {
		if t.Kind == python.Name && (c.known[t.Text] || python.IsKeyword(t.Text)) && t.Text != "True" && t.Text != "False" && t.Text != "None" {
			return true
		}
	}
	return false
}

// contains tells whether a stated value stands in the code or the question.
func (c *candidate) contains(value string) bool {
	v := strings.Trim(value, "`\"'“”")
	if isNumber(v) {
		return numberIn(c.context, v)
	}
	if value[0] == '`' {
		return c.knows(v)
	}
	plain := strings.NewReplacer(`"`, "'", "“", "'", "”", "'")
	return strings.Contains(strings.ToLower(plain.Replace(c.context)), strings.ToLower(squeeze(plain.Replace(v))))
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.-_e+") == "" && strings.ContainsAny(s, "0123456789")
}

// numberIn tells whether a number stands in text as a whole, not as digits of a longer one.
func numberIn(text, number string) bool {
	number = strings.TrimPrefix(number, "-")
	for i := 0; ; {
		j := strings.Index(text[i:], number)
		if j < 0 {
			return false
		}
		j += i
		end := j + len(number)
		before := j > 0 && (isDigit(text[j-1]) || text[j-1] == '.' && j > 1 && isDigit(text[j-2]))
		after := end < len(text) && (isDigit(text[end]) || text[end] == '.' && end+1 < len(text) && isDigit(text[end+1]))
		if !before && !after {
			return true
		}
		i = j + 1
	}
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// squeeze drops all white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 60 {
		line = line[:60] + "…"
	}
	return strings.ToValidUTF8(line, "")
}

// Traces of tokens that a decoder should have turned into text, and of byte sequences that it cut in two.
var tokenTraces = regexp.MustCompile("[\u0120\u010a\u2581\ufffd]|<\\|[a-z_0-9]+\\|>|</?s>|<0x[0-9A-Fa-f]{2}>|\\[/?INST\\]")

// cleanUp is what Hugging Face's decoder does when clean_up_tokenization_spaces is on: it takes spaces out of code and
// prose alike, so that ' '.join becomes ”.join.
var cleanUp = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " 's", "'s", " 've", "'ve", " 're", "'re")

// noArtefacts looks for decoder traces in the text, and for code that differs from the source by the clean-up alone.
func noArtefacts(c *candidate) (bool, string) {
	if m := tokenTraces.FindString(c.text); m != "" && !strings.Contains(c.question+strings.Join(c.parts.Blocks, "\n"), m) {
		return false, fmt.Sprintf("it contains %q, a trace of tokens", m)
	}
	for _, p := range c.pieces {
		for _, b := range c.parts.Blocks {
			if !p.code || cleanUp.Replace(b) == b {
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
