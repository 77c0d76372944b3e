package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// KV is a key with its value: a bool, string, uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32 or
// float64, or a slice of one of these.
type KV struct {
	Key   string
	Value any
}

// kinds are the types of values, by the numbers that files have. An array is a slice of one of the others.
var kinds = [...]reflect.Type{
	reflect.TypeFor[uint8](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[int16](),
	kindUint32: reflect.TypeFor[uint32](), reflect.TypeFor[int32](), reflect.TypeFor[float32](),
	reflect.TypeFor[bool](),
	kindString: reflect.TypeFor[string](),
	kindArray:  nil, reflect.TypeFor[uint64](), reflect.TypeFor[int64](), reflect.TypeFor[float64](),
}

const (
	kindUint32 = 4
	kindString = 8
	kindArray  = 9
)

// leastBytes returns the size of a value, for strings the size of one without characters.
func leastBytes(kind uint32) int {
	if kind == kindString {
		return 8
	}
	return int(kinds[kind].Size())
}

// value is a key and where its value starts in the file's header: n values of its kind, one if it is not a list.
type value struct {
	key  string
	kind uint32
	list bool
	n    int
	at   int
}

// decode reads a value from the header.
func (v value) decode(header string) any {
	values := reflect.MakeSlice(reflect.SliceOf(kinds[v.kind]), v.n, v.n)
	switch list := values.Interface().(type) {
	case []string:
		at := v.at
		for i := range list {
			n := int(binary.LittleEndian.Uint64([]byte(header[at : at+8])))
			list[i] = header[at+8 : at+8+n]
			at += 8 + n
		}
	default:
		// The header has the bytes, and Decode accepts the type.
		_, _ = binary.Decode([]byte(header[v.at:v.at+v.n*leastBytes(v.kind)]), binary.LittleEndian, list)
	}
	if v.list {
		return values.Interface()
	}
	return values.Index(0).Interface()
}

// describe returns a value that is not a list, for messages.
func (v value) describe(header string) string {
	return fmt.Sprintf("%.100q of type %s", fmt.Sprint(v.decode(header)), kinds[v.kind])
}

// Values reads the values of a file's keys one by one. Err keeps the first error; values read after it are
// meaningless.
type Values struct {
	Err  error
	file *File
}

// Values returns a reader of the file's values.
func (f *File) Values() *Values { return &Values{file: f} }

// Has reports whether the file has the key.
func (v *Values) Has(key string) bool {
	_, ok := v.file.find(key)
	return ok
}

func (v *Values) fail(format string, a ...any) {
	if v.Err == nil {
		v.Err = fmt.Errorf("%s: "+format, append([]any{v.file.Name}, a...)...)
	}
}

// String returns the key's value, which must be a string in UTF-8, or absent if there is no such key.
func (v *Values) String(key, absent string) string {
	return one(v, key, absent, "a string in UTF-8", text)
}

// Bool returns the key's value, which must be a truth value, or absent if there is no such key.
func (v *Values) Bool(key string, absent bool) bool {
	return one(v, key, absent, "true or false", truth)
}

// Int returns the key's value, which must be an integer of any width that fits an int, or absent if there is no such
// key.
func (v *Values) Int(key string, absent int) int {
	return one(v, key, absent, "a whole number below 2^63", integer)
}

// Float returns the key's value, which must be a float32 or float64, or absent if there is no such key. It may be
// infinite or not a number.
func (v *Values) Float(key string, absent float64) float64 {
	return one(v, key, absent, "a floating-point number", float)
}

// Strings returns the strings of the key's list, which must be UTF-8, or nil if there is no such key. They share the
// memory of the file's header.
func (v *Values) Strings(key string) []string { return list(v, key, "strings in UTF-8", text) }

// Ints returns the numbers of the key's list, which must be integers of any width that fit an int, or nil if there is
// no such key.
func (v *Values) Ints(key string) []int { return list(v, key, "whole numbers below 2^63", integer) }

// Floats returns the numbers of the key's list, which must be float32 or float64, or nil if there is no such key.
// They may be infinite or not a number.
func (v *Values) Floats(key string) []float64 { return list(v, key, "floating-point numbers", float) }

// one returns the key's value as a T, or absent if there is no such key. as reports whether it is a T.
func one[T any](v *Values, key string, absent T, want string, as func(reflect.Value) (T, bool)) T {
	found, ok := v.file.find(key)
	switch {
	case !ok:
		return absent
	case found.list:
		v.fail("its key %.100q has a list of %d values of type %s: must be %s", key, found.n, kinds[found.kind], want)
		return absent
	}
	t, ok := as(reflect.ValueOf(found.decode(v.file.header)))
	if !ok {
		v.fail("its key %.100q has %s: must be %s", key, found.describe(v.file.header), want)
	}
	return t
}

// list returns the key's list as Ts, or nil if there is no such key. as reports whether a value is a T.
func list[T any](v *Values, key, want string, as func(reflect.Value) (T, bool)) []T {
	found, ok := v.file.find(key)
	switch {
	case !ok:
		return nil
	case !found.list:
		v.fail("its key %.100q has %s: must be a list of %s", key, found.describe(v.file.header), want)
		return nil
	}
	values := reflect.ValueOf(found.decode(v.file.header))
	ts := make([]T, found.n)
	for i := range ts {
		if ts[i], ok = as(values.Index(i)); !ok {
			v.fail("its key %.100q has a list of type %s, whose value %d is %.100q: must be a list of %s", key,
				kinds[found.kind], i, fmt.Sprint(values.Index(i)), want)
			return nil
		}
	}
	return ts
}

func text(r reflect.Value) (string, bool) {
	return r.String(), r.Kind() == reflect.String && utf8.ValidString(r.String())
}

func truth(r reflect.Value) (is, ok bool) {
	if r.Kind() != reflect.Bool {
		return false, false
	}
	return r.Bool(), true
}

func integer(r reflect.Value) (n int, ok bool) {
	switch {
	case r.CanInt():
		return int(r.Int()), true
	case r.CanUint():
		return int(r.Uint()), r.Uint() <= math.MaxInt
	}
	return 0, false
}

func float(r reflect.Value) (float64, bool) {
	if !r.CanFloat() {
		return 0, false
	}
	return r.Float(), true
}
