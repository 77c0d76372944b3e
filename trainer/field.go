package trainer

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Field describes one setting for flags, errors, records and documentation.
type Field struct {
	Name  string // in flags, errors, presets and records
	Group string // heading in the help
	// Value is a pointer to the setting (a bool, int, int64, float64, string or []string), or a flag.Value that sets it.
	Value   any
	Default any     // nil: the zero value
	Min     float64 // smallest number accepted
	Max     float64 // largest number accepted; 0: any finite one
	Free    bool    // no bit of the result depends on it, so a resumed run may change it
	// Help has the unit and the special value, and the value's name in backticks. If Help is empty, the setting has no
	// flag: only programs set it.
	Help string
}

// belowOne is the largest number below 1.
var belowOne = math.Nextafter(1, 0)

// Range returns the accepted values in words, or "" if all values are accepted.
func (f Field) Range() string {
	switch v := f.Value.(type) {
	case interface{ Choices() string }:
		return v.Choices()
	case *int, *float64:
	default:
		return ""
	}
	low := fmt.Sprint(f.Min)
	switch {
	case f.Max == belowOne:
		return "at least " + low + " and less than 1"
	case f.Min == math.SmallestNonzeroFloat64:
		return "more than 0"
	case f.Max == 0 || math.IsInf(f.Max, 1):
		return low + " or more"
	}
	return fmt.Sprintf("%s to %.0f", low, f.Max)
}

// Check returns an error if the setting is out of range. The error begins with the field's name.
func (f Field) Check() error {
	ok := true
	switch v := f.Value.(type) {
	case *int:
		ok = f.within(float64(*v))
	case *float64:
		ok = f.within(*v)
	case interface{ Valid() bool }:
		ok = v.Valid()
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%s %v: must be %s", f.Name, f.get().Interface(), f.Range())
}

func (f Field) within(v float64) bool {
	limit := f.Max
	if limit == 0 {
		limit = math.MaxFloat64
	}
	return v >= f.Min && v <= limit
}

// get returns the setting that Value sets.
func (f Field) get() reflect.Value {
	v := f.Value
	if c, ok := v.(interface{ pointer() any }); ok {
		v = c.pointer()
	}
	return reflect.ValueOf(v).Elem()
}

// Reset sets the setting to its default.
func (f Field) Reset() {
	v := f.get()
	if f.Default == nil {
		v.SetZero()
		return
	}
	v.Set(reflect.ValueOf(f.Default).Convert(v.Type()))
}

// Set parses text and sets the setting to its value.
func (f Field) Set(text string) (err error) {
	switch v := f.Value.(type) {
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *int:
		*v, err = strconv.Atoi(text)
	case *int64:
		*v, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *string:
		*v = text
	case *[]string:
		*v = strings.Split(text, ",")
	case interface{ Set(string) error }:
		err = v.Set(text)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", f.Name, text, err)
	}
	return nil
}

// recorded returns the setting in the form that records use.
func (f Field) recorded() string { return fmt.Sprint(f.get().Interface()) }

// A choice is a setting that has one of a few values, each with a name. It is a flag.Value.
type choice[T comparable] struct {
	value  *T
	names  []string
	values []T
}

// choose returns a choice between values. names has their names, separated by |. If two names have the same value, the
// first is shown.
func choose[T comparable](value *T, names string, values ...T) *choice[T] {
	return &choice[T]{value, strings.Split(names, "|"), values}
}

func (c *choice[T]) pointer() any { return c.value }

// String returns the name of the value.
func (c *choice[T]) String() string {
	if i := slices.Index(c.values, *c.value); i >= 0 {
		return c.names[i]
	}
	return fmt.Sprint(*c.value)
}

// Set sets the value by its name.
func (c *choice[T]) Set(name string) error {
	i := slices.Index(c.names, name)
	if i < 0 {
		return fmt.Errorf("must be %s", c.Choices())
	}
	*c.value = c.values[i]
	return nil
}

// Valid reports whether the value has a name.
func (c *choice[T]) Valid() bool { return slices.Contains(c.values, *c.value) }

// Choices returns the names in words, each value once.
func (c *choice[T]) Choices() string {
	var words []string
	for i, v := range c.values {
		if slices.Index(c.values, v) == i {
			words = append(words, c.names[i])
		}
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
