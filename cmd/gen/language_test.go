package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestLanguages rewrites answers in other languages than Python, and checks them again.
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
		o := must(t, cli.Done, "--report", "--out", f.out, "--language", language)
		if end := lastLine(t, o); end["clean"] != end["rows"] {
			t.Errorf("%s: %v", language, o)
		}
		if o := must(t, cli.Failed, "--report", "--out", f.out); !strings.Contains(o.stdout, ", S1: ") {
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
