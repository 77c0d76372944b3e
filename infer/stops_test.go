package infer

import (
	"strings"
	"testing"
)

func TestStops(t *testing.T) {
	for _, c := range []struct {
		name   string
		stops  []string
		pieces []string
		shown  []string // after each part, and at the end
		found  bool
	}{
		{"none", nil, []string{"a", "b"}, []string{"a", "b", ""}, false},
		{"in one piece", []string{"STOP"}, []string{"go STOP on"}, []string{"go "}, true},
		{"across pieces", []string{"STOP"}, []string{"go S", "TO", "P on"}, []string{"go ", "", ""}, true},
		{"only a beginning", []string{"STOP"}, []string{"a ST", "ART"}, []string{"a ", "START", ""}, false},
		{"held at the end", []string{"STOP"}, []string{"a ST"}, []string{"a ", "ST"}, false},
		{"begins again inside", []string{"aab"}, []string{"aa", "ab"}, []string{"", "a"}, true},
		{"the first to end wins", []string{"xyz!", "y"}, []string{"axyz!"}, []string{"ax"}, true},
		{"the longest that ends there", []string{"b", "ab"}, []string{"xab"}, []string{"x"}, true},
		{"newline", []string{"\n\n"}, []string{"a\n", "b\n", "\nc"}, []string{"a", "\nb", ""}, true},
		{"one character", []string{"é"}, []string{"caf", "é"}, []string{"caf", ""}, true},
	} {
		s := stops{texts: c.stops}
		var shown []string
		found := false
		for _, piece := range c.pieces {
			var show string
			if show, found = s.push(piece); true {
				shown = append(shown, show)
			}
			if found {
				break
			}
		}
		if !found {
			shown = append(shown, s.rest())
		}
		if found != c.found || strings.Join(shown, "|") != strings.Join(c.shown, "|") {
			t.Errorf("%s: %q found %v, want %q found %v", c.name, shown, found, c.shown, c.found)
		}
	}
}

// FuzzStops checks that the result is the same as when checking after each byte, however the text is cut.
func FuzzStops(f *testing.F) {
	f.Add("go STOP on", "STOP", "on", []byte{3, 1, 2})
	f.Add("aaaaabaaab", "aab", "aaab", []byte{1, 1, 1, 5})
	f.Add("xyxyxz", "xyxz", "yx", []byte{2})
	f.Add("xab", "ab", "b", []byte{})
	f.Add("xab", "b", "ab", []byte{})
	f.Add("xabc", "bc", "ab", []byte{3})
	f.Add("xabaab", "abab", "aab", []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, text, first, second string, cuts []byte) {
		var texts []string
		for _, s := range []string{first, second} {
			if s != "" {
				texts = append(texts, s)
			}
		}
		want, wantFound := text, false
	bytes:
		for end := 1; end <= len(text); end++ {
			for start := range end { // the longest first
				for _, s := range texts {
					if text[start:end] == s {
						want, wantFound = text[:start], true
						break bytes
					}
				}
			}
		}
		s := stops{texts: texts}
		var shown strings.Builder
		found := false
		for left, i := text, 0; left != "" && !found; i++ {
			n := len(left)
			if i < len(cuts) {
				n = min(n, int(cuts[i]))
			}
			var show string
			show, found = s.push(left[:n])
			shown.WriteString(show)
			left = left[n:]
		}
		shown.WriteString(s.rest()) // nothing, if it was found
		if again := s.rest(); again != "" {
			t.Errorf("%q is there twice", again)
		}
		if shown.String() != want || found != wantFound {
			t.Errorf("%q with %q: showed %q found %v, want %q found %v", text, texts, shown.String(), found, want, wantFound)
		}
	})
}
