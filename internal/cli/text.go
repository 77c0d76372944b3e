package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

// Columns returns the number of terminal columns of clean text.
func Columns(s string) int { return uniseg.StringWidth(s) }

// Fit returns the number of bytes of s that fit into width columns, but at least the bytes of one character. It does
// not split a character that consists of several code points, such as a letter with its accents.
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

// PrintRows writes rows of a name and a text, with the texts in a column. On a terminal, a text that does not fit next
// to the names continues in the same column; a file or a pipe gets one line for each row.
func PrintRows(w io.Writer, rows [][2]string) error {
	names, width := 0, 0
	for _, r := range rows {
		names = max(names, Columns(r[0])+2)
	}
	if of := TerminalWidth(w); of != nil {
		width = max(of()-1-names, 20)
	}
	for _, r := range rows {
		lines := []string{r[1]}
		if width > 0 {
			lines = Wrap(r[1], width)
		}
		for i, line := range lines {
			name := ""
			if i == 0 {
				name = r[0]
			}
			if _, err := fmt.Fprintln(w, name+strings.Repeat(" ", names-Columns(name))+line); err != nil {
				return err
			}
		}
	}
	return nil
}

// PrintCells writes cells in columns, in reading order, as many as fit the terminal. A file or a pipe gets one cell per
// line.
func PrintCells(w io.Writer, cells []string) error {
	width := 0
	if of := TerminalWidth(w); of != nil {
		width = of() - 1
	}
	for _, line := range inColumns(cells, width) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// inColumns returns lines of at most width columns with as many cells each as fit.
func inColumns(cells []string, width int) (lines []string) {
	const gap = 2
	n, widths := len(cells), []int(nil)
	for ; n > 1; n-- {
		widths = make([]int, n)
		all := -gap
		for i, c := range cells {
			widths[i%n] = max(widths[i%n], Columns(c))
		}
		for _, of := range widths {
			all += of + gap
		}
		if all <= width {
			break
		}
	}
	for row := range slices.Chunk(cells, max(1, n)) {
		line := ""
		for i, c := range row {
			if i > 0 {
				line += strings.Repeat(" ", gap+widths[i-1]-Columns(row[i-1]))
			}
			line += c
		}
		lines = append(lines, line)
	}
	return lines
}

// refill wraps the paragraphs of a text at a width. Indented lines, such as in a list or an example, stay apart.
func refill(text string, width int) string {
	var lines []string
	joins := false // the last line is one of a paragraph
	for line := range strings.SplitSeq(text, "\n") {
		indented := line == "" || line[0] == ' '
		if !indented && joins {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		joins = !indented
	}
	for i, line := range lines {
		column := 0 // of the text in a list, where its further lines begin
		if line != "" && line[0] == ' ' {
			column = max(strings.LastIndex(line, "  ")+2, 4)
		}
		head, rest := line[:column], line[column:]
		switch {
		case Columns(line) <= width:
			continue
		case column > width/2: // the text goes below
			head, column = strings.Join(Wrap(strings.TrimRight(head, " "), width), "\n")+"\n      ", 6
		}
		lines[i] = head + strings.Join(Wrap(rest, width-column), "\n"+strings.Repeat(" ", column))
	}
	return strings.Join(lines, "\n")
}

// Shorten returns clean text as one line of at most width columns, with … in place of what does not fit.
func Shorten(text string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	if Columns(text) > width {
		text = strings.TrimRight(text[:Fit(text, width-1)], " ") + "…"
	}
	return text
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
