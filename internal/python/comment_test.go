package python

import (
	"strings"
	"testing"
)

// TestAddCommentsEverywhere checks a remark on every line of every program that can have one.
func TestAddCommentsEverywhere(t *testing.T) {
	names, sources := programs(t)
	for i, src := range sources {
		remarks := make(map[int]string)
		for n := range splitLines(src) {
			if _, err := AddComments(src, map[int]string{n + 1: "well"}); err == nil {
				remarks[n+1] = "as you wish"
			}
		}
		out, err := AddComments(src, remarks)
		if err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
		if n := strings.Count(out, "  # as you wish") + strings.Count(out, "\n# as you wish"); n < len(remarks)-1 ||
			len(remarks)*2 < len(splitLines(src)) {
			t.Errorf("%s: %d remarks for %d of %d lines", names[i], n, len(remarks), len(splitLines(src)))
		}
		if err := Check(out); err != nil {
			t.Errorf("%s: %v\n%s", names[i], err, out)
		}
	}
}
