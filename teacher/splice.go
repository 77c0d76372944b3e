package teacher

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"restyle/internal/python"
	"restyle/voice"
)

// Parts is an answer separated into its code and its prose. The teacher sees the code but writes only prose. join
// inserts the code byte for byte, so that no teacher can change it.
type Parts struct {
	Blocks []string // the code blocks, exactly as the source has them
	Text   string   // the answer with [[CODE_1]], [[CODE_2]] … in the places of the blocks
	Other  string   // tag of the first fenced block in another language than the Run's, "" if there is none
	Tags   []string // the language of each block; nil if all are Python

	restated bool // the prose is to be restated, with its facts, and not only written around the code

	whole bool // the answer had no fence
	open  bool // a fence in the answer is not closed; not set for Python, whose grammar finds prose in code
}

// split separates an answer into code and prose. Without a fence the whole answer is one block of code, as in the
// Python datasets of Alpaca's form; with fences each fenced block is code and the rest is prose. An unclosed fence runs
// to the end.
func split(answer string) Parts {
	pieces := splitFences(answer)
	// A program may have a fence inside a string. Then the whole answer is Python, which it is not with prose around a
	// block.
	if len(pieces) == 1 && !pieces[0].code || python.Check(answer) == nil {
		return Parts{Blocks: []string{strings.Trim(answer, "\r\n")}, Text: placeholder(1)}
	}
	return separate(pieces)
}

// separate makes Parts of an answer with fences, for Python.
func separate(pieces []piece) (p Parts) {
	var text strings.Builder
	for _, piece := range pieces {
		if !piece.code {
			text.WriteString(piece.text)
			continue
		}
		if !isPythonTag(piece.tag) && p.Other == "" {
			p.Other = piece.tag
		}
		p.Blocks = append(p.Blocks, piece.text)
		text.WriteString(placeholder(len(p.Blocks)) + "\n")
	}
	p.Text = text.String()
	return p
}

// Prose returns the answer's prose, or "" if it has only code.
func (p Parts) Prose() string {
	return strings.TrimSpace(placeholders.ReplaceAllString(p.Text, ""))
}

// join replaces the placeholders of a rewrite with the blocks, each in a fence tagged with its language. The rewrite
// must have every placeholder exactly once, in order, and on its own line; join tolerates a fence or emphasis around
// it, a colon after it and lower-case letters.
func (p Parts) join(rewrite string) (string, error) {
	var bare strings.Builder
	for _, piece := range splitFences(rewrite) {
		rest := placeholders.ReplaceAllString(piece.text, "")
		if piece.code && (strings.TrimSpace(rest) != "" || rest == piece.text) {
			return "", fmt.Errorf("the rewrite has a fenced block of its own; code belongs in the placeholders alone")
		}
		bare.WriteString(strings.TrimSuffix(piece.text, "\n") + "\n")
	}
	want := 1
	lines := strings.Split(bare.String(), "\n")
	for i, line := range lines {
		if !strings.Contains(line, "[[") || !placeholders.MatchString(line) {
			continue
		}
		if strings.ToUpper(strings.Trim(line, " \t\r*_:`")) != placeholder(want) || want > len(p.Blocks) {
			return "", fmt.Errorf("%s stands where %s alone on its line is due (the answer has %d code blocks)",
				strings.TrimSpace(line), placeholder(want), len(p.Blocks))
		}
		lines[i] = fence(p.tag(want-1), p.Blocks[want-1])
		want++
	}
	if want <= len(p.Blocks) {
		return "", fmt.Errorf("%s is missing", placeholder(want))
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}

// fence puts code in a Markdown fence that is longer than any run of backticks in the code.
func fence(tag, code string) string {
	ticks := "```"
	for strings.Contains(code, ticks) {
		ticks += "`"
	}
	return ticks + tag + "\n" + code + "\n" + ticks
}

var placeholders = regexp.MustCompile(`(?i)\[\[\s*code[\s_-]*\d*\s*\]\]`)

// placeholder returns the placeholder of the nth block, from 1.
func placeholder(n int) string { return "[[CODE_" + strconv.Itoa(n) + "]]" }

// A piece is a run of prose, or one fenced block.
type piece struct {
	code   bool
	closed bool   // the block has a closing fence
	tag    string // text after the opening fence, in lower case
	text   string // of a block the content, without the last newline
}

// splitFences splits Markdown at its fences. The lines of a block lose the indent of its fence, as far as they have it
// (CommonMark 0.31, section 4.5): it belongs to the list around the block, not to the code.
func splitFences(text string) (out []piece) {
	for p := range voice.NestedPieces(text + "\n") {
		text := p.Text
		if p.Code {
			text = strings.TrimSuffix(dedent(text, p.Indent), "\n")
			if at := lateClosing.FindStringIndex(text); !p.Closed && at != nil {
				text, p.Closed = text[:at[0]], true
			}
		}
		out = append(out, piece{code: p.Code, closed: p.Closed, tag: strings.ToLower(p.Info), text: text})
	}
	return out
}

// lateClosing matches a closing fence at the end of a block that is indented too far to be one, as some datasets have
// it.
var lateClosing = regexp.MustCompile("\n[ \\t]+(?:```+|~~~+)\\s*$")

// dedent removes from each line as much of the beginning of an indent as the line starts with.
func dedent(text, indent string) string {
	if indent == "" {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		n := 0
		for n < min(len(line), len(indent)) && line[n] == indent[n] {
			n++
		}
		b.WriteString(line[n:])
	}
	return b.String()
}

// strayFence matches a fence that does not start its line but follows the mark of a list item or a quotation.
// splitFences does not see it.
var strayFence = regexp.MustCompile("(?m)^[ \\t]*(?:(?:[-*+>]|\\d{1,9}[.)])[ \\t]*)+(?:```|~~~)[^`\n]*$")

func isPythonTag(tag string) bool {
	switch tag {
	case "", "python", "py", "python3", "py3":
		return true
	}
	return false
}

// endsWhole reports whether a text ends as a complete one does: with a closed fence or the end of a sentence.
func endsWhole(c *candidate) (bool, string) {
	last := c.pieces[len(c.pieces)-1]
	if last.code {
		if !last.closed {
			return false, "it ends inside a fence"
		}
		return true, "ends with code"
	}
	text := strings.TrimRight(last.text, " \t\r\n")
	text = strings.TrimRight(text, "\"'”’)]}*_`")
	r, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case text == "":
		return len(c.pieces) > 1, "ends with code"
	case strings.ContainsRune(".!?…:。！？।؟", r), unicode.Is(unicode.So, r):
		return true, "ends with a sentence"
	case len(text) < len(strings.TrimRight(last.text, " \t\r\n")):
		return true, "ends with a closing mark"
	}
	return false, "it ends in the middle of a sentence"
}

// indentedBlock matches Markdown's other form of code: four spaces or a tab after an empty line.
var indentedBlock = regexp.MustCompile(`(?:\A|\n[ \t\r]*\n)(?: {4}|\t)[ \t]*\S[^\n]*`)

func fencesClosed(c *candidate) (bool, string) {
	blocks, prose := 0, c.parts.restated
	for _, p := range c.pieces {
		switch {
		case !p.code:
			if found := placeholders.FindString(p.text); found != "" {
				return false, found + " is left over"
			}
			if prose || !strings.Contains(p.text, "    ") && !strings.Contains(p.text, "\t") {
				continue
			}
			if found := indentedBlock.FindString(p.text); found != "" {
				return false, fmt.Sprintf("%q is indented like a block of code", strings.TrimSpace(found))
			}
		case !p.closed:
			return false, "a fence is not closed"
		case prose && blocks == len(c.parts.Blocks):
			return false, "it has a fenced block of its own"
		case p.tag != c.parts.tag(blocks):
			return false, fmt.Sprintf("a fence is tagged %q, not %s", p.tag, c.parts.tag(blocks))
		default:
			blocks++
		}
	}
	if blocks == 0 && len(c.parts.Blocks) > 0 {
		return false, "there is no fenced code"
	}
	return true, fmt.Sprintf("%d fenced", blocks)
}
