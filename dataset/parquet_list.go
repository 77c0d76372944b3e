package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// checkTalk returns an error unless a column is a list of messages, as in
//
//	optional group messages (LIST) { repeated group list { optional group element {
//		optional binary content (STRING); optional binary role (STRING); … } } }
//
// or, from older writers, without one of the groups in between. A content may be such a list itself, of parts.
func checkTalk(c *parquet.Column) error {
	fail := func(what string) error {
		return columnsErrorf(`column %q %s: must be a list of {"role", "content"} or {"from", "value"}: `+
			"name other columns", c.Name(), what)
	}
	inner, what := elementOf(c)
	if what != "" {
		return fail(what)
	}
	for _, keys := range [][]string{{"role", "content"}, {"from", "value"}} {
		if isString(inner.Column(keys[0])) && inner.Column(keys[1]) != nil {
			return nil
		}
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

// elementOf returns the group that is the element of a list. what says why it is not such a list, or is empty.
func elementOf(c *parquet.Column) (inner *parquet.Column, what string) {
	repeated := false
	for inner = c; !inner.Leaf(); inner = inner.Columns()[0] {
		if inner.Repeated() && repeated {
			return nil, "is a list of lists"
		}
		repeated = repeated || inner.Repeated()
		if fields := inner.Columns(); len(fields) != 1 || fields[0].Leaf() {
			break
		}
	}
	if !repeated {
		return nil, "is not a list"
	}
	return inner, ""
}

// A tree is a column that is more than one flat text: a list, a group, a map, a number. Its value becomes JSON in the
// form that JSON files have: the groups around the elements of a list are left out, and so are fields that are null,
// because a writer of parquet gives every group the fields of all.
type tree struct {
	column     *parquet.Column
	fields     []*tree
	first, end int  // of the leaves in it
	only       bool // whether there is anything
	scale      int  // of a decimal number: the digits after the point
	element    bool // the group around an element: its only field is the value
	list       bool // the group around a list
	dict       bool // the group around the keys and values of a map
}

// newTree makes the tree of a column, and adds its leaves. If only is set, its values are not read, only whether there
// are any.
func newTree(c *parquet.Column, leaves *[]*parquet.Column, only bool) (*tree, error) {
	t := &tree{column: c, first: len(*leaves), only: only}
	if c.Leaf() {
		switch k := c.Type().Kind(); {
		case only, isNull(c.Type()), isText(c.Type()):
		case k == parquet.Boolean, k == parquet.Int32, k == parquet.Int64, k == parquet.Float, k == parquet.Double:
		default:
			return nil, columnsErrorf("column %q has the type %s, which is not read: write it as text, or leave it out",
				strings.Join(c.Path(), "."), c.Type())
		}
		if l := c.Type().LogicalType(); l != nil {
			if decimal, is := l.Value.(*format.DecimalType); is {
				t.scale = int(decimal.Scale)
			}
		}
		*leaves = append(*leaves, c)
	}
	for _, field := range c.Columns() {
		inner, err := newTree(field, leaves, only)
		if err != nil {
			return nil, err
		}
		t.fields = append(t.fields, inner)
	}
	t.end = len(*leaves)
	if len(t.fields) == 1 && t.fields[0].column.Repeated() {
		only := t.fields[0]
		name := only.column.Name()
		pair := len(only.fields) == 2 && only.fields[0].column.Name() == "key" && only.fields[1].column.Name() == "value"
		t.dict = pair && (name == "key_value" || name == "map" || name == "entries")
		t.list = !t.dict
		only.element = t.list && len(only.fields) == 1 && name != "array" && !strings.HasSuffix(name, "_tuple")
	}
	return t, nil
}

// next reads the value of the next row.
func (t *tree) next(cursors []*cursor) (string, error) {
	r := &treeReader{cursors: cursors}
	if t.only {
		some, err := r.anything(t)
		return strconv.FormatBool(some), err
	}
	v, err := r.value(t)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(v)
	return string(data), err
}

// treeReader puts one row together from the levels of its leaves.
type treeReader struct {
	cursors []*cursor
	size    int
}

// A jsonObject keeps the order of its fields.
type jsonObject []jsonField

type jsonField struct {
	key   string
	value any
}

// MarshalJSON writes the fields.
func (p jsonObject) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, x := range p {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(x.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// ready returns the next value of a leaf, without taking it. ok is false at the end.
func (r *treeReader) ready(leaf int) (v parquet.Value, ok bool, err error) {
	c := r.cursors[leaf]
	if err := c.fill(); err == io.EOF {
		return v, false, nil
	} else if err != nil {
		return v, false, c.fail(err)
	}
	return c.ready[0], true, nil
}

// defined reports whether the next value of a tree is there at this definition level.
func (r *treeReader) defined(t *tree, level int) (bool, error) {
	v, ok, err := r.ready(t.first)
	if err == nil && !ok {
		err = r.cursors[t.first].fail(io.EOF)
	}
	return v.DefinitionLevel() >= level, err
}

// skip takes one value of each leaf of a tree.
func (r *treeReader) skip(t *tree) error {
	for leaf := t.first; leaf < t.end; leaf++ {
		if _, err := r.take(leaf); err != nil {
			return err
		}
	}
	return nil
}

// anything reports whether a row has a value in a tree, such as the bytes of a picture. It does not look at it.
func (r *treeReader) anything(t *tree) (some bool, err error) {
	for leaf := t.first; leaf < t.end; leaf++ {
		for first := true; ; first = false {
			v, ok, err := r.ready(leaf)
			if err != nil || !ok && first {
				return false, errors.Join(err, r.cursors[leaf].fail(io.EOF))
			}
			if !first && (!ok || v.RepetitionLevel() == 0) {
				break
			}
			some = some || !v.IsNull() && (v.Kind() != parquet.ByteArray || len(v.ByteArray()) > 0)
			r.cursors[leaf].ready = r.cursors[leaf].ready[1:]
		}
	}
	return some, nil
}

// value reads a tree: nil for null, and a list if its column is repeated.
func (r *treeReader) value(t *tree) (any, error) {
	if !t.column.Repeated() {
		return r.one(t)
	}
	there, err := r.defined(t, t.column.MaxDefinitionLevel())
	if err != nil || !there {
		return []any{}, errors.Join(err, r.skip(t))
	}
	items := []any{}
	for more := true; more; {
		v, err := r.one(t)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
		if more, err = r.again(t); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// again reports whether another element of a repeated column follows, in all of its leaves.
func (r *treeReader) again(t *tree) (more bool, err error) {
	for leaf := t.first; leaf < t.end; leaf++ {
		v, ok, err := r.ready(leaf)
		if err != nil {
			return false, err
		}
		is := ok && v.RepetitionLevel() == t.column.MaxRepetitionLevel()
		if leaf > t.first && is != more {
			return false, fmt.Errorf("damaged parquet file (the columns of %s have different numbers of values)",
				strings.Join(t.column.Path(), "."))
		}
		more = is
	}
	return more, nil
}

// one reads one value of a tree.
func (r *treeReader) one(t *tree) (any, error) {
	if r.size += 16; r.size > maxRecord {
		return nil, fmt.Errorf("a conversation of more than %d MiB: remove the row", maxRecord>>20)
	}
	if t.column.Leaf() {
		v, err := r.take(t.first)
		switch n := v.(type) {
		case int32:
			v = scaled(int64(n), t.scale)
		case int64:
			v = scaled(n, t.scale)
		}
		return v, err
	}
	if t.first == t.end {
		return jsonObject{}, nil
	}
	if t.column.Optional() {
		if there, err := r.defined(t, t.column.MaxDefinitionLevel()); err != nil || !there {
			return nil, errors.Join(err, r.skip(t))
		}
	}
	if t.list || t.element {
		return r.value(t.fields[0])
	}
	if t.dict {
		return r.dict(t.fields[0])
	}
	object := jsonObject{}
	for _, field := range t.fields {
		v, err := r.value(field)
		if err != nil {
			return nil, err
		}
		if v != nil {
			object = append(object, jsonField{field.column.Name(), v})
		}
	}
	return object, nil
}

// dict reads the keys and values of a map.
func (r *treeReader) dict(t *tree) (any, error) {
	all, err := r.value(t)
	if err != nil {
		return nil, err
	}
	object := jsonObject{}
	for _, item := range all.([]any) {
		entry, _ := item.(jsonObject)
		var key string
		var value any
		for _, x := range entry {
			if x.key == "key" {
				key = fmt.Sprint(x.value)
			} else {
				value = x.value
			}
		}
		object = append(object, jsonField{key, value})
	}
	return object, nil
}

// take takes the next value of a leaf.
func (r *treeReader) take(leaf int) (any, error) {
	v, ok, err := r.ready(leaf)
	c := r.cursors[leaf]
	if !ok {
		return nil, errors.Join(err, c.fail(io.EOF))
	}
	if v.Kind() == parquet.ByteArray || v.IsNull() {
		s, err := c.next()
		if r.size += len(s); err != nil {
			return nil, c.fail(err)
		}
		if v.IsNull() {
			return nil, nil
		}
		return s, nil
	}
	c.ready = c.ready[1:]
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32:
		return v.Int32(), nil
	case parquet.Int64:
		return v.Int64(), nil
	case parquet.Float:
		return numberJSON(float64(v.Float())), nil
	}
	return numberJSON(v.Double()), nil
}

// scaled returns a decimal number.
func scaled(n int64, digits int) any {
	if digits == 0 {
		return n
	}
	return numberJSON(float64(n) / math.Pow10(digits))
}

// numberJSON writes a number as Python does, which tells 1.0 from 1. What is no number is null.
func numberJSON(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return json.RawMessage(s)
}
