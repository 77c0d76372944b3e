package training

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Show writes an example for a person to check. First comes its text, with the targets between ⟦ and ⟧, and each
// special token between ‹ and ›: what looks like one without them is text. Then comes one line per token: its index,
// its id, "+" if it is a target, and its bytes. With color, the targets are green in both, by ANSI sequences. Control
// characters of the text become Go escapes.
func (e *Encoder) Show(w io.Writer, ex Example, color bool) error {
	open := "⟦"
	end := "⟧"
	green := ""
	plain := ""
	if color {
		green, plain = "\x1b[32m", "\x1b[0m"
		open, end = green, plain
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "row %d: %d tokens, %d target tokens, marked %slike this%s; special tokens are in ‹›\n\n", ex.Row,
		len(ex.IDs), ex.Targets(), open, end)
	for from := 0; from < len(ex.IDs); {
		target := ex.Labels[from] != Ignore
		to := from + 1
		for to < len(ex.IDs) && (ex.Labels[to] != Ignore) == target {
			to++
		}
		run := e.textOf(ex.IDs[from:to])
		if target {
			run = open + run + end
		}
		out.WriteString(run)
		from = to
	}
	out.WriteString("\n\n")
	for i, id := range ex.IDs {
		mark, start, stop := " ", "", ""
		if ex.Labels[i] != Ignore {
			mark, start, stop = "+", green, plain
		}
		token := visible(strconv.Quote(string(e.Tokenizer.Bytes(id))))
		if e.Tokenizer.IsSpecial(id) {
			token = "‹" + visible(e.Tokenizer.Token(id)) + "›"
		}
		fmt.Fprintf(out, "%s%6d %7d %s %s%s\n", start, i, id, mark, token, stop)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("training: showing row %d: %w", ex.Row, err)
	}
	return nil
}

// textOf returns the text of tokens, with special ones between ‹ and ›.
func (e *Encoder) textOf(ids []int32) string {
	var b strings.Builder
	s := e.Tokenizer.Stream(false)
	for _, id := range ids {
		text := s.Add(id)
		if token := e.Tokenizer.Token(id); e.Tokenizer.IsSpecial(id) && strings.HasSuffix(text, token) {
			b.WriteString(visible(strings.TrimSuffix(text, token)) + "‹" + visible(token) + "›")
			continue
		}
		b.WriteString(visible(text))
	}
	return b.String() + visible(s.Flush())
}

// visible escapes characters that would move a terminal's cursor or change its colors, and characters that are not
// seen.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
