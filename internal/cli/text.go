package cli

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Columns returns the number of terminal columns of clean text.
func Columns(s string) int { return uniseg.StringWidth(s) }

// Fit is how many bytes of s go into so many columns, at least one character: one that is made of several, such as a
// letter with its accents, is not taken apart.
func Fit(s string, width int) int {
	taken, end := 0, 0
	for rest, state := s, -1; rest != ""; {
		var character string
		var columns int
		character, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if taken += columns; taken > width && end > 0 {
			break
		}
		end += len(character)
	}
	return end
}

// Wrap breaks clean text into lines of at most width columns: at line breaks, else at spaces, and inside of words that
// are longer than a line. Text that grows at its end changes no line but the last.
func Wrap(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = expandTabs(line)
		for {
			n := Fit(line, width)
			if n == len(line) {
				lines = append(lines, line)
				break
			}
			if line[n] != ' ' {
				// At the last space, unless only indentation comes before it.
				if i := strings.LastIndexByte(line[:n], ' '); i > 0 && strings.TrimLeft(line[:i], " ") != "" {
					n = i
				}
			}
			lines = append(lines, strings.TrimRight(line[:n], " "))
			line = strings.TrimLeft(line[n:], " ")
		}
	}
	return lines
}

const tabWidth = 4

func expandTabs(line string) string {
	var b strings.Builder
	at := 0
	for i, part := range strings.Split(line, "\t") {
		if i > 0 {
			n := tabWidth - at%tabWidth
			b.WriteString(strings.Repeat(" ", n))
			at += n
		}
		b.WriteString(part)
		at += Columns(part)
	}
	return b.String()
}
