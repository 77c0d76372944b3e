package main

import (
	"fmt"
	"io"
	"strings"

	"restyle/internal/cli"
)

// A pane is what is shown of one model's answer.
type pane struct {
	label string // "base" or "tuned"
	title string // which model it is
	text  string // the answer so far, clean
	done  bool
	foot  string // how it ended and how fast it was, once it is done
}

// A display shows answers while they grow. Draw is called with the same panes again and again, and once when all are
// done; the next call begins anew.
type display interface {
	draw(panes []pane) error
}

// minPane is the least width of a column in which code can still be read.
const minPane = 36

// gutter stands between two columns.
const gutter = " │ "

// lines are a pane's lines in a column of that width: the answer without empty lines at its end and, behind one, its
// foot. Only the last line can still change until the pane is done.
func (p pane) lines(width int) []string {
	lines := cli.Wrap(p.text, width)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if !p.done {
		return lines
	}
	return append(append(lines, ""), cli.Wrap(p.foot, width)...)
}

// columnsDisplay shows two panes side by side on a terminal that is wide enough. Rows that cannot change any more are
// written once and left to the terminal's own history; the rest is drawn anew each time.
type columnsDisplay struct {
	w         io.Writer
	size      func() (width, height int)
	narrow    display // takes over where the terminal is too narrow
	begun     bool
	width     int // of the terminal when it was last drawn
	settled   int // rows that are left alone
	onScreen  int // rows under them that are drawn again
	useNarrow bool
}

func (d *columnsDisplay) draw(panes []pane) error {
	width, height := d.size()
	if !d.begun {
		d.useNarrow = width < 2*minPane+len([]rune(gutter)) || len(panes) != 2
	}
	done := allDone(panes)
	defer func() { d.begun = !done }()
	if d.useNarrow {
		return d.narrow.draw(panes)
	}
	var b strings.Builder
	if d.begun && width == d.width {
		up(&b, d.onScreen)
	} else { // a terminal of another width has broken the old rows anew: they stay above, and all are drawn again
		d.settled, d.width = 0, width
		column := columnWidth(width)
		heading := func(p pane) string { s := p.label + ": " + p.title; return s[:cli.Fit(s, column)] }
		writeRow(&b, heading(panes[0]), heading(panes[1]), column)
		writeRow(&b, strings.Repeat("─", column), strings.Repeat("─", column), column)
	}
	fixed, live := frame(panes[0], panes[1], columnWidth(width), d.settled, height-1)
	for _, row := range append(fixed, live...) {
		writeRow(&b, row[0], row[1], columnWidth(width))
	}
	b.WriteString("\x1b[J")
	if done {
		b.WriteString("\n")
	}
	d.settled, d.onScreen = d.settled+len(fixed), len(live)
	_, err := io.WriteString(d.w, b.String())
	return err
}

func columnWidth(width int) int { return (width - len([]rune(gutter))) / 2 }

// frame lays two panes out in columns. The rows from settled on come in two parts: those that can change no more, and
// those that can. Of the latter there are at most room; where a column has more, its last ones are shown, as in a window
// that scrolls.
func frame(left, right pane, column, settled, room int) (fixed, live [][2]string) {
	l, r := left.lines(column), right.lines(column)
	sure := max(len(l), len(r))
	if !left.done {
		sure = min(sure, len(l)-1)
	}
	if !right.done {
		sure = min(sure, len(r)-1)
	}
	at := func(lines []string, i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return ""
	}
	for i := settled; i < sure; i++ {
		fixed = append(fixed, [2]string{at(l, i), at(r, i)})
	}
	sure = max(sure, settled)
	window := func(lines []string) []string {
		lines = lines[min(sure, len(lines)):]
		return lines[max(0, len(lines)-room):]
	}
	l, r = window(l), window(r)
	for i := range max(len(l), len(r)) {
		live = append(live, [2]string{at(l, i), at(r, i)})
	}
	return fixed, live
}

// writeRow writes one row. The gutter is put at its column by a cursor movement, so that it stands straight even where
// the terminal counts a character's width differently.
func writeRow(b *strings.Builder, left, right string, column int) {
	fmt.Fprintf(b, "%s\x1b[K\x1b[%dG%s%s\n", left, column+1, gutter, right)
}

func up(b *strings.Builder, rows int) {
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA", rows)
	}
}

func allDone(panes []pane) bool {
	for _, p := range panes {
		if !p.done {
			return false
		}
	}
	return true
}

// linesDisplay shows the panes' lines as they become complete, each with the label of its pane: for narrow terminals, and
// for files and pipes, which get one answer after the other.
type linesDisplay struct {
	w     io.Writer
	width func() int // of the terminal; 0 breaks lines only where the answer does
	fixed int        // the width when the answers began
	shown []int      // lines, of each pane
}

func (d *linesDisplay) draw(panes []pane) error {
	if d.shown == nil {
		d.shown, d.fixed = make([]int, len(panes)), d.width()
	}
	var b strings.Builder
	for i, p := range panes {
		prefix := fmt.Sprintf("%-5s", p.label) + gutter
		width := 1 << 30
		if d.fixed > 0 {
			width = max(1, d.fixed-cli.Columns(prefix))
		}
		lines := p.lines(width)
		sure := len(lines)
		if !p.done {
			sure--
		}
		for ; d.shown[i] < sure; d.shown[i]++ {
			b.WriteString(strings.TrimRight(prefix+lines[d.shown[i]], " ") + "\n")
		}
		if d.fixed == 0 && !p.done {
			break
		}
	}
	if allDone(panes) {
		d.shown = nil
		b.WriteString("\n")
	}
	_, err := io.WriteString(d.w, b.String())
	return err
}

// plainDisplay shows one pane's text as it comes and its foot elsewhere: for one model alone.
type plainDisplay struct {
	w, notes io.Writer
	width    func() int // of the terminal, whose lines then break between words; nil: they break where the answer does
	fixed    int        // the width when the answer began
	shown    int        // bytes
}

func (d *plainDisplay) draw(panes []pane) error {
	p := panes[0]
	if d.shown == 0 && d.width != nil {
		d.fixed = d.width()
	}
	text, foot := p.text, p.foot
	if d.width != nil {
		text, foot = settled(p.text, d.fixed, p.done), strings.Join(cli.Wrap(p.foot, d.fixed), "\n")
	}
	more := text[min(d.shown, len(text)):]
	d.shown = len(text)
	if p.done {
		d.shown = 0
		if !strings.HasSuffix(text, "\n") {
			more += "\n"
		}
	}
	if _, err := io.WriteString(d.w, more); err != nil || !p.done {
		return err
	}
	_, err := fmt.Fprintf(d.notes, "\n%s\n\n", foot)
	return err
}

// settled is text in lines of that width, as far as no text after it can change it: without its last word, which may grow and go
// to the next line.
func settled(text string, width int, done bool) string {
	lines := cli.Wrap(text, width)
	if last := &lines[len(lines)-1]; !done {
		*last = strings.TrimRight((*last)[:max(0, strings.LastIndexByte(*last, ' '))], " ")
	}
	return strings.Join(lines, "\n")
}
