package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/term"
)

// typing returns a terminal whose keys come from the test and whose screen is discarded.
func typing(answering func() bool, hit func()) *terminal {
	t := &terminal{keys: newKeyboard(answering, hit), history: &history{}}
	t.editor = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, io.Discard}, "")
	t.editor.History = t.history
	return t
}

func never() bool { return false }

func TestEditing(t *testing.T) {
	const up, left = "\x1b[A", "\x1b[D"
	for _, c := range []struct {
		name, keys string
		want       []string
	}{
		{"plain", "hello\r", []string{"hello"}},
		{"backspace", "helo\x7flo\r", []string{"hello"[:3] + "lo"}},
		{"in the middle", "hllo" + left + left + left + "e\r", []string{"hello"}},
		{"history", "one\rtwo\r" + up + up + "\r", []string{"one", "two", "one"}},
		{"a paste of several lines", "say: \x1b[200~a\r\tb\r\nc\n\x1b[201~ end\r", []string{"say: a\n\tb\nc\n end"}},
		{"nothing pasted is a key", "\x1b[200~\x01\x1b[201~x\r", []string{"\x01x"}},
		{"a paste comes back whole", "\x1b[200~a\rb\x1b[201~\r" + up + "\r", []string{"a\nb", "a\nb"}},
		{"wide characters", "世界\x7f!\r", []string{"世!"}},
	} {
		for _, chunk := range []int{1, 3, 1000} { // bytes that the terminal sends at a time
			tt := typing(never, nil)
			go func() {
				for keys := c.keys; keys != ""; {
					n := min(chunk, len(keys))
					tt.keys.take([]byte(keys[:n]))
					keys = keys[n:]
				}
			}()
			for _, want := range c.want {
				line, err := tt.editor.ReadLine()
				if err != nil || splitLines(line) != want {
					t.Errorf("%s, %d bytes at a time: %q, %v, want %q", c.name, chunk, splitLines(line), err, want)
				}
			}
		}
	}
}

func TestPrefill(t *testing.T) {
	tt := typing(never, nil)
	tt.prefill("first\n\tsecond \x1b[2J")
	tt.keys.take([]byte("!\r"))
	if line, err := tt.editor.ReadLine(); err != nil || splitLines(line) != "first\n\tsecond ␛[2J!" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestCtrlC(t *testing.T) {
	answering, hits := true, 0
	k := newKeyboard(func() bool { return answering }, func() { hits++; answering = hits < 2 })
	k.take([]byte("x\x03y\x03z\x03"))
	if hits != 2 || string(k.pending) != "xyz\x03" {
		t.Errorf("%d were heard while there was something to stop, want 2; %q is left", hits, k.pending)
	}
	// The third came when no answer was under way: it is for the prompt, and the text before it is dropped.
	if _, err := k.Read(make([]byte, 10)); !errors.Is(err, errInterrupt) {
		t.Errorf("the prompt got %v", err)
	}
	k.take([]byte("typed ahead\rfor later\x03"))
	p := make([]byte, 100)
	if n, err := k.Read(p); err != nil || string(p[:n]) != "typed ahead\r" {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestKeyboard_ReadingEndsWithContext(t *testing.T) {
	k := newKeyboard(never, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	defer k.until(ctx)()
	if _, err := k.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}

	k = newKeyboard(never, nil)
	k.pump(strings.NewReader("last"))
	p := make([]byte, 10)
	if n, err := k.Read(p); err != nil || string(p[:n]) != "last" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if _, err := k.Read(p); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

func TestHistory(t *testing.T) {
	h := &history{}
	for _, e := range []string{"a", " ", "b", "b", ""} {
		h.Add(e)
	}
	if h.Len() != 2 || h.At(0) != "b" || h.At(1) != "a" {
		t.Errorf("%q", h.entries)
	}
	for range 3 * keptQuestions {
		h.Add("x")
		h.Add("y")
	}
	if h.Len() != keptQuestions {
		t.Errorf("%d entries", h.Len())
	}
}

func TestPlainInput(t *testing.T) {
	in := newPlainInput(strings.NewReader("\ufeffone\r\ntwo\n\nlast"))
	for _, want := range []string{"one", "two", "", "last"} {
		if line, err := in.readLine(t.Context(), ""); err != nil || line != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	for range 2 {
		if _, err := in.readLine(t.Context(), ""); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	r, _ := io.Pipe() // never sends anything
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPlainInput(r).readLine(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestInterrupts(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	i := &interrupts{leave: leave}
	answer, end := i.answer(ctx)
	i.hit()
	if answer.Err() == nil || ctx.Err() != nil || !i.wasStopped() {
		t.Error("the first stops the answer alone")
	}
	end()
	answer, end = i.answer(ctx)
	if answer.Err() != nil || i.wasStopped() || !i.answering() {
		t.Error("the next answer is a new one")
	}
	i.hit()
	i.hit()
	if ctx.Err() == nil {
		t.Error("the second leaves")
	}
	end()
	ctx, i.leave = context.WithCancel(t.Context())
	i.hit()
	if ctx.Err() == nil {
		t.Error("without an answer the first leaves")
	}
}

// lines are what a user types; "^C" is a Ctrl-C.
type lines []string

func (l *lines) readLine(context.Context, string) (string, error) {
	if len(*l) == 0 {
		return "", io.EOF
	}
	line := (*l)[0]
	*l = (*l)[1:]
	if line == "^C" {
		return "", errInterrupt
	}
	return line, nil
}

// TestInterruptedEdit checks that a Ctrl-C cancels the editing, and that the next line is a question or command of its
// own.
func TestInterruptedEdit(t *testing.T) {
	var notes strings.Builder
	c := &chatter{options: defaults(), notes: &notes, interrupts: &interrupts{}, asked: "first", prefill: func(string) {}}
	if err := c.session(t.Context(), &lines{"/edit", "^C", "/set"}); err != nil ||
		!strings.Contains(notes.String(), "temperature 0.8") {
		t.Errorf("%v: %s", err, notes.String())
	}
}
