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

// StatusLine writes text to a terminal and keeps one line under it, which shows how far a command is. What is written
// through it takes the place of the line, so that the line never mixes with other output. It may be used concurrently.
type StatusLine struct {
	W     io.Writer  // receives the text and the line
	Width func() int // returns the terminal's columns; nil if W is no terminal, and then Draw draws nothing

	mu    sync.Mutex
	drawn bool
	bar   *progressbar.ProgressBar
}

// NewStatusLine returns the status line of w.
func NewStatusLine(w io.Writer) *StatusLine { return &StatusLine{W: w, Width: TerminalWidth(w)} }

// TerminalWidth returns a function that tells how many columns w has now, or nil if w is no terminal that a person
// looks at.
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

// On tells whether there is a terminal to draw on.
func (l *StatusLine) On() bool { return l.Width != nil }

// Write removes the line and writes text in its place. The next Draw brings the line back.
func (l *StatusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.W.Write(p)
}

// Draw replaces the line by text, cut to the width that the terminal has now.
func (l *StatusLine) Draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.On() {
		l.draw(text, l.Width())
	}
}

// DrawBar draws a bar of done out of total, the two numbers, and text after them. If total is not positive, it is not
// known and a spinner takes the bar's place.
func (l *StatusLine) DrawBar(done, total int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.On() {
		return
	}
	width := l.Width()
	if l.bar == nil || l.bar.IsFinished() {
		l.bar = progressbar.NewOptions(max(total, -1), progressbar.OptionSetWriter(io.Discard), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionThrottle(0))
	}
	// The numbers matter more than the bar: where columns are few, the bar gets fewer of them.
	progressbar.OptionSetWidth(min(16, width/6))(l.bar)
	_ = l.bar.Set(done)
	l.draw(strings.Trim(l.bar.String(), "\r ")+" "+text, width)
}

// draw leaves the cursor at the beginning of the line. If the terminal gets narrower and breaks the line into several,
// the cursor stays at the first of them, and the next draw erases all. While it draws, the terminal does not wrap: the
// terminal may have become narrower since its width was read.
func (l *StatusLine) draw(text string, width int) {
	text = strings.ReplaceAll(expandTabs(Clean(text)), "\n", " ")
	if n := width - 1; Columns(text) > n { // in the last column some terminals wrap already
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
		io.WriteString(l.W, " \x1b[J\r") // not from the first column: in the first row, tmux would move it into its history
		l.drawn = false
	}
}
