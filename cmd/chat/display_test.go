package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// screen is a terminal with what the command uses of one: lines that scroll out at the top, and the few control
// sequences that the command sends.
type screen struct {
	t             testing.TB
	width, height int
	above         []string   // lines that have scrolled out
	rows          [][]string // cells; the second of a wide character is empty
	x, y          int
	rest          string // an incomplete control sequence
	wraps         bool   // whether lines that are too long may continue in the next row
}

func newScreen(t testing.TB, width, height int) *screen {
	return &screen{t: t, width: width, height: height, rows: make([][]string, 1)}
}

func (s *screen) Write(p []byte) (int, error) {
	text := s.rest + string(p)
	s.rest = ""
	for text != "" {
		if text[0] == '\x1b' {
			end := strings.IndexFunc(text, func(r rune) bool { return r >= 'A' && r != '[' })
			if end < 0 {
				s.rest = text
				break
			}
			s.control(strings.TrimPrefix(text[1:end], "["), text[end])
			text = text[end+1:]
			continue
		}
		if !utf8.FullRuneInString(text) {
			s.rest = text
			break
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		s.put(r)
	}
	return len(p), nil
}

func (s *screen) control(args string, letter byte) {
	n := 1
	fmt.Sscan(args, &n)
	row := &s.rows[s.y]
	switch letter {
	case 'A':
		if n > s.y {
			s.t.Errorf("the cursor goes up %d rows from row %d: over the edge", n, s.y)
		}
		s.y = max(0, s.y-n)
	case 'C':
		s.x += n
	case 'D':
		s.x -= n
	case 'G':
		s.x = n - 1
	case 'K':
		*row = (*row)[:min(s.x, len(*row))]
	case 'J':
		*row = (*row)[:min(s.x, len(*row))]
		s.rows = s.rows[:s.y+1]
	case 'h', 'l': // bracketed paste mode
	default:
		s.t.Errorf("unknown control sequence %s%c", args, letter)
	}
}

func (s *screen) put(r rune) {
	switch {
	case r == '\r':
		s.x = 0
		return
	case r == '\n': // with the carriage return that the terminal adds
		s.x = 0
		if s.y++; s.y == len(s.rows) {
			s.rows = append(s.rows, nil)
		}
		if len(s.rows) > s.height {
			s.above = append(s.above, strings.Join(s.rows[0], ""))
			s.rows = s.rows[1:]
			s.y--
		}
		return
	}
	row := &s.rows[s.y]
	n := cli.Columns(string(r))
	if n == 0 && s.x > 0 {
		(*row)[s.x-1] += string(r)
		return
	}
	if s.x+n > s.width && s.wraps {
		s.put('\n')
		row = &s.rows[s.y]
	} else if s.x+n > s.width {
		s.t.Errorf("%q is written behind the right edge", r)
	}
	for len(*row) < s.x+n {
		*row = append(*row, " ")
	}
	(*row)[s.x] = string(r)
	if n == 2 {
		(*row)[s.x+1] = ""
	}
	s.x += n
}

// lines returns everything that was ever shown, as a person who scrolls back sees it.
func (s *screen) lines() []string {
	lines := slices.Clone(s.above)
	for _, row := range s.rows {
		lines = append(lines, strings.Join(row, ""))
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func two(left, right string, leftDone, rightDone bool) []pane {
	return []pane{
		{label: "base", title: "meta/base", text: left, done: leftDone, foot: "[5 tokens]"},
		{label: "tuned", title: "out", text: right, done: rightDone, foot: "[cut at 7 tokens (--max-tokens)]"},
	}
}

// TestColumns_GrowingAnswers shows two growing answers on a screen of 80 columns and 8 rows.
func TestColumns_GrowingAnswers(t *testing.T) {
	s := newScreen(t, 80, 8)
	d := &columnsDisplay{w: s, size: func() (int, int) { return s.width, s.height }}
	for _, step := range []struct {
		panes []pane
		want  string
	}{
		{two("", "", false, false), `
base: meta/base                        │ tuned: out
────────────────────────────────────── │ ──────────────────────────────────────
`},
		{two("You can use a slice with a", "Oh, how", false, false), `
base: meta/base                        │ tuned: out
────────────────────────────────────── │ ──────────────────────────────────────
You can use a slice with a             │ Oh, how
`},
		{two("You can use a slice with a negative step.", "Oh, how fascinating. Another list that is the wrong", false,
			false), `
base: meta/base                        │ tuned: out
────────────────────────────────────── │ ──────────────────────────────────────
You can use a slice with a negative    │ Oh, how fascinating. Another list that
step.                                  │ is the wrong
`},
		{two("You can use a slice with a negative step.",
			"Oh, how fascinating. Another list that is the wrong way round:\n\n```python\nxs", true, false), `
base: meta/base                        │ tuned: out
────────────────────────────────────── │ ──────────────────────────────────────
You can use a slice with a negative    │ Oh, how fascinating. Another list that
step.                                  │ is the wrong way round:
                                       │
[5 tokens]                             │ ` + "```python" + `
                                       │ xs
`},
		{two("You can use a slice with a negative step.",
			"Oh, how fascinating. Another list that is the wrong way round:\n\n```python\nxs[::-1]\n```\n", true, true), `
base: meta/base                        │ tuned: out
────────────────────────────────────── │ ──────────────────────────────────────
You can use a slice with a negative    │ Oh, how fascinating. Another list that
step.                                  │ is the wrong way round:
                                       │
[5 tokens]                             │ ` + "```python" + `
                                       │ xs[::-1]
                                       │ ` + "```" + `
                                       │
                                       │ [cut at 7 tokens (--max-tokens)]

`},
	} {
		expect.OK(t, d.draw(step.panes))
		got := strings.Join(s.lines(), "\n")
		if want := strings.TrimPrefix(step.want, "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestColumns_EndWithWholeAnswersOnce grows two answers at random on screens of all sizes, and checks that in the end
// the screen shows the two columns of the whole answers, exactly once.
func TestColumns_EndWithWholeAnswersOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	words := []string{"word", " ", " ", "\n", "\n\n", "    x = 1\n", "averyveryverylongwordthatdoesnotfitanywhereatall",
		"世", "é", "`code`"}
	for round := range 100 {
		s := newScreen(t, 75+r.IntN(60), 3+r.IntN(20))
		d := &columnsDisplay{w: s, size: func() (int, int) { return s.width, s.height }}
		var texts [2]string
		var done [2]bool
		for !done[0] || !done[1] {
			for i := range 2 {
				if done[i] || r.IntN(4) == 0 {
					continue
				}
				if done[i] = r.IntN(40) == 0; !done[i] {
					for range r.IntN(6) {
						texts[i] += words[r.IntN(len(words))]
					}
				}
			}
			expect.OK(t, d.draw(two(texts[0], texts[1], done[0], done[1])))
		}
		column := columnWidth(s.width)
		left, right := two(texts[0], texts[1], true, true)[0].lines(column), two(texts[0], texts[1], true,
			true)[1].lines(column)
		var want []string
		for i := range max(len(left), len(right)) {
			var l, r string
			if i < len(left) {
				l = left[i]
			}
			if i < len(right) {
				r = right[i]
			}
			want = append(want, strings.TrimRight(fmt.Sprintf("%s%s%s%s", l, strings.Repeat(" ", column-cli.Columns(l)), gutter,
				r), " "))
		}
		got := s.lines()
		if len(got) < 4 || !slices.Equal(got[2:len(got)-2], want) {
			t.Fatalf("round %d, %d by %d: got\n%s\nwant\n%s", round, s.width, s.height, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	}
}

func TestColumns_Resize(t *testing.T) {
	s := newScreen(t, 100, 30)
	d := &columnsDisplay{w: s, size: func() (int, int) { return s.width, s.height }}
	d.draw(two("left", "right", false, false))
	s.width = 80
	d.draw(two("left and", "right and", false, false))
	d.draw(two("left and more", "right and more", true, true))
	text := strings.Join(s.lines(), "\n")
	if strings.Count(text, "base: meta/base") != 2 || strings.Count(text, "left and more") != 1 {
		t.Errorf("after a change of the width everything is drawn again below:\n%s", text)
	}
}

// TestPiped_AnswersOneAfterAnother checks that without a terminal the answers are printed one after the other, each
// with its label, however they grow.
func TestPiped_AnswersOneAfterAnother(t *testing.T) {
	var b strings.Builder
	d := &linesDisplay{w: &b, width: func() int { return 0 }}
	for _, step := range []struct {
		panes []pane
		want  string
	}{
		{two("Use\na", "Oh,\nreally.\nA", false, false), "base  │ Use\n"},
		{two("Use\na", "Oh,\nreally.\nAgain", false, true), ""},
		{two("Use\na slice", "Oh,\nreally.\nAgain", true, true), "base  │ a slice\nbase  │\nbase  │ [5 tokens]\n" +
			"tuned │ Oh,\ntuned │ really.\ntuned │ Again\ntuned │\ntuned │ [cut at 7 tokens (--max-tokens)]\n\n"},
		{two("new", "a\nb", true, false), "base  │ new\nbase  │\nbase  │ [5 tokens]\ntuned │ a\n"},
	} {
		b.Reset()
		expect.OK(t, d.draw(step.panes))
		if b.String() != step.want {
			t.Errorf("got\n%s\nwant\n%s", b.String(), step.want)
		}
	}
}

func TestLinesDisplay(t *testing.T) {
	var b strings.Builder
	d := &linesDisplay{w: &b, width: func() int { return 30 }}
	for _, step := range []struct {
		panes []pane
		want  string
	}{
		{two("Use", "Oh", false, false), ""},
		{two("Use a slice with a negative", "Oh, really.\nAgain", false, false),
			"base  │ Use a slice with a\ntuned │ Oh, really.\n"},
		{two("Use a slice with a negative step.", "Oh, really.\nAgain", true, false),
			"base  │ negative step.\nbase  │\nbase  │ [5 tokens]\n"},
		{two("Use a slice with a negative step.", "Oh, really.\nAgain?", true, true),
			"tuned │ Again?\ntuned │\ntuned │ [cut at 7 tokens\ntuned │ (--max-tokens)]\n\n"},
		{two("new", "", true, false), "base  │ new\nbase  │\nbase  │ [5 tokens]\n"},
	} {
		b.Reset()
		expect.OK(t, d.draw(step.panes))
		if b.String() != step.want {
			t.Errorf("got\n%s\nwant\n%s", b.String(), step.want)
		}
	}
}

func TestPlainDisplay(t *testing.T) {
	var out, notes strings.Builder
	d := &plainDisplay{w: &out, notes: &notes}
	for _, p := range []pane{
		{text: "Use"}, {text: "Use a\nslice"}, {text: "Use a\nslice.", done: true, foot: "[3 tokens]"},
		{text: "Next"}, {text: "Next\n", done: true, foot: "[1 token]"},
	} {
		expect.OK(t, d.draw([]pane{p}))
	}
	if out.String() != "Use a\nslice.\nNext\n" || notes.String() != "\n[3 tokens]\n\n\n[1 token]\n\n" {
		t.Errorf("out %q, notes %q", out.String(), notes.String())
	}
}

// TestPlainWraps checks that on a terminal the lines of a single model's answer break between words, however the answer
// arrives.
func TestPlainWraps(t *testing.T) {
	answer := "You may sort it with sorted, which is what everybody does.\n\n    x = 1\n世界 世界世界 " +
		"supercalifragilisticexpialidocious  end"
	for _, width := range []int{10, 24, 80} {
		s := newScreen(t, width, 50) // fails if anything is written past its edge
		d := &plainDisplay{w: s, notes: s, width: func() int { return width }}
		for n := range len(answer) {
			if utf8.ValidString(answer[:n]) {
				expect.OK(t, d.draw([]pane{{text: answer[:n]}}))
			}
		}
		expect.OK(t, d.draw([]pane{{text: answer, done: true, foot: "[cut at 20 tokens]"}}))
		want := append(append(cli.Wrap(answer, width), ""), cli.Wrap("[cut at 20 tokens]", width)...)
		if got := s.lines(); !slices.Equal(got[:len(want)], want) {
			t.Errorf("%d columns:\n%q\nwant\n%q", width, got, want)
		}
	}
}

// TestHelpFits checks that the help fits in 80 columns, the minimum of a terminal and the default if the width is
// unknown.
func TestHelpFits(t *testing.T) {
	var notes strings.Builder
	c := &chatter{notes: &notes}
	expect.OK(t, c.help(t.Context(), ""))
	for line := range strings.Lines(notes.String()) {
		if n := cli.Columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
