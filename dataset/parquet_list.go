package dataset

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A turns is a column that holds a conversation: a list of groups of strings, of which it reads two, as in
//
//	optional group messages (LIST) { repeated group list { optional group element {
//		optional binary content (STRING); optional binary role (STRING); … } } }
//
// or, from older writers, without one of the groups in between. A conversation becomes JSON in the form that JSON files
// have.
type turns struct {
	keys    []string // role and content, or from and value
	leaves  []*parquet.Column
	unused  []*parquet.Column // not supported: must be null in every row
	element int               // the lowest definition level at which an element exists
}

// listColumn finds the parts of a conversation in a column.
func listColumn(c *parquet.Column) (*turns, error) {
	fail := func(what string) (*turns, error) {
		return nil, columnsErrorf(`column %q %s: must be a list of {"role", "content"} or {"from", "value"}: `+
			"name other columns", c.Name(), what)
	}
	var repeated *parquet.Column
	inner := c
	for ; !inner.Leaf(); inner = inner.Columns()[0] {
		if inner.Repeated() && repeated == nil {
			repeated = inner
		} else if inner.Repeated() {
			return fail("is a list of lists")
		}
		if fields := inner.Columns(); len(fields) != 1 || fields[0].Leaf() {
			break
		}
	}
	if repeated == nil {
		return fail("is not a list")
	}
	for _, keys := range [][]string{{"role", "content"}, {"from", "value"}} {
		t := &turns{keys: keys, element: repeated.MaxDefinitionLevel()}
		for _, key := range keys {
			if leaf := inner.Column(key); leaf != nil && leaf.Leaf() && !leaf.Repeated() && isText(leaf.Type()) {
				t.leaves = append(t.leaves, leaf)
			}
		}
		if len(t.leaves) == len(keys) {
			for _, key := range []string{"tool_calls", "weight"} {
				if field := inner.Column(key); field != nil {
					t.unused = append(t.unused, field)
				}
			}
			return t, nil
		}
	}
	var there []string
	for _, field := range inner.Columns() {
		there = append(there, field.Name())
	}
	return fail("has the fields " + list(there))
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
func (t *turns) record(cursors []*cursor) ([]string, error) {
	columns := make([][]*string, len(cursors))
	for i, c := range cursors {
		var err error
		if columns[i], err = c.list(t.element); err != nil {
			return nil, c.fail(err)
		}
	}
	if len(columns[0]) != len(columns[1]) {
		return nil, fmt.Errorf("damaged parquet file (%d times %s, %d times %s)",
			len(columns[0]), t.keys[0], len(columns[1]), t.keys[1])
	}
	messages := make([]map[string]*string, len(columns[0]))
	for i := range messages {
		messages[i] = map[string]*string{t.keys[0]: columns[0][i], t.keys[1]: columns[1][i]}
	}
	data, err := json.Marshal(messages)
	return []string{string(data)}, err
}

// list returns the strings of one row of a repeated column, nil for a null.
func (c *cursor) list(element int) ([]*string, error) {
	var values []*string
	size := 0
	for first := true; ; first = false {
		if err := c.fill(); err == io.EOF && !first {
			return values, nil
		} else if err != nil {
			return nil, err
		}
		v := c.ready[0]
		if v.RepetitionLevel() == 0 && !first {
			return values, nil
		}
		s, err := c.next()
		if err != nil {
			return nil, err
		}
		switch {
		case v.DefinitionLevel() < element: // the list is empty or null
		case v.IsNull():
			values = append(values, nil)
		default:
			values = append(values, &s)
		}
		if size += len(s) + 16; size > maxRecord {
			return nil, fmt.Errorf("a conversation of more than %d MiB: remove the row", maxRecord>>20)
		}
	}
}
