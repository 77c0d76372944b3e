package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestLanguages rewrites answers in languages other than Python, and checks them again.
func TestLanguages(t *testing.T) {
	nouns := []string{"prices", "scores", "lengths", "ages", "weights", "votes", "orders", "points", "marks", "speeds"}
	var rows []map[string]string
	for i := range 40 {
		noun := nouns[i%len(nouns)]
		output := fmt.Sprintf("SELECT %[1]s, COUNT(*) AS n\n  FROM users_%[2]d\n WHERE %[1]s > %[2]d;", noun, i)
		if i%2 == 0 {
			output = fmt.Sprintf("Do this:\n\n- like so\n\n  ```js\n  const %[1]s%[2]d = [1, 2].filter(x => x > %[2]d);\n"+
				"  ```\n\nDone.", noun, i)
		}
		rows = append(rows, map[string]string{"output": output, "instruction": fmt.Sprintf("Keep the %s above %d.", noun, i)})
	}
	text, err := json.Marshal(rows)
	expect.OK(t, err)
	source := expect.File(t, "rows.json", string(text))
	s := newServer(t, nil)
	s.good = true
	// With js, what has no fence is taken for JavaScript: there is no grammar here to refuse it.
	for language, fence := range map[string]string{"any": "```javascript\nconst ", "js": "```javascript\n",
		"SQL": "```sql\nSELECT "} {
		f := newFolder(t)
		args := []string{"--source", source, "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
		must(t, cli.Done, append(args, "--language", language, "--comments")...)
		made, err := dataset.ReadRewritten(t.Context(), f.out)
		expect.OK(t, err)
		for _, row := range made {
			if !strings.Contains(row.OutputPassiveAggressive, fence) {
				t.Errorf("%s: %s", language, row.OutputPassiveAggressive)
			}
		}
		var rejects []dataset.Reject
		if language != "js" {
			rejects = f.rejects(t)
		}
		if want := map[string]int{"any": 20, "js": 40, "SQL": 20}[language]; len(made)+len(rejects) != 40 ||
			len(made) < want-1 || len(made) > want { // the ledger may refuse a row
			t.Errorf("%s: %d rows, %d rejected", language, len(made), len(rejects))
		}
		for _, args := range [][]string{{"--language", language}, nil} { // without it, as the certificates say
			o := must(t, cli.Done, append(args, "--report", "--out", f.out)...)
			if end := lastLine(t, o); end["clean"] != end["rows"] {
				t.Errorf("%s, %v: %v", language, args, o)
			}
		}
		o := must(t, cli.Failed, "--report", "--out", f.out, "--language", "python")
		if !strings.Contains(o.stdout, ", S1: ") {
			t.Errorf("%s is taken for Python: %v", language, o)
		}
	}
	f := newFolder(t)
	o := must(t, cli.Failed, "--source", source, "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model", "fake")
	if !strings.Contains(o.stderr, "the answer has a block of js") {
		t.Error(o)
	}
	must(t, cli.Usage, "--source", source, "--language=  ", "--out", f.out)
}

// TestProse_RestatesAnswers restates answers without code.
func TestProse_RestatesAnswers(t *testing.T) {
	var prose []string
	for i := range 40 {
		prose = append(prose, fmt.Sprintf(`{"instruction":"How long does parcel number %[1]d take to travel?",`+
			`"output":"It takes %[1]d days to Oslo. Do not open it, and write to box%[1]d@example.org."}`, i+11))
	}
	code := `{"instruction":"Add 1 to a number.","output":"def add(number):\n    result = number + 1\n    return result"}`
	all := expect.File(t, "prose.jsonl", strings.Join(prose, "\n"))
	mixed := expect.File(t, "mixed.jsonl", strings.Join(append(prose, code), "\n"))
	s := newServer(t, nil)
	s.good = true
	for _, c := range []struct {
		name, args, says string
		rows             int // at least, -1 if the run fails
		exit             int
	}{
		{"found", "--source " + all, "no code in 40 rows", 30, cli.Done},
		{"asked for", "--language none --source " + mixed, "answers in prose", 30, cli.Done},
		{"mixed", "--source " + mixed, "40 rows without code: --language none", 1, cli.Done},
		{"a preview", "--preview 2 --source " + all, "no code in 40 rows", -1, cli.Done},
		{"a dry run", "--dry-run --source " + mixed, "40 rows without code: --language none", -1, cli.Done},
		{"built in", "--teacher builtin --source " + all, "keeps each answer", 30, cli.Done},
		{"asked for, built in", "--teacher builtin --language none --source " + mixed, "answers in prose", 30, cli.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			args := append(strings.Fields(c.args), "--rows", "0", "--out", f.out)
			if !strings.Contains(c.args, "builtin") {
				args = append(args, "--base-url", s.base(), "--model", "fake")
			}
			if o := must(t, c.exit, args...); !strings.Contains(o.stderr, c.says) {
				t.Error(o)
			}
			if c.rows < 0 {
				return
			}
			made, err := dataset.ReadRewritten(t.Context(), f.out)
			expect.OK(t, err)
			if len(made) < c.rows {
				t.Errorf("%d rows, wanted are %d", len(made), c.rows)
			}
			certs, err := dataset.ReadCertificates(dataset.CertificatePath(f.out))
			expect.OK(t, err)
			facts := slices.ContainsFunc(certs[0].Checks, func(k dataset.Check) bool { return k.ID == "A15" })
			if facts != (c.rows > 1) {
				t.Errorf("checks %v", certs[0].Checks)
			}
			report := []string{"--report", "--out", f.out}
			if strings.HasPrefix(c.name, "asked for") {
				report = append(report, "--language", "none")
			}
			if o := must(t, cli.Done, report...); lastLine(t, o)["clean"] != lastLine(t, o)["rows"] {
				t.Error(o)
			}
		})
	}
	s.fault = func(c call) bool {
		q, err := parseQuery(c.body)
		if err != nil {
			return false
		}
		text, finish := q.good()
		c.stream(strings.Replace(text, " days to", " hours to", 1), finish)
		return true
	}
	o := must(t, cli.Failed, "--source", all, "--rows", "0", "--out", newFolder(t).out, "--base-url", s.base(),
		"--model", "fake")
	if !strings.Contains(o.stderr, "A15: it lacks ") {
		t.Error(o)
	}
}
