package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// edited returns a file that holds a JSON object with some of its values changed, added or, if they are nil, removed.
// The order of keys and the spelling of all other values stay.
func edited(file string, data []byte, changed map[string]any) ([]byte, error) {
	if o := parseObject(data); o.err != nil {
		return nil, fmt.Errorf("%s: %w", file, o.err)
	}
	dec := json.NewDecoder(bytes.NewReader(data)) // readObject has checked that it is an object
	dec.Token()
	var out bytes.Buffer
	next, left := byte('{'), maps.Clone(changed) // left is still to be added
	add := func(key, value any) error {
		k, err1 := plainJSON(key)
		v, err2 := plainJSON(value)
		fmt.Fprintf(&out, "%c%s:%s", next, k, v)
		next = ','
		return errors.Join(err1, err2)
	}
	for dec.More() {
		var raw json.RawMessage
		key, err1 := dec.Token()
		err2 := dec.Decode(&raw)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var value any = raw
		name, _ := key.(string)
		if to, is := changed[name]; is {
			value = to
			delete(left, name)
		}
		if value == nil {
			continue
		}
		if err := add(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	maps.DeleteFunc(left, func(_ string, value any) bool { return value == nil })
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if err := add(name, left[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if next == '{' {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// plainJSON returns a value as JSON, without escaping <, > and &.
func plainJSON(value any) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
