package python

import (
	"maps"
	"strings"
	"testing"
)

func TestKnownNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		is      func(string) bool
		yes, no string
	}{
		{"IsKeyword", IsKeyword, "if None True async await lambda nonlocal", "match case type _ print none self"},
		{"IsBuiltin", IsBuiltin, "print len range ValueError KeyboardInterrupt NotImplemented __name__ __import__ " +
			"ExceptionGroup", "if None append os foo __init__ xrange unicode"},
	} {
		for _, s := range strings.Fields(c.yes) {
			if !c.is(s) {
				t.Errorf("%s(%q) is false", c.name, s)
			}
		}
		for _, s := range append(strings.Fields(c.no), "", " ", "\n") {
			if c.is(s) {
				t.Errorf("%s(%q) is true", c.name, s)
			}
		}
	}
}

// TestIdentifiers_LongNames checks that the first hundred dotted parts of a long name are identifiers.
func TestIdentifiers_LongNames(t *testing.T) {
	want := map[string]bool{}
	for n := range 100 {
		want[strings.Repeat("a.", n)+"a"] = true
	}
	if got := Identifiers(strings.Repeat("a.", 150) + "a"); !maps.Equal(got, want) {
		t.Errorf("%d identifiers: %v", len(got), got)
	}
}

func TestLooksLikePython_Programs(t *testing.T) {
	names, sources := programs(t)
	for i, src := range sources {
		if err := LooksLikePython(src); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
}
