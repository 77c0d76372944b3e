package expect

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Case is a case of a table in a file.
type Case struct {
	Name   string
	values map[string][]string
}

// All returns the values of a key, in order.
func (c Case) All(key string) []string { return c.values[key] }

// Get returns the values of a key as lines.
func (c Case) Get(key string) string { return strings.Join(c.values[key], "\n") }

// Cases reads a table of cases with these keys. "== NAME" starts a case, "KEY: VALUE" adds a value to a key, and
// "KEY*N: VALUE" adds it N times. A value in Go's quotes is a Go string, any other is taken literally. Empty lines and
// lines that start with # are comments.
func Cases(t testing.TB, path string, keys ...string) (cases []Case) {
	t.Helper()
	for i, line := range strings.Split(Read(t, path), "\n") {
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" || line[0] == '#':
			continue
		case strings.HasPrefix(line, "== "):
			cases = append(cases, Case{Name: line[len("== "):], values: map[string][]string{}})
			continue
		}
		key, times, repeated := strings.Cut(key, "*")
		n := 1
		var err error
		if repeated {
			n, err = strconv.Atoi(times)
		}
		if strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "`") {
			value, err = strconv.Unquote(value)
		}
		if !ok || err != nil || len(cases) == 0 || !slices.Contains(keys, key) {
			t.Fatalf("%s:%d: %q: want == NAME, or KEY: VALUE with one of %q; %v", path, i+1, line, keys, err)
		}
		values := cases[len(cases)-1].values
		values[key] = append(values[key], slices.Repeat([]string{value}, n)...)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no cases", path)
	}
	return cases
}
