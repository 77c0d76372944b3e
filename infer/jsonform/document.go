package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A value is a JSON value whose members are in their order.
type value struct {
	kind   byte // one of { [ " 0 t f n
	text   string
	keys   []string       // of an object
	values []*value       // of an object or a list
	places map[string]int // of the keys; nil if the object is in no document
	parent *value
	name   string // in parent
}

// The limits of a schema.
const (
	maxSchema  = 1 << 20 // bytes
	maxNesting = 128
)

// parse reads one JSON value.
func parse(data []byte) (*value, error) {
	if len(data) > maxSchema {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d are supported", len(data), maxSchema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := read(d, nil, "", 0)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("more follows after its end")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	return v, nil
}

func read(d *json.Decoder, parent *value, name string, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("it nests deeper than %d", maxNesting)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	v := &value{parent: parent, name: name}
	switch t := token.(type) {
	case nil:
		v.kind = 'n'
	case bool:
		v.kind = 'f'
		if t {
			v.kind = 't'
		}
	case json.Number:
		v.kind, v.text = '0', t.String()
	case string:
		v.kind, v.text = '"', t
	case json.Delim:
		v.kind = byte(t)
		v.places = map[string]int{}
		for d.More() {
			key := strconv.Itoa(len(v.values))
			if v.kind == '{' {
				token, err := d.Token()
				if err != nil {
					return nil, err
				}
				key = token.(string)
				if _, twice := v.places[key]; twice {
					return nil, fmt.Errorf("%s has the key %q twice", v.path(), key)
				}
				v.places[key] = len(v.keys)
				v.keys = append(v.keys, key)
			}
			below, err := read(d, v, key, depth+1)
			if err != nil {
				return nil, err
			}
			v.values = append(v.values, below)
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// get returns the member of an object, or nil.
func (v *value) get(key string) *value {
	i, is := v.places[key]
	if v.places == nil {
		i = slices.Index(v.keys, key)
		is = i >= 0
	}
	if !is {
		return nil
	}
	return v.values[i]
}

// path returns where in the schema a value is, such as $.properties.name.
func (v *value) path() string {
	var names []string
	for ; v.parent != nil; v = v.parent {
		names = append(names, v.name)
	}
	slices.Reverse(names)
	out := "$"
	for _, name := range names {
		if len(name) > 60 {
			name = name[:60] + "…"
		}
		out += "." + name
	}
	return out
}

// refuse returns an error about a value.
func (v *value) refuse(format string, a ...any) error {
	return fmt.Errorf("schema: %s: %s", v.path(), fmt.Sprintf(format, a...))
}

// find returns what a JSON pointer in a fragment, such as #/$defs/tree, leads to; nil if nothing.
// The base is the innermost schema around it that has an $id.
func (v *value) find(ref string) *value {
	for v.parent != nil {
		if id := v.get("$id"); id != nil && id.kind == '"' { // and no property of that name
			break
		}
		v = v.parent
	}
	pointer, is := strings.CutPrefix(ref, "#")
	if !is || pointer != "" && pointer[0] != '/' {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch i, err := strconv.Atoi(name); {
		case v.kind == '{':
			v = v.get(name)
		case v.kind == '[' && err == nil && i >= 0 && i < len(v.values):
			v = v.values[i]
		default:
			v = nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}

// bare returns a value of a kind that is in no document; its errors name the place of at.
func bare(at *value, kind byte, text string, values ...*value) *value {
	return &value{kind: kind, text: text, values: values, parent: at.parent, name: at.name}
}

// constant returns the schema of an object or a list that is exactly v.
func constant(v *value) *value {
	list := bare(v, '[', "")
	for _, below := range v.values {
		schema := bare(below, '{', "", below)
		schema.keys = []string{"const"}
		list.values = append(list.values, schema)
	}
	schema := bare(v, '{', "")
	no := bare(v, 'f', "")
	if v.kind == '[' {
		n := bare(v, '0', strconv.Itoa(len(v.values)))
		schema.keys = []string{"type", "prefixItems", "items", "minItems", "maxItems"}
		schema.values = []*value{bare(v, '"', "array"), list, no, n, n}
		return schema
	}
	required := bare(v, '[', "")
	for _, key := range v.keys {
		required.values = append(required.values, bare(v, '"', key))
	}
	list.kind, list.keys = '{', v.keys
	schema.keys = []string{"type", "properties", "required", "additionalProperties"}
	schema.values = []*value{bare(v, '"', "object"), list, required, no}
	return schema
}
