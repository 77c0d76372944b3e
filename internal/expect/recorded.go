package expect

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Recorded checks a table of what functions of strings return. Each line of the file, except blank lines and lines that
// start with #, has the name of a function, its arguments, and the result:
//
//	quantity | two dozen eggs => 24
//
// with line feeds, tabs, backslashes and bars as in Go: \n, \t, \\, \x7c. A line that is wrong is reported as it should
// be if the code is right.
func Recorded(t testing.TB, path string, functions map[string]func(args ...string) string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		call, want, ok := strings.Cut(line, " =>")
		fields := strings.Split(call, " | ")
		f := functions[fields[0]]
		if !ok || f == nil {
			t.Errorf("%s:%d: %q: no result, or no such function", path, i+1, line)
			continue
		}
		used[fields[0]] = true
		args := make([]string, len(fields)-1)
		for k := range args {
			args[k] = unescaped(t, fields[k+1])
		}
		if got := escaped(f(args...)); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s:%d: recorded is %q, it is now\n%s => %s", path, i+1, strings.TrimSpace(want), call, got)
		}
	}
	for name := range functions {
		if !used[name] {
			t.Errorf("%s: no line of %s", path, name)
		}
	}
}

func unescaped(t testing.TB, field string) string {
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(field, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%q: %v", field, err)
	}
	return s
}

func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "|", `\x7c`, "\r", `\r`).Replace(s)
}
