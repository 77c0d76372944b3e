package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"restyle/internal/cli"
)

// A terminal reads what is typed, with editing and history, and shows what is written. It is in raw mode from open to
// close, so that nothing typed while an answer comes mixes with it; what was typed then is read as the next input.
type terminal struct {
	in, out *os.File
	before  *term.State
	keys    *keyboard
	history *history
	editor  *term.Terminal
}

// openTerminal takes over a terminal. hit is called for a Ctrl-C while underWay says that there is something to stop.
func openTerminal(in, out *os.File, earlier []string, underWay func() bool, hit func()) (*terminal, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	t := &terminal{in: in, out: out, before: before, keys: newKeyboard(underWay, hit), history: &history{}}
	for _, question := range earlier {
		t.history.Add(joinLines(question))
	}
	t.begin()
	go t.keys.pump(in)
	return t, nil
}

// begin starts an editor; after a Ctrl-C there is no other way to be rid of the line that stood in the old one.
func (t *terminal) begin() {
	t.editor = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, t.out}, "")
	t.editor.History = t.history
	t.editor.SetBracketedPasteMode(true)
}

func (t *terminal) close() {
	t.editor.SetBracketedPasteMode(false)
	term.Restore(int(t.in.Fd()), t.before)
}

func (t *terminal) readLine(ctx context.Context, prompt string) (string, error) {
	t.editor.SetPrompt(prompt)
	t.editor.SetSize(t.size())
	defer t.keys.until(ctx)()
	line, err := t.editor.ReadLine()
	if errors.Is(err, errInterrupt) {
		io.WriteString(t.out, "^C\r\n")
		t.begin()
	}
	if errors.Is(err, io.EOF) {
		io.WriteString(t.out, "\r\n")
	}
	return splitLines(line), err
}

func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 || height < 2 {
		return 80, 24
	}
	return width, height
}

// prefill puts a text on the line to come, to be edited.
func (t *terminal) prefill(text string) { t.keys.prefill(joinLines(cli.Clean(text))) }

// Write shows text; in raw mode a terminal moves to the beginning of the line only where it is told.
func (t *terminal) Write(p []byte) (int, error) {
	_, err := t.out.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// The editor edits one line. What is pasted or edited may have several: their breaks, and tabs, which the editor does not
// know how to show, are signs in it.
const (
	lineSign = "⏎"
	tabSign  = "⇥"
)

func joinLines(s string) string { return strings.NewReplacer("\n", lineSign, "\t", tabSign).Replace(s) }

func splitLines(s string) string {
	return strings.NewReplacer(lineSign, "\n", tabSign, "\t").Replace(s)
}

// A keyboard keeps what is typed until the editor reads it. It hears a Ctrl-C at once.
type keyboard struct {
	underWay func() bool
	hit      func()

	mu      sync.Mutex
	typed   sync.Cond
	pending []byte
	err     error // the end of the input
	gone    error // why nobody waits any more

	// Of the paste that is going on:
	pasting bool
	seen    int  // bytes of the mark that would begin or end it
	cr      bool // the last byte was a carriage return
}

func newKeyboard(underWay func() bool, hit func()) *keyboard {
	k := &keyboard{underWay: underWay, hit: hit}
	k.typed.L = &k.mu
	return k
}

const ctrlC = 3

// pump reads the terminal for as long as the program runs.
func (k *keyboard) pump(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		k.take(buf[:n])
		if err != nil {
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
			k.typed.Broadcast()
			return
		}
	}
}

// take accepts typed bytes.
func (k *keyboard) take(typed []byte) {
	for i := bytes.IndexByte(typed, ctrlC); i >= 0 && k.underWay(); i = bytes.IndexByte(typed, ctrlC) {
		k.hit()
		typed = slices.Delete(typed, i, i+1)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range typed {
		k.pending = append(k.pending, k.translate(b)...)
	}
	k.typed.Broadcast()
}

// The marks that a terminal puts around what is pasted.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// translate turns line breaks and tabs inside of a paste into their signs.
func (k *keyboard) translate(b byte) string {
	mark := pasteBegins
	if k.pasting {
		mark = pasteEnds
	}
	switch {
	case b == mark[k.seen]:
		if k.seen++; k.seen == len(mark) {
			k.pasting, k.seen = !k.pasting, 0
		}
	case b == mark[0]:
		k.seen = 1
	default:
		k.seen = 0
	}
	afterCR := k.cr
	k.cr = b == '\r'
	switch {
	case !k.pasting:
	case b == '\n' && afterCR:
		return ""
	case b == '\n' || b == '\r':
		return lineSign
	case b == '\t':
		return tabSign
	}
	return string([]byte{b})
}

// Read gives the editor what was typed, but nothing behind the end of a line: that is for what comes after it. A Ctrl-C
// comes as errInterrupt, without what stands in front of it.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.pending) == 0 {
		if err := cmpErr(k.gone, k.err); err != nil {
			return 0, err
		}
		k.typed.Wait()
	}
	line := k.pending
	if i := bytes.IndexAny(line, "\r\n\x03"); i >= 0 {
		if line[i] == ctrlC {
			k.pending = k.pending[i+1:]
			return 0, errInterrupt
		}
		line = line[:i+1]
	}
	n := copy(p, line)
	k.pending = k.pending[n:]
	return n, nil
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// until makes reading end with ctx, until the function that it returns is called.
func (k *keyboard) until(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, func() {
		k.mu.Lock()
		k.gone = ctx.Err()
		k.mu.Unlock()
		k.typed.Broadcast()
	})
	return func() { stop() }
}

func (k *keyboard) prefill(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append([]byte(text), k.pending...)
}

// history is what the up arrow brings back, the latest first.
type history struct{ entries []string }

func (h *history) Add(entry string) {
	if strings.TrimSpace(entry) == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		return
	}
	if h.entries = append(h.entries, entry); len(h.entries) > keptQuestions {
		h.entries = h.entries[1:]
	}
}

func (h *history) Len() int { return len(h.entries) }

func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }

// plainInput reads lines from a file or a pipe.
type plainInput struct{ lines chan typedLine }

type typedLine struct {
	text string
	err  error
}

func newPlainInput(r io.Reader) *plainInput {
	p := &plainInput{lines: make(chan typedLine)}
	go func() {
		defer close(p.lines)
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			if text != "" {
				p.lines <- typedLine{text: strings.TrimRight(text, "\r\n")}
			}
			if err != nil {
				p.lines <- typedLine{err: err}
				return
			}
		}
	}()
	return p
}

func (p *plainInput) readLine(ctx context.Context, _ string) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case line, ok := <-p.lines:
		if !ok {
			return "", io.EOF
		}
		return line.text, line.err
	}
}
