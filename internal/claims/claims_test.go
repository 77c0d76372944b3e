// Package claims has only tests, of the Python rules that find false statements in answers.
package claims

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// claim is a sentence about an answer's code or about its question, and the rule that judges it. No rule judges a
// figure of speech. The answer is the sentence and the code in a fence.
type claim struct {
	rule, prose, code string
	question          string // the instruction, and after a newline the input
	false             bool
}

// recorded returns the claims of testdata/claims.txt.
func recorded(t *testing.T) (claims []claim) {
	for _, c := range expect.Cases(t, "testdata/claims.txt", "code", "question", "true", "false", "figure") {
		for _, key := range []string{"true", "false"} {
			for _, line := range c.All(key) {
				rule, prose, _ := strings.Cut(line, ": ")
				claims = append(claims, claim{rule, prose, c.Get("code"), c.Get("question"), key == "false"})
			}
		}
		for _, prose := range c.All("figure") {
			claims = append(claims, claim{"", prose, c.Get("code"), c.Get("question"), false})
		}
	}
	return claims
}

// TestClaims checks that each rule finds what is false and leaves alone what is true.
func TestClaims(t *testing.T) {
	rows, rules := recorded(t), map[string]int{}
	var made []map[string]string
	for _, r := range rows {
		rules[r.rule]++
		instruction, input, _ := strings.Cut(r.question, "\n")
		made = append(made, map[string]string{"instruction": instruction, "input": input,
			"answer": r.prose + "\n\n```python\n" + r.code + "\n```\n"})
	}
	text, err := json.Marshal(made)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "rows.json")
	expect.OK(t, os.WriteFile(path, text, 0o600))
	reports, checked := falseClaims(t, path, "answer")
	for i, r := range rows {
		var others []string
		found := false
		for _, report := range reports[i] {
			if rule, _, _ := strings.Cut(report, "\t"); rule == r.rule {
				found = true
			} else if !r.false {
				others = append(others, report)
			}
		}
		if found != r.false || others != nil {
			t.Errorf("%s, %q with\n%s\nfalse: %v, reported: %v %q", r.rule, r.prose, r.code, r.false, found, others)
		}
	}
	for rule, n := range checked {
		if rules[rule] == 0 || n == 0 {
			t.Errorf("rule %s has %d rows here and checked %d statements", rule, rules[rule], n)
		}
	}
}

//go:embed *.py
var sources embed.FS

// written returns a folder with the program, as it was compiled in: so a planted fault is in it.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(dir, sources))
	return dir
}

// falseClaims runs the rules and returns what it reports, by row, and how many statements each rule checked.
func falseClaims(t *testing.T, path, field string) (map[int][]string, map[string]int) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var errs bytes.Buffer
	command := exec.CommandContext(t.Context(), python, "-B", written(t), path, "--field", field)
	command.Stderr = &errs
	output, err := command.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 || errs.Len() > 0) {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	failed := err != nil
	reports, checked := map[int][]string{}, map[string]int{}
	summary := false
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSuffix(line, "\n")
		var i, n, bad int
		if first, rest, _ := strings.Cut(line, "\t"); !summary && rest != "" {
			if _, err := fmt.Sscan(first, &i); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			reports[i] = append(reports[i], rest)
			continue
		}
		rule, counts, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if _, err := fmt.Sscanf(counts, "%d, %d", &n, &bad); summary && err == nil && rule != "all" {
			checked[rule] = n
		}
		summary = true
	}
	if failed != (len(reports) > 0) || len(checked) == 0 {
		t.Fatalf("%d rows reported, %d rules, but exit with %v", len(reports), len(checked), err)
	}
	return reports, checked
}

// TestClaimsDiversity checks the measures of how often answers repeat themselves.
func TestClaimsDiversity(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	rows := `[
		{"instruction": "a", "output": "Well. One two three four five six seven eight.\n\n` + "```python\\nx = 1\\n```" +
		`\n\nNote ` + "`x`. See `x`" + `."},
		{"instruction": "b", "output": "Oh. One two three, four five six seven Eight.\n\n` + "```python\\nx = 1\\n```" + `"}]`
	expect.OK(t, os.WriteFile(path, []byte(rows), 0o600))
	command := exec.CommandContext(t.Context(), python, "-B", written(t), path, "--field", "output", "--diversity")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{"rows: 2\n", "distinct first sentences: 2\n", "most frequent sentence: 1 rows, 50.00%: ",
		"most frequent 8-gram: 2 rows, 100.00%: one two three four five six seven eight\n",
		"one name in more than one sentence: 1\n"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("no %q in\n%s", want, output)
		}
	}
}

// TestDatasetClaims checks that no answer of the committed dataset says what is false.
func TestDatasetClaims(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "data", "passive_aggressive_data.json")
	reports, _ := falseClaims(t, path, "output_passive_aggressive")
	for row, of := range reports {
		for _, report := range of {
			t.Errorf("row %d: %s", row, report)
		}
	}
}
