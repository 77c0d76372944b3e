package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// StatusLine writes text to a terminal and keeps one line below the text that shows the progress of a command. Written
// text replaces the line, so the line never mixes with other output. A StatusLine is safe for concurrent use.
type StatusLine struct {
	W     io.Writer  // receives the text and the line
	Width func() int // returns the terminal's columns; nil if W is not a terminal, and then Draw draws nothing

	mu    sync.Mutex
	drawn bool
	bar   *progressbar.ProgressBar
	width int // of the terminal when bar was last drawn
	room  int // columns of bar
}

// NewStatusLine returns the status line of w.
func NewStatusLine(w io.Writer) *StatusLine { return &StatusLine{W: w, Width: TerminalWidth(w)} }

// TerminalWidth returns a function that returns the current number of columns of w, or nil if w is not a terminal (see
// [IsTerminal]).
func TerminalWidth(w io.Writer) func() int {
	if !IsTerminal(w) {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(Raw(w).(*os.File).Fd()))
		if err != nil || width < 1 {
			return 80
		}
		return width
	}
}

// On reports whether there is a terminal to draw on.
func (l *StatusLine) On() bool { return l.Width != nil }

// Write removes the line and writes text in its place. The next Draw draws the line again.
func (l *StatusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.W.Write(p)
}

// Draw replaces the line with text, truncated to the current width of the terminal.
func (l *StatusLine) Draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.On() {
		l.draw(text, l.Width())
	}
}

// DrawUntil replaces the line with text, or removes it if what the text describes is over.
func (l *StatusLine) DrawUntil(over bool, text string) {
	if over {
		l.Clear()
		return
	}
	l.Draw(text)
}

// DrawBar draws a progress bar of done out of total, both numbers, and text after them. If total is not positive, it is
// unknown, and DrawBar draws a spinner instead of the bar. The bar has the room that the text leaves, and on a narrow
// terminal there is none. If a text does not fit either, the last of its parts, separated by ", ", are left out.
func (l *StatusLine) DrawBar(done, total int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.On() {
		return
	}
	width := l.Width()
	if l.bar == nil || l.bar.IsFinished() || l.width != width {
		l.width, l.room = width, maxBar
		l.bar = progressbar.NewOptions(max(total, -1), progressbar.OptionSetWriter(io.Discard), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionThrottle(0))
	}
	bar := func() string {
		if l.room < minBar && total > 0 {
			return fmt.Sprintf("%d/%d", done, total)
		}
		progressbar.OptionSetWidth(max(l.room, minBar))(l.bar)
		_ = l.bar.Set(done)
		return strings.Trim(l.bar.String(), "\r ")
	}
	fits := func() bool { return Columns(bar())+1+Columns(text) < width }
	for l.room >= minBar && !fits() { // it does not grow again, as the line would jump
		l.room--
	}
	for !fits() {
		i := strings.LastIndex(text, ", ")
		if i < 0 {
			break
		}
		text = text[:i]
	}
	l.draw(bar()+" "+text, width)
}

// minBar and maxBar are the columns of a bar without its numbers.
const minBar, maxBar = 4, 16

// draw leaves the cursor at the start of the line. If the terminal becomes narrower and breaks the line into several,
// the cursor stays at the first of them, and the next draw erases them all. The terminal does not wrap lines while draw
// draws, because it may have become narrower since its width was read.
func (l *StatusLine) draw(text string, width int) {
	text = strings.ReplaceAll(expandTabs(Clean(text)), "\n", " ")
	if n := width - 1; Columns(text) > n { // some terminals wrap as soon as the last column is filled
		text = text[:Fit(text, n-1)] + "…"
	}
	fmt.Fprintf(l.W, "\x1b[?7l%s\x1b[J\x1b[?7h\r", text)
	l.drawn = true
}

// Clear removes the line.
func (l *StatusLine) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *StatusLine) clear() {
	if l.drawn {
		io.WriteString(l.W, " \x1b[J\r") // from column 2: from column 1 of row 1, tmux moves the row into its history
		l.drawn = false
	}
}
