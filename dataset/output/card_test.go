package output

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCard(t *testing.T) {
	c := Card{Title: "Rows\nlicense: evil", License: "mit", Language: []string{"en", "code"}, Tags: []string{`a"b: c`},
		Rows: 576, Source: "starter\n# x", Made: "By hand.\n"}
	text := c.Markdown()
	header, body, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
	if !ok {
		t.Fatal(text)
	}
	keys := map[string]string{}
	for _, line := range strings.Split(header, "\n") {
		if item, ok := strings.CutPrefix(line, "- "); ok {
			if !json.Valid([]byte(item)) {
				t.Errorf("%q is not quoted", line)
			}
			continue
		}
		k, v, ok := strings.Cut(line, ":")
		if !ok || keys[k] != "" {
			t.Errorf("header line %q", line)
		}
		keys[k] = v + " "
	}
	if keys["license"] != ` "mit" ` || len(keys) != 6 {
		t.Errorf("%q", keys)
	}
	for _, want := range []string{"# Rows license: evil\n", "576 rows", "`output_passive_aggressive`", "starter # x\n",
		"## How it was made\n\nBy hand.\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in\n%s", want, body)
		}
	}
	for rows, want := range map[int]string{0: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 18612: "10K<n<100K", 1e6: "n>1M"} {
		if got := sizeCategory(rows); got != want {
			t.Errorf("%d rows: %s", rows, got)
		}
	}
}
