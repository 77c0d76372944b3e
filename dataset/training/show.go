package training

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Show writes an example for a person to check: first its text, in which what is learned stands between ⟦ and ⟧, then a
// line a token with its place, its id, "+" if it is learned, and what it stands for. With colour, what is learned is green in
// both, for terminals that know ANSI sequences. Control characters of the text are written as Go escapes.
func (e *Encoder) Show(w io.Writer, ex Example, colour bool) error {
	learnedOpen, learnedClose, green, plain := "⟦", "⟧", "", ""
	if colour {
		green, plain = "\x1b[32m", "\x1b[0m"
		learnedOpen, learnedClose = green, plain
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "row %d: %d tokens, %d of them learned, %sso%s\n\n", ex.Row, len(ex.IDs), ex.Targets(), learnedOpen, learnedClose)
	for from := 0; from < len(ex.IDs); {
		learned := ex.Labels[from] != Ignore
		to := from + 1
		for to < len(ex.IDs) && (ex.Labels[to] != Ignore) == learned {
			to++
		}
		run := visible(e.Tokenizer.Decode(ex.IDs[from:to], false))
		if learned {
			run = learnedOpen + run + learnedClose
		}
		out.WriteString(run)
		from = to
	}
	out.WriteString("\n\n")
	for i, id := range ex.IDs {
		mark, begin, end := " ", "", ""
		if ex.Labels[i] != Ignore {
			mark, begin, end = "+", green, plain
		}
		token := strconv.Quote(string(e.Tokenizer.Bytes(id)))
		if e.Tokenizer.IsSpecial(id) {
			token = visible(e.Tokenizer.Token(id))
		}
		fmt.Fprintf(out, "%s%6d %7d %s %s%s\n", begin, i, id, mark, token, end)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("training: showing row %d: %w", ex.Row, err)
	}
	return nil
}

// visible writes characters that would move a terminal's cursor or change its colours as escapes.
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
