package cli

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Columns returns the number of terminal columns of clean text.
func Columns(s string) int { return uniseg.StringWidth(s) }

// Fit returns the number of bytes of s that fit into width columns, at least those of one character. It does not split
// a character that consists of several code points, such as a letter with its accents.
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

// Wrap breaks clean text into lines of at most width columns: at line breaks, otherwise at spaces, and inside words
// that are longer than a line. If text is appended, only the last line changes.
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
				// Break at the last space, unless there is only indentation before it.
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
