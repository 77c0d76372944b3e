package python

import (
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"restyle/internal/expect"
)

//go:embed testdata/oracle.py
var oracleScript string

// asked is a question to CPython about a source.
type asked struct {
	Src    string `json:"src"`
	Tokens bool   `json:"tokens"`
}

// verdict is CPython's answer about a source.
type verdict struct {
	Error  string       `json:"error"` // of ast.parse, empty if there was none
	Dump   string       `json:"dump"`  // hash of ast.dump without docstrings
	Tokens []spokenWord `json:"tokens"`
}

// spokenWord is a token of CPython's tokenize, or of ours in the same form.
type spokenWord struct {
	Kind, Text string
	Line, Col  int
}

func (w *spokenWord) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&w.Kind, &w.Text, &w.Line, &w.Col})
}

// askCPython sends all questions to one python3 process. It skips the test if there is no python3 of a suitable
// version.
func askCPython(t *testing.T, questions []asked) []verdict {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there to compare with")
	}
	in, err := json.Marshal(questions)
	expect.OK(t, err)
	cmd := exec.Command(path, "-W", "ignore", "-c", oracleScript)
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip("python3 is not of a version from 3.11 to 3.13: no reference to compare with")
	}
	expect.OK(t, err)
	var verdicts []verdict
	expect.OK(t, json.Unmarshal(out, &verdicts))
	if len(verdicts) != len(questions) {
		t.Fatalf("%d verdicts on %d questions", len(verdicts), len(questions))
	}
	return verdicts
}

//go:embed testdata/programs.py
var programFile string

// programs returns the test programs of testdata/programs.py by name.
func programs(t testing.TB) (names, sources []string) {
	t.Helper()
	for _, part := range strings.Split(programFile, "#### ")[1:] {
		name, src, _ := strings.Cut(part, "\n")
		names, sources = append(names, name), append(sources, src)
	}
	if len(names) < 60 {
		t.Fatalf("only %d programs in testdata/programs.py", len(names))
	}
	return names, sources
}

// reference returns source and rewrite of the rows of the dataset in the directory that RESTYLE_REFERENCE names, and
// other answers, only some of which are Python.
func reference(t *testing.T) (sources, rewrites, others []string) {
	t.Helper()
	var rows []struct {
		Source  string `json:"output_original"`
		Rewrite string `json:"output_passive_aggressive"`
	}
	readJSON(t, expect.Reference(t, "data/instruct/original_passive_aggressive_data.json"), &rows)
	for _, r := range rows {
		sources, rewrites = append(sources, r.Source), append(rewrites, r.Rewrite)
	}
	var more []struct{ Response string }
	readJSON(t, expect.Reference(t, "data/instruct/gpteacher_codegen-instruct.json"), &more)
	for _, r := range more {
		others = append(others, r.Response)
	}
	return sources, rewrites, others
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	expect.OK(t, err)
	expect.OK(t, json.Unmarshal(b, v))
}

// spoken converts tokens to the form of CPython's tokenize before 3.12: f-strings as a whole, no empty line ends.
func spoken(src string, tokens []Token) []spokenWord {
	kinds := map[Kind]string{Name: "NAME", Number: "NUMBER", String: "STRING", Op: "OP", Comment: "COMMENT",
		Newline: "NEWLINE", NL: "NL", Indent: "INDENT", Dedent: "DEDENT"}
	lineStart := func(pos int) int {
		return 1 + strings.LastIndexByte(src[:pos], '\n')
	}
	var out []spokenWord
	depth := 0
	var start Token
	for _, t := range tokens {
		if t.Kind == FStringStart {
			if depth == 0 {
				start = t
			}
			depth++
		}
		if t.Kind == FStringEnd {
			depth--
			if depth == 0 {
				out = append(out, spokenWord{"STRING", src[start.Pos:t.End], start.Line,
					len([]rune(src[lineStart(start.Pos):start.Pos]))})
			}
			continue
		}
		if depth > 0 || t.Kind == End || (t.Kind == Newline || t.Kind == NL) && t.Text == "" {
			continue
		}
		w := spokenWord{kinds[t.Kind], t.Text, t.Line, len([]rune(src[lineStart(t.Pos):t.Pos]))}
		if t.Kind == Indent {
			w.Text = ""
		}
		if t.Kind == Dedent && t.Pos == len(src) {
			w.Line, w.Col = 0, 0 // the end has no position to compare
		}
		out = append(out, w)
	}
	return out
}
