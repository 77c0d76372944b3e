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

// A terminal reads input with editing and history, and writes output. It is in raw mode from open to close, so that
// keys typed during an answer do not mix with it. They become the next input.
type terminal struct {
	in, out *os.File
	before  *term.State
	keys    *keyboard
	history *history
	editor  *term.Terminal
}

// openTerminal takes over a terminal. It calls hit for a Ctrl-C while answering returns true.
func openTerminal(in, out *os.File, earlier []string, answering func() bool, hit func()) (*terminal, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	t := &terminal{in: in, out: out, before: before, keys: newKeyboard(answering, hit), history: &history{}}
	for _, question := range earlier {
		t.recall(question)
	}
	t.begin()
	go t.keys.pump(in)
	return t, nil
}

// begin starts an editor. After a Ctrl-C this is the only way to discard the line in the old one.
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

// prefill puts text on the next line, to be edited.
func (t *terminal) prefill(text string) { t.keys.prefill(joinLines(cli.Clean(text))) }

// recall makes text the last line of the history.
func (t *terminal) recall(text string) { t.history.Add(joinLines(text)) }

// Write writes text. In raw mode a terminal needs a carriage return to move to the start of a line.
func (t *terminal) Write(p []byte) (int, error) {
	_, err := t.out.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// The editor edits one line, but pasted and edited text may have several. The editor cannot show line breaks and
// tabs, so it shows signs for them.
const (
	lineSign = "⏎"
	tabSign  = "⇥"
)

func joinLines(s string) string { return strings.NewReplacer("\n", lineSign, "\t", tabSign).Replace(s) }

func splitLines(s string) string {
	return strings.NewReplacer(lineSign, "\n", tabSign, "\t").Replace(s)
}

// A keyboard buffers typed bytes until the editor reads them, but handles a Ctrl-C at once.
type keyboard struct {
	answering func() bool
	hit       func()

	mu      sync.Mutex
	typed   sync.Cond
	pending []byte
	err     error // the end of the input
	gone    error // why Read no longer waits

	// State of a paste:
	pasting bool
	seen    int  // bytes so far of the mark that starts or ends it
	cr      bool // the last byte was a carriage return
}

func newKeyboard(answering func() bool, hit func()) *keyboard {
	k := &keyboard{answering: answering, hit: hit}
	k.typed.L = &k.mu
	return k
}

const ctrlC = 3

// pump reads the terminal until it ends.
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

// take handles typed bytes.
func (k *keyboard) take(typed []byte) {
	for i := bytes.IndexByte(typed, ctrlC); i >= 0 && k.answering(); i = bytes.IndexByte(typed, ctrlC) {
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

// The marks that a terminal puts around pasted text.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// translate replaces line breaks and tabs in pasted text by their signs.
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

// Read returns typed bytes to the editor, but none after the end of a line: these are for the next one. A Ctrl-C
// returns errInterrupt and discards the bytes before it.
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

// until makes Read fail when ctx is done, until the function that it returns is called.
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

// history holds the lines that the up arrow brings back.
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

// byteOrderMark is what some programs start UTF-8 with.
const byteOrderMark = "\ufeff"

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
		mark := byteOrderMark // of the first line
		for {
			text, err := in.ReadString('\n')
			text, mark = strings.TrimPrefix(text, mark), ""
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
