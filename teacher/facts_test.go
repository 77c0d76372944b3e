package teacher

import (
	"slices"
	"testing"

	"restyle/voice"
)

// TestFacts checks features that are easily taken for each other.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		code string
		bit  voice.Feature
		want bool
	}{
		{"x = [a for a in b]\n", voice.Comprehension, true},
		{"x = {a for a in b}\n", voice.Comprehension, true},
		{"x = {a: 1 for a in b}\n", voice.Comprehension, true},
		{"x = sum([a for a in b])\n", voice.Comprehension, true},
		{"x = [(a, a) for a in b]\n", voice.Comprehension, true},
		{"x = [f(a) async for a in b]\n", voice.Comprehension, true},
		{"print(f\"{[a for a in b]}\")\n", voice.Comprehension, true},
		{"x = sum(a for a in b)\n", voice.Comprehension, false},
		{"x = [sum(a for a in b)]\n", voice.Comprehension, false},
		{"x = any((a for a in b))\n", voice.Comprehension, false},
		{"print(f\"{sum(a for a in b)}\")\n", voice.Comprehension, false},
		{"for a in b:\n    print(a)\n", voice.Comprehension, false},
		{"x = sum(a for a in b)\n", voice.Loop, false},
	} {
		var f voice.Facts
		readCode(&f, c.code)
		if got := f.Has&c.bit != 0; got != c.want {
			t.Errorf("%q: feature %b: %v", c.code, c.bit, got)
		}
	}
}

// TestProperties checks which functions are properties.
func TestProperties(t *testing.T) {
	var f voice.Facts
	readCode(&f, "class A:\n    @property\n    def b(self):\n        return 1\n\n"+
		"    @staticmethod\n    def c():\n        return 2\n")
	if !slices.Equal(f.Functions, []string{"b", "c"}) || !slices.Equal(f.Properties, []string{"b"}) {
		t.Errorf("functions %q, properties %q", f.Functions, f.Properties)
	}
}
