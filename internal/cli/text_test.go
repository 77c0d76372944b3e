package cli

import (
	"slices"
	"strings"
	"testing"

	"restyle/internal/hostile"

	"github.com/rivo/uniseg"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"empty", "", 10, []string{""}},
		{"fits", "hello", 5, []string{"hello"}},
		{"at a space", "hello world", 8, []string{"hello", "world"}},
		{"just fits", "hello world", 11, []string{"hello world"}},
		{"the space is what does not fit", "hello world", 5, []string{"hello", "world"}},
		{"several spaces", "hello   world", 6, []string{"hello", "world"}},
		{"line breaks", "a\n\nb\n", 5, []string{"a", "", "b", ""}},
		{"a long word", "abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"a long word behind a short one", "x abcdefghij", 4, []string{"x", "abcd", "efgh", "ij"}},
		{"indentation stays", "    return x", 8, []string{"    retu", "rn x"}},
		{"indentation, then a break", "    a = b + c", 10, []string{"    a = b", "+ c"}},
		{"tabs", "a\tb\n\tc", 20, []string{"a   b", "    c"}},
		{"wide characters", "世界世界", 5, []string{"世界", "世界"}},
		{"a wide character in a narrow column", "世a", 1, []string{"世", "a"}},
		{"accents take no column", "e\u0301e\u0301e\u0301", 2, []string{"e\u0301e\u0301", "e\u0301"}},
		{"emoji", "🙂🙂🙂", 4, []string{"🙂🙂", "🙂"}},
		{"joined emoji", "👩‍💻👩‍💻🇩🇪", 4, []string{"👩‍💻👩‍💻", "🇩🇪"}},
	} {
		if got := Wrap(c.text, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzWrap checks what the display relies on: no line is too wide, only spaces are lost, and appending text changes
// only the last line.
func FuzzWrap(f *testing.F) {
	f.Add("hello wide 世界 world", "and\tmore", 7)
	f.Add("    indented\n\n", " x", 3)
	f.Add("a\u0301\u0301", "\u0301b", 1)
	f.Fuzz(func(t *testing.T, text, grown string, width int) {
		if width < 1 || width > 200 || len(text) > 4000 {
			return
		}
		text, grown = Clean(strings.ToValidUTF8(text, "?")), Clean(strings.ToValidUTF8(grown, "?"))
		var lines []string
		hostile.Within(t, hostile.Linear(len(text)), func() { lines = Wrap(text, width) })
		for _, line := range lines {
			if n := Columns(line); n > width && uniseg.GraphemeClusterCount(line) > 1 {
				t.Errorf("line %q is %d columns wide, the column %d", line, n, width)
			}
		}
		bare := strings.NewReplacer(" ", "", "\n", "", "\t", "")
		if got, want := bare.Replace(strings.Join(lines, "")), bare.Replace(text); got != want {
			t.Errorf("%q became %q", want, got)
		}
		longer := Wrap(text+grown, width)
		if n := len(lines) - 1; len(longer) < n || !slices.Equal(longer[:n], lines[:n]) {
			t.Errorf("%q grew by %q and changed earlier lines:\n%q\n%q", text, grown, lines, longer)
		}
	})
}

func TestClean(t *testing.T) {
	for _, c := range [][2]string{
		{"plain\ttext\n", "plain\ttext\n"},
		{"a\r\nb\rc", "a\nb\nc"},
		{"\x1b[2Jgone", "␛[2Jgone"},
		{"bell\a nul\x00 del\x7f", "bell␇ nul␀ del␡"},
		{"\u009b31m", "\uFFFD31m"},
		{"\u202etxt.exe", "\uFFFDtxt.exe"},
	} {
		if got := Clean(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}

// TestInColumns checks that cells are in as many columns as fit, and that each is there once.
func TestInColumns(t *testing.T) {
	cells := []string{"a 1", "batch 22", "c -", "device auto", "世界 1"}
	for width, want := range map[int]string{
		0:   "a 1|batch 22|c -|device auto|世界 1",
		11:  "a 1|batch 22|c -|device auto|世界 1",
		21:  "a 1     batch 22|c -     device auto|世界 1",
		28:  "a 1          batch 22  c -|device auto  世界 1",
		100: "a 1  batch 22  c -  device auto  世界 1",
	} {
		if got := strings.Join(inColumns(cells, width), "|"); got != want {
			t.Errorf("%d columns:\n%s, want\n%s", width, got, want)
		}
	}
	if got := Shorten("one\n two  three", 9); got != "one two…" {
		t.Errorf("shortened: %q", got)
	}
}

// TestRefill checks that paragraphs are wrapped as a whole, and that examples keep their lines.
func TestRefill(t *testing.T) {
	const text = "one two three\nfour five\n\n  run a b\n  run c\n\nsix seven\neight"
	for width, want := range map[int]string{
		10: "one two\nthree four\nfive\n\n  run a b\n  run c\n\nsix seven\neight",
		80: "one two three four five\n\n  run a b\n  run c\n\nsix seven eight",
	} {
		if got := refill("  run PATH  runs what is there", 24); got != "  run PATH  runs what is\n            there" {
			t.Errorf("a list: %q", got)
		}
		if got := refill("  run a long path  what it does", 24); got != "  run a long path\n      what it does" {
			t.Errorf("a text that goes below: %q", got)
		}
		if got := refill(text, width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// TestPrintRows checks that a pipe gets a line for each row, whatever its length.
func TestPrintRows(t *testing.T) {
	var out strings.Builder
	long := strings.Repeat("word ", 50)
	err := PrintRows(&out, [][2]string{{"model", "x"}, {"", long}})
	if err != nil || out.String() != "model  x\n       "+long+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
