package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// An eventReader turns the body of a response into a form that go-openai's stream
// reader reads without loss: one "data: …" line per event and nothing else. That
// reader gives up after many comments, takes several kinds of broken stream for a
// regular end, and drops a last line without a line break.
//
// A body that is plain JSON, from a server that does not stream, becomes one event.
type eventReader struct {
	in      *bufio.Reader
	pending []byte
	err     error
	started bool   // it has read something other than blank lines and comments
	isError bool   // the next event is announced as an error
	junk    []byte // the beginning of a body that is not a chat completion
}

// maxJunk bounds what is kept of a body that is not a chat completion.
const maxJunk = 4096

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 16<<10)}
}

func (r *eventReader) Read(p []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.line()
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// line reads one line, and sets pending if it is an event.
func (r *eventReader) line() {
	raw, err := r.in.ReadBytes('\n')
	r.err = err
	if err != nil && err != io.EOF {
		return // the line is incomplete
	}
	line := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if len(line) == 0 || line[0] == ':' {
		return
	}
	first := !r.started
	r.started = true
	switch {
	case line[0] == '{' || line[0] == '[':
		if first {
			// Plain JSON may have any number of lines.
			var rest []byte
			if r.err == nil {
				if rest, r.err = io.ReadAll(r.in); r.err != nil {
					return
				}
				r.err = io.EOF
			}
			line = bytes.TrimSpace(append(line, append([]byte("\n"), rest...)...))
		}
		r.event(line)
	case has(line, "data:"):
		payload := bytes.TrimSpace(line[len("data:"):])
		if err == io.EOF && !json.Valid(payload) {
			return // the line is incomplete
		}
		r.event(payload)
	case has(line, "error:"):
		r.isError = true
		r.event(bytes.TrimSpace(line[len("error:"):]))
	case has(line, "event:"):
		r.isError = string(bytes.TrimSpace(line[len("event:"):])) == "error"
	case has(line, "id:"), has(line, "retry:"):
	case first:
		r.junk = append(line, '\n')
		if r.err == nil {
			rest, _ := io.ReadAll(io.LimitReader(r.in, maxJunk))
			r.junk = append(r.junk, rest...)
			r.err = io.EOF
		}
	}
}

// has reports whether a line has a field.
func has(line []byte, field string) bool { return bytes.HasPrefix(line, []byte(field)) }

// event sets pending to one line with the payload.
func (r *eventReader) event(payload []byte) {
	if len(payload) == 0 {
		return
	}
	if bytes.IndexByte(payload, '\n') >= 0 {
		var b bytes.Buffer
		if json.Compact(&b, payload) == nil {
			payload = b.Bytes()
		} else {
			payload = bytes.ReplaceAll(bytes.ReplaceAll(payload, []byte("\r"), []byte(" ")), []byte("\n"), []byte(" "))
		}
	}
	r.pending = append(r.pending[:0], "data: "...)
	switch {
	case r.isError:
		r.isError = false
		r.pending = append(r.pending, `{ "error": `...)
		if json.Valid(payload) {
			r.pending = append(r.pending, payload...)
		} else {
			quoted, _ := json.Marshal(string(payload))
			r.pending = append(r.pending, quoted...)
		}
		r.pending = append(r.pending, '}')
	case has(payload, `{"error":`):
		// go-openai does not return an event that begins like this, and loses it if
		// it does not have OpenAI's form. A space avoids that.
		r.pending = append(append(r.pending, "{ "...), payload[1:]...)
	default:
		r.pending = append(r.pending, payload...)
	}
	r.pending = append(r.pending, '\n')
}
