package dataset

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// separatorOf returns the separator of a file of values, by its name: CSV cannot be told from text by its content. It
// is 0 if the name ends in neither .csv nor .tsv, apart from the extension of a packing.
func separatorOf(name string) rune {
	switch strings.ToLower(filepath.Ext(unpackedName(name))) {
	case ".csv":
		return ','
	case ".tsv":
		return '\t'
	}
	return 0
}

// columnMeter limits the values of one record before a decoder takes memory for each: 16 MiB of separators would be as
// many values.
type columnMeter struct {
	r            io.Reader
	separator    byte
	quoted       bool
	line, values int
}

func (m *columnMeter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	for _, c := range p[:n] {
		switch {
		case c == '"': // two for one in a value change nothing
			m.quoted = !m.quoted
		case m.quoted:
		case c == '\n':
			m.line++
			m.values = 0
		case c == m.separator:
			m.values++
		}
		if m.values >= maxItems {
			return 0, fmt.Errorf("line %d has more than %d values", m.line+1, maxItems)
		}
	}
	return n, err
}

// csvError returns an error of the CSV reader with the line that it is about. above lines are before what it read.
func csvError(err error, above int) error {
	syntax, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, csv.ErrBareQuote), errors.Is(err, csv.ErrQuote):
		from := ""
		if syntax.StartLine < syntax.Line { // the quote that is wrong may be there
			from = fmt.Sprintf(", in the values from line %d on", above+syntax.StartLine)
		}
		return fmt.Errorf("line %d: %w%s: a value with a quote must be in quotes, and has two for each of its own",
			above+syntax.Line, syntax.Err, from)
	}
	return fmt.Errorf("line %d: %w", above+syntax.Line, syntax.Err)
}

// declared skips the line in which Excel declares the separator of a file, such as sep=; and returns it, and the number
// of lines that it skipped. Without one, it returns otherwise.
func declared(r *bufio.Reader, otherwise rune) (separator rune, lines int) {
	line, _ := r.Peek(len("sep=;\r\n"))
	found := declaration.FindSubmatch(line)
	if found == nil {
		return otherwise, 0
	}
	r.Discard(len(found[0]))
	return rune(found[1][0]), 1
}

var declaration = regexp.MustCompile(`^(?i:sep)=([,;|\t])\r?\n`)

// openCSV reads RFC 4180: the first record names the columns, and a quoted value may span lines. Excel's line sep=; may
// be before it.
func openCSV(f io.ReadCloser, separator rune, w wanted) (*table, error) {
	in := &meter{r: &columnMeter{r: f, separator: byte(separator)}}
	buffered := bufio.NewReader(in)
	skipBOM(buffered)
	var above int
	separator, above = declared(buffered, separator)
	in.r.(*columnMeter).separator = byte(separator)
	r := csv.NewReader(buffered)
	r.Comma = separator
	names, err := r.Read()
	if err == io.EOF {
		return nil, errors.New("the file has no line that names the columns")
	}
	if err != nil {
		return nil, csvError(err, above)
	}
	for i, name := range names {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("line %d: not valid UTF-8: convert the file to UTF-8", above+1)
		}
		if strings.Contains(name, "\r") {
			return nil, errors.New("its lines end with carriage returns alone: convert them to line feeds")
		}
		if name != "" && slices.Contains(names[:i], name) { // spreadsheets leave nameless columns at the end
			return nil, fmt.Errorf("line %d: two columns are named %.60q", above+1, name)
		}
	}
	t := &table{rows: -1, close: f.Close}
	t.there.add(names...)
	if t.columns, err = w.pick(names); err != nil {
		if len(names) == 1 && strings.ContainsAny(names[0], ",;|\t") {
			return nil, fmt.Errorf("line %d names one column, %.60q: commas must separate the values of a .csv file, and "+
				"tabs those of a .tsv file", above+1, names[0])
		}
		return nil, err
	}
	beside := w.beside(names, t.columns)
	t.next = func() ([]string, error) {
		in.spent = 0
		values, err := r.Read()
		if err == io.EOF {
			return nil, io.EOF
		}
		if errors.Is(err, csv.ErrFieldCount) { // after any other error the next record is not sure to begin a line
			line, _ := r.FieldPos(0)
			return nil, &unreadable{fmt.Errorf("line %d has a wrong number of values, %d, and line %d names %d columns: a "+
				"value with a separator or line break in it must be in quotes", above+line, len(values), above+1, len(names))}
		}
		if err != nil {
			return nil, csvError(err, above)
		}
		rec := make([]string, len(t.columns))
		for i, column := range t.columns {
			if at := slices.Index(names, column); column != "" {
				rec[i] = values[at]
			}
			if !utf8.ValidString(rec[i]) {
				line, _ := r.FieldPos(0)
				return nil, &unreadable{fmt.Errorf("line %d: not valid UTF-8: convert the file to UTF-8", above+line)}
			}
		}
		t.beside = nil
		for _, column := range beside {
			value, err := json.Marshal(values[slices.Index(names, column)])
			if err != nil {
				return nil, &unreadable{err}
			}
			t.besideAdd(column, value)
		}
		return rec, nil
	}
	return t, nil
}
