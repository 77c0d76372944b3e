package training

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Show writes an example for a person to check. First comes its text, with the targets between ⟦ and ⟧. Then comes one
// line per token: its index, its id, "+" if it is a target, and its bytes. With color, the targets are green in both,
// by ANSI sequences. Control characters of the text become Go escapes.
func (e *Encoder) Show(w io.Writer, ex Example, color bool) error {
	open, end, green, plain := "⟦", "⟧", "", ""
	if color {
		green, plain = "\x1b[32m", "\x1b[0m"
		open, end = green, plain
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "row %d: %d tokens, %d target tokens, marked %slike this%s\n\n", ex.Row, len(ex.IDs), ex.Targets(),
		open, end)
	for from := 0; from < len(ex.IDs); {
		target := ex.Labels[from] != Ignore
		to := from + 1
		for to < len(ex.IDs) && (ex.Labels[to] != Ignore) == target {
			to++
		}
		run := visible(e.Tokenizer.Decode(ex.IDs[from:to], false))
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
		token := strconv.Quote(string(e.Tokenizer.Bytes(id)))
		if e.Tokenizer.IsSpecial(id) {
			token = visible(e.Tokenizer.Token(id))
		}
		fmt.Fprintf(out, "%s%6d %7d %s %s%s\n", start, i, id, mark, token, stop)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("training: showing row %d: %w", ex.Row, err)
	}
	return nil
}

// visible escapes characters that would move a terminal's cursor or change its colors.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
