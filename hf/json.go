package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// object is a JSON object whose keys are read one by one. Unlike decoding into a Go struct, it tells an absent key from
// null, and "Key" from "key", as Python does. err keeps the first error; values read after it are meaningless.
type object struct {
	keys map[string]json.RawMessage
	err  error
}

func parseObject(data []byte) *object {
	o := &object{}
	switch err := json.Unmarshal(data, &o.keys); {
	case !utf8.Valid(data):
		o.err = errors.New("it is not UTF-8")
	case err != nil:
		o.err = fmt.Errorf("it is not a JSON object: %s", jsonError(err))
	case o.keys == nil:
		o.err = errors.New("it is null where a JSON object should be")
	}
	return o
}

// jsonError returns what is wrong with JSON, without types of Go.
func jsonError(err error) string {
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return "it is of the type " + wrong.Value
	}
	return err.Error()
}

func (o *object) fail(format string, a ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, a...)
	}
}

// has reports whether the key is there with a value other than null.
func (o *object) has(key string) bool {
	raw, ok := o.keys[key]
	return ok && string(raw) != "null"
}

// null reports whether the key is there with the value null.
func (o *object) null(key string) bool { return string(o.keys[key]) == "null" }

// get returns the key's value, or absent if there is no such key. Null is an error; use optional for keys that may be
// null.
func get[T any](o *object, key string, absent T) T {
	if o.null(key) {
		o.fail("%s is null: give it a value", key)
	}
	return optional(o, key, absent)
}

// optional returns the key's value, or absent if there is no such key or it is null.
func optional[T any](o *object, key string, absent T) T {
	if !o.has(key) {
		return absent
	}
	var v T
	if err := json.Unmarshal(o.keys[key], &v); err != nil {
		o.fail("%s is %.60s, which is not %s", key, o.keys[key], kindOf(v))
	}
	return v
}

func kindOf(v any) string {
	switch v.(type) {
	case int:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case []string:
		return "a list of strings"
	case map[string]string:
		return "an object of strings"
	case [][]int32:
		return "a list of lists of token ids"
	}
	return "of the expected type"
}

// ids reads token ids: a number, a list of numbers, or null for none. It leaves out negative ones, which no token has.
func (o *object) ids(key string, absent []int32) []int32 {
	if _, ok := o.keys[key]; !ok {
		return absent
	}
	var list []*int32 // pointers, so that null in the list does not become 0
	if o.has(key) && json.Unmarshal(o.keys[key], &list) != nil {
		list = []*int32{new(int32)}
		if json.Unmarshal(o.keys[key], list[0]) != nil {
			list[0] = nil
		}
	}
	var ids []int32
	for _, id := range list {
		if id == nil {
			o.fail("%s is %.60s, which is not a token id or a list of them", key, o.keys[key])
			return nil
		}
		if *id >= 0 { // -1 means none
			ids = append(ids, *id)
		}
	}
	return ids
}
