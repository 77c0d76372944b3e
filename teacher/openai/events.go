package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// An eventReader splits the body of a response into events. The body may be a stream of server-sent events, with any
// line ends, or JSON: one whole answer from a server that does not stream, or an event per line.
type eventReader struct {
	in      *bufio.Reader
	body    io.Reader     // of JSON
	values  *json.Decoder // reads body
	started bool          // it has read something other than blank lines and comments
	ended   bool          // there are no more events
	afterCR bool          // a line feed now belongs to the last line's end
	held    []byte        // data of an event that continues in the next line
	isError bool          // the next event is announced as an error
	junk    []byte        // the beginning of a body that is not a chat completion
}

// maxJunk bounds the bytes that are kept of a body that is not a chat completion.
const maxJunk = 4096

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 16<<10)}
}

// An event is the data of one event.
type event struct {
	data    []byte // without spaces around it, not empty
	isError bool   // the stream announced it as an error
}

// next returns the next event, and io.EOF after the last one. Any other error means that the body is incomplete.
func (r *eventReader) next() (event, error) {
	for !r.ended {
		if r.values != nil {
			return r.value()
		}
		line, err := r.line()
		if err != nil && err != io.EOF {
			return event{}, err
		}
		r.ended = err == io.EOF
		e := r.take(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff"))))
		if e.data == nil && r.ended && json.Valid(r.held) { // otherwise it is incomplete
			e = r.release()
		}
		if isDone(e.data) {
			break
		}
		if e.data != nil {
			return e, nil
		}
	}
	r.ended = true
	return event{}, io.EOF
}

// isDone reports whether data marks the end of a stream.
func isDone(data []byte) bool { return strings.EqualFold(string(bytes.Trim(data, `"`)), "[DONE]") }

// line reads one line, which ends with a line feed, a carriage return or both.
func (r *eventReader) line() (line []byte, err error) {
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return line, err
		}
		pair := b == '\n' && r.afterCR
		r.afterCR = b == '\r'
		switch {
		case pair:
		case b == '\n' || b == '\r':
			return line, nil
		default:
			line = append(line, b)
		}
	}
}

// take takes one line, and returns the event that it completes, if any.
func (r *eventReader) take(line []byte) event {
	if len(line) == 0 {
		return r.release()
	}
	if line[0] == ':' {
		return event{}
	}
	first := !r.started
	r.started = true
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	for bytes.HasPrefix(value, []byte("data:")) { // a proxy has made a stream of a stream
		value = bytes.TrimSpace(value[len("data:"):])
	}
	switch {
	case line[0] == '{' || line[0] == '[':
		if !first {
			return r.data(line)
		}
		r.body = io.MultiReader(bytes.NewReader(append(line, '\n')), r.in)
		r.values, r.ended = json.NewDecoder(r.body), false
	case string(field) == "data":
		return r.data(value)
	case string(field) == "error":
		r.isError = true
		return r.data(value)
	case string(field) == "event":
		r.isError = string(value) == "error"
	case string(field) == "id", string(field) == "retry":
	case first:
		rest, _ := io.ReadAll(io.LimitReader(r.in, maxJunk))
		r.junk = append(append(line, '\n'), rest...)
		r.ended = true
	}
	return event{}
}

// data takes the data of one line. JSON that is incomplete continues in the next line, up to a blank one.
func (r *eventReader) data(data []byte) event {
	switch {
	case len(data) == 0:
		return event{}
	case len(r.held) == 0 && (r.isError || isDone(data) || json.Valid(data) || data[0] != '{' && data[0] != '['):
		r.held = data
		return r.release()
	}
	r.held = append(append(r.held, '\n'), data...)
	return event{}
}

// release returns the event whose data is held.
func (r *eventReader) release() event {
	if len(r.held) == 0 {
		return event{}
	}
	e := event{bytes.TrimSpace(r.held), r.isError}
	r.held, r.isError = nil, false
	return e
}

// value returns the next value of a body that is JSON. It returns anything that is not JSON as it is.
func (r *eventReader) value() (event, error) {
	var raw json.RawMessage
	err := r.values.Decode(&raw)
	if _, invalid := err.(*json.SyntaxError); invalid {
		rest, _ := io.ReadAll(io.MultiReader(r.values.Buffered(), r.body))
		raw, err, r.ended = bytes.TrimSpace(rest), nil, true
	}
	if err != nil {
		r.ended = true
		return event{}, err
	}
	return event{data: raw}, nil
}
