package main

import (
	"fmt"
	"io"
	"strings"

	"restyle/internal/cli"
)

// A pane is one model's answer on the screen.
type pane struct {
	label string // "base" or "tuned"
	title string // name of the model
	text  string // the answer so far, clean
	done  bool
	foot  string // its summary, if it is done
}

// A display shows growing answers. draw is called repeatedly with the same panes, the last time when all are done. The
// next call starts new ones.
type display interface {
	draw(panes []pane) error
}

// minPane is the minimum width of a column: narrower code cannot be read.
const minPane = 36

// gutter separates two columns.
const gutter = " │ "

// lines returns the lines of a pane in a column of that width: the answer without trailing empty lines and, if it is
// done, an empty line and the foot. Until then only the last line can still change.
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

// columnsDisplay shows two panes side by side on a terminal that is wide enough. It writes final rows once, so that
// they scroll into the terminal's history, and draws the other rows again each time.
type columnsDisplay struct {
	w         io.Writer
	size      func() (width, height int)
	narrow    display // for a terminal that is too narrow
	started   bool
	width     int // of the terminal when it was last drawn
	settled   int // final rows
	onScreen  int // rows below them, to be drawn again
	useNarrow bool
}

func (d *columnsDisplay) draw(panes []pane) error {
	width, height := d.size()
	if !d.started {
		d.useNarrow = width < 2*minPane+len([]rune(gutter)) || len(panes) != 2
	}
	done := allDone(panes)
	defer func() { d.started = !done }()
	if d.useNarrow {
		return d.narrow.draw(panes)
	}
	var b strings.Builder
	if d.started && width == d.width {
		up(&b, d.onScreen)
	} else { // a terminal of another width has wrapped the old rows: leave them, and draw all again
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

// frame lays out two panes in columns. It returns the rows from settled on in two parts: those that are final, and
// those that can still change. Of the latter there are at most room; if a column has more, frame returns its last ones,
// like a window that scrolls.
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

// writeRow writes one row. It moves the cursor to the gutter's column, so that the gutter is straight even if the
// terminal counts the width of a character differently.
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

// linesDisplay shows lines when they are complete, each with the label of its pane. It is for narrow terminals, and for
// files and pipes, which get one answer after the other.
type linesDisplay struct {
	w     io.Writer
	width func() int // of the terminal; 0 does not wrap lines
	fixed int        // the width at the start of the answers
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

// plainDisplay shows the text of a single pane as it arrives, and writes its foot to notes.
type plainDisplay struct {
	w, notes io.Writer
	width    func() int // of the terminal, to wrap lines between words; nil does not wrap them
	fixed    int        // the width at the start of the answer
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

// settled returns text wrapped to that width, as far as it is final: until it is done, without its last word, which may
// grow and move to the next line.
func settled(text string, width int, done bool) string {
	lines := cli.Wrap(text, width)
	if last := &lines[len(lines)-1]; !done {
		*last = strings.TrimRight((*last)[:max(0, strings.LastIndexByte(*last, ' '))], " ")
	}
	return strings.Join(lines, "\n")
}
