package output

import "testing"

func TestCard(t *testing.T) {
	c := Card{Title: "Rows\nlicense: evil", License: "mit", Language: []string{"en", "code"},
		Tags: []string{`a"b: c`, "d"},
		Rows: 576, Source: "starter\n# x", Made: "By hand.\n"}
	const rows = "rows with the keys `instruction`, `input`, `output_original`, `output_passive_aggressive`.\n" +
		"Every row has a certificate beside the data: the checks that it passed, the prompt's hash, " +
		"the teacher, the seed and the row of the source.\n"
	const category = "task_categories:\n- \"text-generation\"\nsize_categories:\n- \"n\\u003c1K\"\n"
	for want, c := range map[string]Card{
		"---\npretty_name: \"Rows\\nlicense: evil\"\nlicense: \"mit\"\nlanguage:\n- \"en\"\n- \"code\"\n" + category +
			"tags:\n- \"a\\\"b: c\"\n- \"d\"\n---\n\n# Rows license: evil\n\n576 " + rows +
			"\nSource of the instructions: starter # x\n\n## How it was made\n\nBy hand.\n": c,
		"---\n" + category + "---\n\n# \n\n0 " + rows: {},
	} {
		if got := c.Markdown(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for rows, want := range map[int]string{0: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 9999: "1K<n<10K",
		10_000: "10K<n<100K", 99_999: "10K<n<100K", 100_000: "100K<n<1M", 999_999: "100K<n<1M", 1e6: "n>1M"} {
		if got := sizeCategory(rows); got != want {
			t.Errorf("%d rows: %s", rows, got)
		}
	}
}
