package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A turns is a column that holds a conversation: a list of groups, of which it reads two fields, as in
//
//	optional group messages (LIST) { repeated group list { optional group element {
//		optional binary content (STRING); optional binary role (STRING); … } } }
//
// or, from older writers, without one of the groups in between. The content may be such a list itself, of text parts
// with the fields type and text. A conversation becomes JSON in the form that JSON files have.
type turns struct {
	keys    []string          // role and content, or from and value
	leaves  []*parquet.Column // of the keys; if the content is in parts, its type and text instead of it
	unused  []*parquet.Column // not supported: must be null in every row
	element int               // the lowest definition level at which an element exists
	part    int               // the same of a content's part; 0 if the content is a string
}

// partKeys are the fields of a part of a content.
var partKeys = []string{"type", "text"}

// listColumn finds the parts of a conversation in a column.
func listColumn(c *parquet.Column) (*turns, error) {
	fail := func(what string) (*turns, error) {
		return nil, columnsErrorf(`column %q %s: must be a list of {"role", "content"} or {"from", "value"}: `+
			"name other columns", c.Name(), what)
	}
	inner, element, what := elementOf(c)
	if what != "" {
		return fail(what)
	}
	for _, keys := range [][]string{{"role", "content"}, {"from", "value"}} {
		t := &turns{keys: keys, element: element}
		who, said := inner.Column(keys[0]), inner.Column(keys[1])
		if !isString(who) || said == nil {
			continue
		}
		t.leaves = []*parquet.Column{who, said}
		if !isString(said) {
			part, level, what := elementOf(said)
			if what != "" || !isString(part.Column(partKeys[0])) || !isString(part.Column(partKeys[1])) {
				continue
			}
			t.part, t.leaves = level, []*parquet.Column{who, part.Column(partKeys[0]), part.Column(partKeys[1])}
		}
		for _, key := range []string{"tool_calls", "weight"} {
			if field := inner.Column(key); field != nil {
				t.unused = append(t.unused, field)
			}
		}
		return t, nil
	}
	var there []string
	for _, field := range inner.Columns() {
		there = append(there, field.Name())
	}
	return fail("has the fields " + list(there))
}

// isString reports whether a column is there, and is a flat string.
func isString(c *parquet.Column) bool {
	return c != nil && c.Leaf() && !c.Repeated() && isText(c.Type())
}

// elementOf returns the group that is the element of a list, and the lowest definition level at which one exists. what
// says why it is not such a list, or is empty.
func elementOf(c *parquet.Column) (inner *parquet.Column, level int, what string) {
	var repeated *parquet.Column
	for inner = c; !inner.Leaf(); inner = inner.Columns()[0] {
		if inner.Repeated() && repeated == nil {
			repeated = inner
		} else if inner.Repeated() {
			return nil, 0, "is a list of lists"
		}
		if fields := inner.Columns(); len(fields) != 1 || fields[0].Leaf() {
			break
		}
	}
	if repeated == nil {
		return nil, 0, "is not a list"
	}
	return inner, repeated.MaxDefinitionLevel(), ""
}

// check compares the paths of the leaves in the footer with the schema, and the unused fields with the statistics.
func (t *turns) check(f *parquet.File) error {
	for g, group := range f.Metadata().RowGroups {
		for _, leaf := range t.leaves {
			if leaf.Index() >= len(group.Columns) || !slices.Equal(group.Columns[leaf.Index()].MetaData.PathInSchema,
				leaf.Path()) {
				return fmt.Errorf("damaged parquet file (row group %d lacks the column %s)", g, strings.Join(leaf.Path(), "."))
			}
		}
	}
	for _, field := range t.unused {
		if !hollow(f, field) {
			return fmt.Errorf("the messages have the field %s, which is not supported: write the file without it", field.Name())
		}
	}
	return nil
}

// hollow reports whether a column, or every column in it, has only nulls according to the statistics.
func hollow(f *parquet.File, c *parquet.Column) bool {
	if !c.Leaf() {
		return !slices.ContainsFunc(c.Columns(), func(c *parquet.Column) bool { return !hollow(f, c) })
	}
	for _, group := range f.Metadata().RowGroups {
		if c.Index() >= len(group.Columns) {
			return false
		}
		if meta := &group.Columns[c.Index()].MetaData; meta.Statistics.NullCount != meta.NumValues {
			return false
		}
	}
	return true
}

// record reads the next conversation, with one cursor per leaf.
func (t *turns) record(cursors []*cursor) (string, error) {
	columns := make([][]*element, len(cursors))
	for i, c := range cursors {
		part := 0
		if i > 0 {
			part = t.part
		}
		var err error
		if columns[i], err = c.list(t.element, part); err != nil {
			return "", c.fail(err)
		}
	}
	for _, column := range columns[1:] {
		if len(column) != len(columns[0]) {
			return "", fmt.Errorf("damaged parquet file (%d times %s, %d times %s)",
				len(columns[0]), t.keys[0], len(column), t.keys[1])
		}
	}
	messages := make([]map[string]any, len(columns[0]))
	for i, who := range columns[0] {
		messages[i] = map[string]any{t.keys[0]: who.text, t.keys[1]: columns[1][i].text}
		if t.part == 0 {
			continue
		}
		types, texts := columns[1][i].parts, columns[2][i].parts
		if len(types) != len(texts) {
			return "", fmt.Errorf("damaged parquet file (message %d: %d times %s, %d times %s)", i,
				len(types), partKeys[0], len(texts), partKeys[1])
		}
		if types == nil { // the content is null
			continue
		}
		parts := make([]map[string]*string, len(types))
		for k := range parts {
			parts[k] = map[string]*string{partKeys[0]: types[k], partKeys[1]: texts[k]}
		}
		messages[i][t.keys[1]] = parts
	}
	data, err := json.Marshal(messages)
	return string(data), err
}

// An element is what a column has of one element of a list: a text, nil for null, or the texts of its parts, nil if the
// list of parts is null.
type element struct {
	text  *string
	parts []*string
}

// list returns the elements of one row of a repeated column. part is the lowest definition level at which a part of an
// element exists, or 0 if elements are strings.
func (c *cursor) list(first, part int) ([]*element, error) {
	var elements []*element
	size := 0
	for start := true; ; start = false {
		if err := c.fill(); err == io.EOF && !start {
			return elements, nil
		} else if err != nil {
			return nil, err
		}
		v := c.ready[0]
		if v.RepetitionLevel() == 0 && !start {
			return elements, nil
		}
		s, err := c.next()
		if err != nil {
			return nil, err
		}
		if size += len(s) + 16; size > maxRecord {
			return nil, fmt.Errorf("a conversation of more than %d MiB: remove the row", maxRecord>>20)
		}
		if v.DefinitionLevel() < first { // the list is empty or null
			continue
		}
		text := &s
		if v.IsNull() {
			text = nil
		}
		if part == 0 {
			elements = append(elements, &element{text: text})
			continue
		}
		if v.RepetitionLevel() < 2 { // not one more part of the same element
			elements = append(elements, &element{})
		} else if len(elements) == 0 {
			return nil, errors.New("damaged parquet file (a part before the first message)")
		}
		last := elements[len(elements)-1]
		switch {
		case v.DefinitionLevel() >= part:
			last.parts = append(last.parts, text)
		case v.DefinitionLevel() == part-1: // the list of parts is empty
			last.parts = []*string{}
		}
	}
}
