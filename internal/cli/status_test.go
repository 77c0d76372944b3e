package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// screen is a terminal that breaks lines into rows, and breaks them again when its width changes, as tmux and most
// others do.
type screen struct {
	t     *testing.T
	width int
	rows  []row
	x, y  int
	clips bool // characters beyond the right edge do not start a new row
}

// row is the content of one row. A wide character has an empty cell after it.
type row struct {
	cells     []string
	continues bool // its line continues in the next row
}

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		control := ""
		for _, c := range []string{"\x1b[J", "\x1b[?7l", "\x1b[?7h", "\r", "\n"} {
			if strings.HasPrefix(text, c) {
				control = c
			}
		}
		if control == "" {
			r := []rune(text)[0]
			if r < ' ' {
				s.t.Errorf("the terminal got %q", text)
			}
			s.put(string(r))
			text = text[len(string(r)):]
			continue
		}
		switch control {
		case "\x1b[J":
			s.rows = s.rows[:s.y+1]
			s.rows[s.y].cells = s.rows[s.y].cells[:min(s.x, len(s.rows[s.y].cells))]
			s.rows[s.y].continues = false
		case "\x1b[?7l":
			s.clips = true
		case "\x1b[?7h":
			s.clips = false
		case "\r":
			s.x = 0
		case "\n":
			s.x, s.y = 0, s.y+1
			if s.y == len(s.rows) {
				s.rows = append(s.rows, row{})
			}
		}
		text = text[len(control):]
	}
	return len(p), nil
}

func (s *screen) put(c string) {
	n := Columns(c)
	if s.x+n > s.width {
		if s.clips {
			s.x = s.width - n
		} else {
			s.rows[s.y].continues = true
			s.Write([]byte("\n"))
		}
	}
	cells := s.rows[s.y].cells
	for len(cells) < s.x+n {
		cells = append(cells, " ")
	}
	cells[s.x] = c
	if n == 2 {
		cells[s.x+1] = ""
	}
	s.rows[s.y].cells = cells
	s.x += n
}

// resize breaks all lines again. The cursor stays at its character.
func (s *screen) resize(width int) {
	if s.x != 0 {
		s.t.Errorf("the cursor is left in column %d, where a resize would take it to another row", s.x)
	}
	old, at := s.rows, s.y
	*s = screen{t: s.t, width: width, rows: []row{{}}}
	y := 0
	for i, r := range old {
		if i == at {
			y = s.y
		}
		for _, c := range r.cells {
			if c != "" {
				s.put(c)
			}
		}
		if i < len(old)-1 && !r.continues {
			s.Write([]byte("\n"))
		}
	}
	s.x, s.y = 0, y
}

func (s *screen) lines() (lines []string) {
	for _, r := range s.rows {
		lines = append(lines, strings.TrimRight(strings.Join(r.cells, ""), " "))
	}
	return lines
}

func newScreen(t *testing.T, width int) (*screen, *StatusLine) {
	s := &screen{t: t, width: width, rows: []row{{}}}
	return s, &StatusLine{W: s, Width: func() int { return s.width }}
}

// TestStatusLine checks a run of 400 steps at many widths, with changes of the width and text in between: at the end
// there is one status line, and all text is above it.
func TestStatusLine(t *testing.T) {
	for _, widths := range [][]int{{60}, {80}, {100}, {200}, {1}, {2}, {10}, {100, 60}, {60, 100}, {200, 33, 80},
		{200, 80, 199, 61, 60, 59}} {
		t.Run(fmt.Sprint(widths), func(t *testing.T) {
			s, line := newScreen(t, widths[0])
			var said []string
			for step := 1; step <= 400; step++ {
				if step%3 == 0 {
					s.resize(widths[step/3%len(widths)])
				}
				text := "loss 1.234, 2h3m4s left, 14.2k tok/s (7.1k learned), grad 12.34, lr 2.0e-05, 世界世界世界世界"
				if step%7 == 0 {
					line.Draw(text + "\x1b[2J\n")
				} else {
					line.DrawBar(step, 400, text)
				}
				if step%100 == 0 {
					said = append(said, fmt.Sprint(step/100)) // one character, which fits any width
					fmt.Fprintln(line, step/100)
				}
			}
			line.DrawBar(400, 400, "the end")
			got := s.lines()
			if want := append(slices.Clone(said), got[len(got)-1]); !slices.Equal(got, want) || len(got[len(got)-1]) == 0 {
				t.Errorf("the screen has\n%s", strings.Join(got, "\n"))
			}
			if line.Clear(); strings.Join(s.lines(), " ") != strings.Join(append(said, ""), " ") {
				t.Errorf("after Clear the screen has\n%s", strings.Join(s.lines(), "\n"))
			}
		})
	}
}

// TestStatusLine_NarrowTerminals checks that narrow terminals also show the numbers and the beginning of the text, and
// that text that fits is not truncated.
func TestStatusLine_NarrowTerminals(t *testing.T) {
	for width, want := range map[int]string{
		100: "25% |████            | (100/400) loss 1.234",
		80:  "25% |████            | (100/400) loss 1.234",
		40:  "25% |███         | (100/400) loss 1.234",
		30:  "100/400 loss 1.234",
		16:  "100/400 loss 1…",
	} {
		s, line := newScreen(t, width)
		line.DrawBar(100, 400, "loss 1.234")
		if got := s.lines()[0]; got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	const whole = "loss 1.234, 2m3s left, lr 2.0e-05, grad 12.34, 14.2k tok/s"
	for width, want := range map[int]string{
		200: "25% |████            | (100/400) " + whole,
		100: "25% |████            | (100/400) " + whole,
		80:  "25% |█   | (100/400) " + whole,
		60:  "100/400 loss 1.234, 2m3s left, lr 2.0e-05, grad 12.34",
	} {
		s, line := newScreen(t, width)
		line.DrawBar(100, 400, whole)
		if got := s.lines()[0]; got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	s, line := newScreen(t, 21)
	for text, want := range map[string]string{
		"éééééééééé 123456789": "éééééééééé 123456789", // 20 columns, one less than there are
		"世界世界世界 1234567":       "世界世界世界 1234567",
		"世界世界世界 12345678":      "世界世界世界 123456…",
	} {
		if line.Draw(text); s.lines()[0] != want {
			t.Errorf("%q in 21 columns is drawn as %q, want %q", text, s.lines()[0], want)
		}
	}
	s, line = newScreen(t, 80)
	line.DrawBar(7, -1, "rows")
	if got := s.lines()[0]; !strings.HasSuffix(got, "(7/-) rows") {
		t.Errorf("without a known total: %q", got)
	}
}

// TestStatusLine_PipeGetsText checks that a pipe gets only the text.
func TestStatusLine_PipeGetsText(t *testing.T) {
	var out bytes.Buffer
	line := NewStatusLine(&out)
	line.Draw("a")
	line.DrawBar(1, 2, "b")
	fmt.Fprintln(line, "text")
	line.Clear()
	if line.On() || out.String() != "text\n" {
		t.Errorf("%v, %q", line.On(), out.String())
	}
}

// TestStatusLine_ResizeWhileDrawing checks a terminal that becomes narrower after its width was read.
func TestStatusLine_ResizeWhileDrawing(t *testing.T) {
	s, line := newScreen(t, 40)
	line.Width = func() int { return 80 }
	for range 3 {
		line.Draw(strings.Repeat("x", 79))
	}
	if n := len(s.lines()); n != 1 {
		t.Errorf("%d lines:\n%s", n, strings.Join(s.lines(), "\n"))
	}
}
