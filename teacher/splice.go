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

// Parts is an answer taken apart into its code and the words around it. The teacher sees the code but writes only
// words; the code it leaves out is put back byte for byte, so that no teacher can change it.
type Parts struct {
	Blocks []string // the code blocks, exactly as the source has them
	Text   string   // the answer with [[CODE_1]], [[CODE_2]] … in the places of the blocks
	Other  string   // the tag of a fenced block that is not Python, "" if there is none
}

// Split takes an answer apart. Without a fence the whole answer is one block of code, as in the Alpaca sets for
// Python; with fences each fenced block is one and the rest is prose. An unclosed fence runs to the end.
func Split(answer string) Parts {
	pieces := splitFences(answer)
	// A program may well have a fence inside a string; then it is Python as a whole, which prose around a block is not.
	if len(pieces) == 1 && !pieces[0].code || python.Check(answer) == nil {
		return Parts{Blocks: []string{strings.Trim(answer, "\r\n")}, Text: placeholder(1)}
	}
	var p Parts
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

// Prose is what the source itself says around its code, "" where it is nothing but code.
func (p Parts) Prose() string {
	return strings.TrimSpace(placeholders.ReplaceAllString(p.Text, ""))
}

// Join puts the blocks into the places that a rewrite names for them, each in a fence tagged python. Every
// placeholder must stand exactly once, in order, alone on its line; a fence or emphasis around it, a colon after it and
// small letters in it are forgiven.
func (p Parts) Join(rewrite string) (string, error) {
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
		lines[i] = fence(p.Blocks[want-1])
		want++
	}
	if want <= len(p.Blocks) {
		return "", fmt.Errorf("%s is missing", placeholder(want))
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}

// fence wraps code in a Markdown fence that is longer than any run of backticks inside it.
func fence(code string) string {
	ticks := "```"
	for strings.Contains(code, ticks) {
		ticks += "`"
	}
	if !strings.HasSuffix(code, "\n") {
		code += "\n"
	}
	return ticks + "python\n" + code + ticks
}

var placeholders = regexp.MustCompile(`(?i)\[\[\s*code[\s_-]*\d*\s*\]\]`)

func placeholder(n int) string { return "[[CODE_" + strconv.Itoa(n) + "]]" }

// A piece is a run of prose, or one fenced block.
type piece struct {
	code   bool
	closed bool   // a block whose closing fence is there
	tag    string // the word after the opening fence, lower case
	text   string // for a block its content, without the last line's newline
}

// splitFences cuts Markdown at its fences. Text after a closing fence is what some models write in its line; it is prose.
func splitFences(text string) (out []piece) {
	for p := range voice.NestedPieces(text + "\n") {
		text := p.Text
		if p.Code {
			text = strings.TrimSuffix(text, "\n")
		}
		out = append(out, piece{code: p.Code, closed: p.Closed, tag: strings.ToLower(p.Info), text: text})
	}
	return out
}

func isPythonTag(tag string) bool {
	switch tag {
	case "", "python", "py", "python3", "py3":
		return true
	}
	return false
}

// endsWhole tells whether a text ends like one that was finished: after a closed fence, or with a sentence's end.
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
	case strings.ContainsRune(".!?…:", r), unicode.Is(unicode.So, r):
		return true, "ends with a sentence"
	case len(text) < len(strings.TrimRight(last.text, " \t\r\n")):
		return true, "ends with a closing mark"
	}
	return false, "it ends in the middle of a sentence"
}

// indentedBlock is Markdown's other way to write code: four spaces or a tab after an empty line.
var indentedBlock = regexp.MustCompile(`(?:\A|\n[ \t\r]*\n)(?: {4}|\t)[ \t]*\S[^\n]*`)

func fencesClosed(c *candidate) (bool, string) {
	blocks := 0
	for _, p := range c.pieces {
		switch {
		case !p.code:
			if found := placeholders.FindString(p.text); found != "" {
				return false, found + " is left over"
			}
			if !strings.Contains(p.text, "    ") && !strings.Contains(p.text, "\t") {
				continue
			}
			if found := indentedBlock.FindString(p.text); found != "" {
				return false, fmt.Sprintf("%q is indented like a block of code", strings.TrimSpace(found))
			}
		case !p.closed:
			return false, "a fence is not closed"
		case p.tag != "python":
			return false, fmt.Sprintf("a fence is tagged %q, not python", p.tag)
		default:
			blocks++
		}
	}
	if blocks == 0 {
		return false, "there is no fenced code"
	}
	return true, fmt.Sprintf("%d fenced", blocks)
}
