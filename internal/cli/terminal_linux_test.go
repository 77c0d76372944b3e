package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"restyle/internal/expect"
)

// TestTerminal prints to a terminal: what is too long for its width is wrapped there, and nowhere else.
func TestTerminal(t *testing.T) {
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	defer keys.Close()
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system gives out no terminals: ", err)
	}
	defer tty.Close()
	printed := func(width int, print func(w io.Writer) error) string {
		t.Helper()
		expect.OK(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ,
			&unix.Winsize{Col: uint16(width), Row: 9}))
		expect.OK(t, print(CleanWriter(tty)))
		fmt.Fprint(tty, "\x04")
		var all []byte
		for one := make([]byte, 1); one[0] != 4; {
			if _, err := keys.Read(one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one...)
		}
		return strings.ReplaceAll(strings.TrimSuffix(string(all), "\x04"), "\r\n", "\n")
	}
	rows := func(w io.Writer) error {
		return PrintRows(w, [][2]string{{"a", "one two three four five six"}, {"bcd", "x"}})
	}
	cells := func(w io.Writer) error { return PrintCells(w, []string{"a", "b", "c"}) }
	help := func(w io.Writer) error {
		f := New("tool", "about this tool and what else it is that it does in so many words that they wrap", w, w)
		f.Group("All")
		f.Add(new(string), "fused", "which `kernels`")
		f.Optional("fused", "all")
		f.Add(new(bool), "a-name-that-is-longer-than-the-column", "so many words that the usage does not fit")
		f.Add(new(int64), "exactly-twenty-six-chars", "u")
		f.Parse([]string{"-h"})
		return nil
	}
	for _, c := range []struct {
		width int
		print func(w io.Writer) error
		want  string
	}{
		{29, rows, "a    one two three four five\n     six\nbcd  x\n"},
		{28, rows, "a    one two three four\n     five six\nbcd  x\n"},
		{9, rows, "a    one two three four\n     five six\nbcd  x\n"}, // at least 20 columns
		{0, rows, "a    one two three four five six\nbcd  x\n"},       // 80, if the terminal does not know
		{8, cells, "a  b  c\n"}, {7, cells, "a  b\nc\n"},
		{50, help, "about this tool and what else it is that it does\nin so many words that they wrap\n\nAll\n" +
			"  --fused [kernels]         which kernels\n  --a-name-that-is-longer-than-the-column\n" +
			strings.Repeat(" ", 28) + "so many words that\n" + strings.Repeat(" ", 28) + "the usage does not\n" +
			strings.Repeat(" ", 28) + "fit\n  --exactly-twenty-six-chars int\n" + strings.Repeat(" ", 28) + "u (default 0)\n"},
		{20, help, "about this tool and what else it is that\nit does"}, // 40 columns at least
		{300, help, "about this tool and what else it is that it does in so many words that they wrap\n"},
	} {
		begins := len(c.want) < 90 && strings.HasPrefix(c.want, "about")
		if got := printed(c.width, c.print); got != c.want && (!begins || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%d columns:\n%q, want\n%q", c.width, got, c.want)
		}
	}
	t.Setenv("TERM", "dumb")
	if IsTerminal(tty) || TerminalWidth(tty) != nil {
		t.Error("a dumb terminal is one")
	}
	if t.Setenv("TERM", "xterm"); !IsTerminal(CleanWriter(tty)) || IsTerminal(io.Discard) {
		t.Error("a terminal is none")
	}
	if file, err := os.Open(os.Args[0]); err != nil || IsTerminal(file) {
		t.Errorf("a file is a terminal, %v", err)
	}
}
