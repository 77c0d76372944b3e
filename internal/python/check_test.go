package python

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/expect"
)

//go:embed testdata/snippets.txt
var snippetFile string

// snippet is a small source with the verdict that Check must return.
type snippet struct {
	line    int
	verdict string // ok, error, or laxer: accepted here, refused by Python 3.11
	src     string
}

func snippets(t testing.TB) (list []snippet) {
	t.Helper()
	for i, line := range strings.Split(snippetFile, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		verdict, quoted, _ := strings.Cut(line, " ")
		src, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("snippets.txt:%d: %v", i+1, err)
		}
		list = append(list, snippet{i + 1, verdict, src})
	}
	return list
}

func TestCheckSnippets(t *testing.T) {
	for _, s := range snippets(t) {
		if err := Check(s.src); (err == nil) != (s.verdict != "error") {
			t.Errorf("snippets.txt:%d: %s %q: Check says %v", s.line, s.verdict, s.src, err)
		}
	}
}

func TestSnippetsAgainstCPython(t *testing.T) {
	list := snippets(t)
	var questions []asked
	for _, s := range list {
		questions = append(questions, asked{Src: s.src})
	}
	for i, v := range askCPython(t, questions) {
		if s := list[i]; s.verdict != "laxer" && (v.Error == "") != (s.verdict == "ok") {
			t.Errorf("snippets.txt:%d: %s %q: CPython says %q", s.line, s.verdict, s.src, v.Error)
		}
	}
}

func TestCheckPrograms(t *testing.T) {
	names, sources := programs(t)
	for i, src := range sources {
		for _, s := range []string{src, "\ufeff" + src, strings.ReplaceAll(src, "\n", "\r\n"), strings.TrimRight(src, "\n")} {
			if err := Check(s); err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
		}
	}
}

// TestReferenceAgainstCPython checks on real answers which sources Check accepts.
func TestReferenceAgainstCPython(t *testing.T) {
	sources, _, others := reference(t)
	for _, set := range []struct {
		name    string
		sources []string
	}{{"sources", sources}, {"others", others}} {
		compareWithCPython(t, set.name, set.sources)
	}
	parsing := 0
	for _, s := range sources {
		if Check(s) == nil {
			parsing++
			if err := LooksLikePython(s); err != nil {
				t.Errorf("%v:\n%s", err, s)
			}
		}
	}
	if parsing != 514 {
		t.Errorf("%d of %d reference sources are Python, 514 are known to be", parsing, len(sources))
	}
}

// TestStandardLibraryAgainstCPython checks the modules of the installed python3.
func TestStandardLibraryAgainstCPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there to compare with")
	}
	out, err := exec.Command("python3", "-c", "import os; print(os.path.dirname(os.__file__), end='')").Output()
	expect.OK(t, err)
	files, err := filepath.Glob(filepath.Join(string(out), "*.py"))
	expect.OK(t, err)
	const most = 1 << 19 // bytes, to limit the time of the test
	var sources []string
	size := 0
	for _, path := range files {
		b, err := os.ReadFile(path)
		expect.OK(t, err)
		if size+len(b) > most || !utf8.Valid(b) {
			continue
		}
		size += len(b)
		sources = append(sources, string(b))
	}
	compareWithCPython(t, "modules", sources)
}

// compareWithCPython compares the tokens, and the verdict of Check.
func compareWithCPython(t *testing.T, name string, sources []string) {
	t.Helper()
	var questions []asked
	for _, s := range sources {
		questions = append(questions, asked{s, true})
	}
	parsing, tokens, newer := 0, 0, 0
	for i, v := range askCPython(t, questions) {
		src := sources[i]
		err := Check(src)
		if (err == nil) != (v.Error == "") {
			if err == nil && strings.Contains(v.Error, "f-string") {
				newer++
				continue
			}
			t.Errorf("%s: Check says %v, CPython %q\n%.500s", name, err, v.Error, src)
		}
		if v.Error != "" {
			continue
		}
		parsing++
		ours, err := Tokenize(src)
		if err != nil {
			t.Errorf("%s: %v\n%.500s", name, err, src)
			continue
		}
		tokens += len(ours)
		compareTokens(t, src, v.Tokens, spoken(src, ours))
	}
	t.Logf("%s: %d of %d parse, as CPython says, %d tokens; %d with f-strings that python3 cannot read", name, parsing,
		len(sources), tokens, newer)
}
