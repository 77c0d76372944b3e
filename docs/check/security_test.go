package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestSecurity_PromisesHaveTests checks that every promise of security.md names tests, and that these tests exist.
func TestSecurity_PromisesHaveTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	expect.OK(t, err)
	named := regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz)\\w+)`")
	promises, promising := 0, false
	for line := range strings.Lines(string(page)) {
		promising = strings.HasPrefix(line, "| promise |") || promising && strings.HasPrefix(line, "|")
		tests := named.FindAllStringSubmatch(line, -1)
		for _, m := range tests {
			if !declares(t, m[1], m[2]) {
				t.Errorf("%s has no test %s", m[1], m[2])
			}
		}
		if !promising || strings.HasPrefix(line, "| promise |") || strings.HasPrefix(line, "|---") {
			continue
		}
		promises++
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) != 2 || named.MatchString(cells[0]) ||
			strings.Count(cells[1], "`") != 2*len(tests) || len(tests) == 0 {
			t.Errorf("not a promise and its tests: %s", line)
		}
	}
	if promises < 20 {
		t.Errorf("only %d promises found", promises)
	}
}

// declares reports whether a package's directory has a test file that declares a function of that name.
func declares(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	expect.OK(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
