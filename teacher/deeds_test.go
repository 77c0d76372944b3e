package teacher

import (
	"strings"
	"testing"

	"restyle/internal/hostile"
	"restyle/voice"
)

// FuzzDeeds reads any code: everything that is said about it must be in it.
func FuzzDeeds(f *testing.F) {
	f.Add("class A(B):\n    def f(self, a=1):\n        for b in c: return b\n")
	f.Add("a, b = b, a; del a\nx: int = (lambda y: y)(1)\nprint(f\"{x!r}\")\n")
	f.Fuzz(func(t *testing.T, code string) {
		var facts voice.Facts
		hostile.Within(t, hostile.Linear(8*len(code)), func() { // each check tokenizes the code again
			facts = voice.Facts{}
			readCode(&facts, code)
		})
		for kind, deeds := range facts.Deeds {
			for _, d := range deeds {
				for i, text := range d {
					if (kind != "take" || i == 0) && !strings.Contains(code, text) {
						t.Errorf("%s: %q is not in %q", kind, text, code)
					}
				}
			}
		}
	})
}
