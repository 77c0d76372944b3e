package voice

import (
	"iter"
	"strings"
)

// A Piece is a run of prose, or one fenced block of code.
type Piece struct {
	Code   bool
	Closed bool   // the block has a closing fence
	Info   string // text after the block's opening fence, such as "python"
	Indent string // white space before the block's opening fence
	Text   string // its lines; of a block, without the fences
}

// Tag returns the first word of Info in lower case: the language of a block.
func (p Piece) Tag() string {
	tag, _, _ := strings.Cut(p.Info, " ")
	return strings.ToLower(tag)
}

// Pieces splits Markdown at its fences (CommonMark 0.31, section 4.5). A fence is three or more backticks or tildes,
// indented by at most three spaces; its block ends with a line of at least as many of the same character, or at the end
// of the text.
func Pieces(text string) iter.Seq[Piece] { return pieces(text, 3) }

// NestedPieces is like Pieces, but an opening fence may be indented by any white space, as it is in a list, and a
// closing one by at most three characters more.
func NestedPieces(text string) iter.Seq[Piece] { return pieces(text, len(text)) }

func pieces(text string, indent int) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		var now Piece
		fence, start, end := "", 0, 0 // fence is the run that opened the current block, "" outside of blocks
		limit := indent               // of the next fence
		cut := func(from int, next Piece) bool {
			now.Text = text[start:end]
			more := !now.Code && start == end || yield(now)
			now, start = next, from
			return more
		}
		for line := range strings.Lines(text) {
			after := end + len(line)
			run, info := fenceRun(line, limit)
			switch {
			case fence == "" && run != "":
				before, _, _ := strings.Cut(line, run)
				fence, limit = run, min(indent, len(before)+3)
				if !cut(after, Piece{Code: true, Info: info, Indent: before}) {
					return
				}
			case fence != "" && strings.HasPrefix(run, fence) && info == "":
				fence, limit, now.Closed = "", indent, true
				if !cut(after, Piece{}) {
					return
				}
			}
			end = after
		}
		cut(end, Piece{})
	}
}

// fenceRun returns the run of fence characters at the beginning of a line, after white space of at most indent
// characters, and the text after it; "" if there is none.
func fenceRun(line string, indent int) (run, info string) {
	space := " "
	if indent > 3 {
		space = " \t"
	}
	body := strings.TrimLeft(line, space)
	if len(line)-len(body) > indent || !strings.HasPrefix(body, "```") && !strings.HasPrefix(body, "~~~") {
		return "", ""
	}
	info = strings.TrimLeft(body, body[:1])
	if body[0] == '`' && strings.Contains(info, "`") {
		return "", "" // inline code at the beginning of the line
	}
	return body[:len(body)-len(info)], strings.TrimSpace(info)
}
