package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxRecord = 16 << 20 // bytes of one JSON object or line
	maxDepth  = 64       // levels of nesting in one JSON object
	maxItems  = 10_000   // columns of a file, keys of an object, messages of a conversation
	maxValues = 100_000  // values of all kinds in what becomes one conversation
)

// openJSON reads an array of objects, one at a time.
func openJSON(f io.ReadCloser, w wanted) (*table, error) {
	in := &meter{r: f}
	buffered := bufio.NewReader(in)
	skipBOM(buffered)
	dec := json.NewDecoder(buffered)
	if _, err := dec.Token(); err != nil { // '['
		return nil, err
	}
	row := 0
	fail := func(err error) error {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = errors.New("the file ends in the middle of the array (truncated?)")
		}
		err = pythonsOwn(err)
		return fmt.Errorf("row %d (near byte %d): %w", row, dec.InputOffset(), err)
	}
	return records(f, w, func() ([]byte, error) {
		in.spent = 0
		if !dec.More() {
			if _, err := dec.Token(); err != nil {
				return nil, fail(err)
			}
			if _, err := dec.Token(); err != io.EOF {
				return nil, fmt.Errorf("there is something after the end of the array (near byte %d)", dec.InputOffset())
			}
			return nil, io.EOF
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fail(err)
		}
		row++
		return raw, nil
	}, func(err error) error { row--; return fail(err) })
}

// openJSONL reads one object per line. It skips blank lines.
func openJSONL(f io.ReadCloser, w wanted) (*table, error) {
	in := bufio.NewReader(f)
	skipBOM(in)
	lines := lineReader{r: in}
	return records(f, w, lines.next, lines.fail)
}

// records turns raw JSON objects into a table. next returns an object, io.EOF, or an error that includes its position.
// fail adds the position to an error about the object that next returned last.
func records(f io.Closer, w wanted, next func() ([]byte, error), fail func(error) error) (*table, error) {
	t := &table{rows: -1, close: f.Close}
	t.next = func() ([]string, error) {
		raw, err := next()
		if err != nil {
			return nil, err
		}
		rec, err := t.record(raw, w)
		if err != nil {
			return nil, &unreadable{fail(err)}
		}
		return rec, nil
	}
	return t, nil
}

// record reads the wanted values of one object. Objects may have different keys, but each value always has the same
// key.
func (t *table) record(raw []byte, w wanted) ([]string, error) {
	keys, values, err := object(raw)
	if err != nil {
		return nil, err
	}
	t.there.add(keys...)
	names, err := w.pick(keys)
	if err != nil || t.has(names) { // without its question, a row may look like one of another form
		if known := t.incomplete(keys); known != nil {
			names = known
		} else if err != nil {
			return nil, err
		}
	}
	if w.Training && len(names) == rowWidth && (listed(values[names[instructionAt]]) || listed(values[names[outputAt]])) {
		if names, err = halves(names); err != nil {
			return nil, err
		}
	}
	if t.columns == nil {
		t.columns = slices.Clone(names)
	}
	if len(names) != len(t.columns) {
		return nil, columnsErrorf("the rows before have %s, but this one has %s: name the columns",
			describe(t.columns), describe(names))
	}
	read := func(at int, raw json.RawMessage) (string, error) {
		if w.conversation(names) && at != talkSystemAt {
			return string(raw), nil
		}
		return text(raw)
	}
	rec := make([]string, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		if t.columns[i] == "" {
			t.columns[i] = name
		}
		if t.columns[i] != name {
			return nil, columnsErrorf("the rows before have %q, but this one has %q: name the columns", t.columns[i], name)
		}
		if rec[i], err = read(i, values[name]); err != nil {
			return nil, fmt.Errorf("key %q: %w", name, err)
		}
	}
	t.beside = nil
	for _, name := range w.beside(keys, names) {
		t.besideAdd(name, values[name])
	}
	return rec, nil
}

// listed reports whether a value is a list that may be one of messages.
func listed(raw []byte) bool {
	return kind(raw) == "an array" && kind(bytes.TrimSpace(raw[1:])) != "a string"
}

// besideAdd adds a value to what a record has besides its columns, unless it is empty.
func (t *table) besideAdd(column string, value []byte) {
	if !empty(value) {
		t.beside = withKey(t.beside, column, value)
	}
}

// withKey appends a key to a JSON object, which is empty if it has none yet.
func withKey(object []byte, key string, value []byte) []byte {
	name, _ := json.Marshal(key) // a string
	if len(object) == 0 {
		object = append(object, '{')
	} else {
		object[len(object)-1] = ','
	}
	return append(append(append(append(object, name...), ':'), value...), '}')
}

// has reports whether the columns of a row are among the columns of the rows before it.
func (t *table) has(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return n != "" && !slices.Contains(t.columns, n) })
}

// incomplete returns the columns of an object that has some but not all columns of the rows before it, with "" for
// those that it lacks: a row without an answer counts as a row whose answer is empty or null. For any other object it
// returns nil.
func (t *table) incomplete(keys []string) []string {
	if len(t.columns) != rowWidth || !slices.ContainsFunc(t.columns, func(c string) bool {
		return c != "" &&
			slices.Contains(keys, c)
	}) {
		return nil
	}
	names := slices.Clone(t.columns)
	for i, name := range names {
		if !slices.Contains(keys, name) {
			names[i] = ""
		}
	}
	return names
}

// object returns the keys of a JSON object in order, and their raw values. It is stricter than encoding/json: UTF-8
// only, no key twice, no deep nesting, nothing after the end.
func object(raw []byte) (keys []string, values map[string]json.RawMessage, err error) {
	if !utf8.Valid(raw) {
		return nil, nil, errors.New("not valid UTF-8: convert the file to UTF-8")
	}
	if d, _, _ := shape(raw); d > maxDepth {
		return nil, nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	start, err := dec.Token()
	if err != nil {
		return nil, nil, incompleteObject(err)
	}
	if start != json.Delim('{') {
		return nil, nil, fmt.Errorf("expected an object with keys, found %s", kind(bytes.TrimSpace(raw)))
	}
	values = map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, incompleteObject(err)
		}
		if len(keys) == maxItems {
			return nil, nil, fmt.Errorf("an object of more than %d keys", maxItems)
		}
		key, _ := token.(string) // anything else is a syntax error above
		if _, twice := values[key]; twice {
			return nil, nil, fmt.Errorf("the key %.60q occurs twice", key)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, nil, incompleteObject(err)
		}
		keys, values[key] = append(keys, key), v
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, incompleteObject(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("there is something after the object (near its byte %d)", dec.InputOffset())
	}
	return keys, values, nil
}

// incompleteObject returns a clearer error if the object ends early, or else err.
func incompleteObject(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the object is incomplete (truncated, or spread over several lines of a JSONL file?)")
	}
	return pythonsOwn(err)
}

// pythonsOwn returns a clearer error if err is about what Python writes in place of JSON, or else err.
func pythonsOwn(err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); !ok {
		return err
	}
	switch what := err.Error(); {
	case strings.HasPrefix(what, "invalid character 'N' "), strings.HasPrefix(what, "invalid character 'I' "):
		return fmt.Errorf("%w: NaN, Infinity and None are not JSON: write null", err)
	case strings.HasPrefix(what, `invalid character '\''`):
		return fmt.Errorf("%w: it is %s", err, python)
	}
	return err
}

// tooMuch returns an error if a value that becomes a part of a conversation is nested too deep or has too many values:
// a value of two bytes takes a hundred or more when it is read.
func tooMuch(raw []byte) error {
	deepest, values, _ := shape(raw)
	if deepest > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	if values > maxValues {
		return fmt.Errorf("more than %d values", maxValues)
	}
	return nil
}

// shape returns the deepest nesting of brackets outside strings, how many brackets and commas there are, and how many
// of the commas separate what is in the outermost brackets. It guards code that reads recursively.
func shape(raw []byte) (deepest, values, outermost int) {
	level := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ',':
			values++
			if level == 1 {
				outermost++
			}
		case '{', '[':
			values++
			level++
			deepest = max(deepest, level)
		case '}', ']':
			level--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest, values, outermost
}

// text returns the string that a raw value holds, "" for null.
func text(raw json.RawMessage) (string, error) {
	if k := kind(raw); k == "null" {
		return "", nil
	} else if k != "a string" {
		return "", fmt.Errorf("expected a string, found %s", k)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	// encoding/json silently turns half of a surrogate pair into U+FFFD.
	if loneSurrogate(raw) {
		return "", errors.New(`half of a surrogate pair (\ud800 to \udfff without the other half) is no character`)
	}
	return s, nil
}

// loneSurrogate reports whether valid JSON has \uD800 to \uDFFF outside a pair.
func loneSurrogate(raw []byte) bool {
	unit := func(i int) (rune, bool) { // the escape \uXXXX at i, which is before the quote at the end
		if raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, escaped := unit(i)
		if !escaped {
			i++ // the character after the backslash
			continue
		}
		i += 5
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, _ := unit(i + 1)
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

func kind(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// skipBOM skips a UTF-8 byte-order mark, which encoding/json rejects.
func skipBOM(r *bufio.Reader) {
	if head, _ := r.Peek(3); string(head) == "\ufeff" {
		r.Discard(3)
	}
}

// meter limits the bytes of one record: a decoder reads until the record is complete, however long it is.
type meter struct {
	r     io.Reader
	spent int // bytes since the start of the record
}

func (m *meter) Read(p []byte) (int, error) {
	if m.spent > maxRecord {
		return 0, fmt.Errorf("longer than %d MiB", maxRecord>>20)
	}
	n, err := m.r.Read(p[:min(len(p), 64<<10)]) // a decoder that doubles its buffer would read far more at once
	m.spent += n
	return n, err
}

// lineReader reads the lines of a file that are not blank.
type lineReader struct {
	r    *bufio.Reader
	line int
}

func (l *lineReader) next() ([]byte, error) {
	for {
		l.line++
		line, err := l.read()
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && (err == nil || err == io.EOF) {
			return trimmed, nil
		}
		if err == io.EOF {
			return nil, io.EOF
		}
		if err != nil {
			return nil, l.fail(err)
		}
	}
}

func (l *lineReader) fail(err error) error { return fmt.Errorf("line %d: %w", l.line, err) }

func (l *lineReader) read() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > maxRecord {
			return nil, fmt.Errorf("longer than %d MiB", maxRecord>>20)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
