package output

import (
	"encoding/json"
	"fmt"
	"restyle/dataset"
	"strings"
)

// Card is the content of a dataset card, the README.md of a dataset on the Hugging Face hub. Empty fields are left out.
type Card struct {
	Title    string   // the heading
	License  string   // an identifier that the hub knows, such as "mit"
	Language []string // codes such as "en", "code"
	Tags     []string
	Rows     int
	Source   string // name and revision of where the instructions come from
	Made     string // Markdown: how the rows were made, by which teacher, with which checks
}

// Markdown renders the card: the YAML header that the hub reads, then the text. It quotes values from outside, so that
// they cannot add keys to the header.
func (c Card) Markdown() string {
	var b strings.Builder
	b.WriteString("---\n")
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, yamlString(value))
		}
	}
	items := func(name string, values []string) {
		if len(values) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:\n", name)
		for _, v := range values {
			fmt.Fprintf(&b, "- %s\n", yamlString(v))
		}
	}
	field("pretty_name", c.Title)
	field("license", c.License)
	items("language", c.Language)
	items("task_categories", []string{"text-generation"})
	items("size_categories", []string{sizeCategory(c.Rows)})
	items("tags", c.Tags)
	b.WriteString("---\n\n")
	fmt.Fprintf(&b, "# %s\n\n%d rows with the keys `%s`.\n",
		strings.Join(strings.Fields(c.Title), " "), c.Rows, strings.Join(dataset.RewrittenColumns[:], "`, `"))
	b.WriteString("Every row has a certificate beside the data: the checks that it passed, the prompt's hash, " +
		"the teacher, the seed and the row of the source.\n")
	if c.Source != "" {
		fmt.Fprintf(&b, "\nSource of the instructions: %s\n", strings.Join(strings.Fields(c.Source), " "))
	}
	if made := strings.TrimSpace(c.Made); made != "" {
		fmt.Fprintf(&b, "\n## How it was made\n\n%s\n", made)
	}
	return b.String()
}

// yamlString quotes s as JSON, which is YAML too.
func yamlString(s string) string {
	quoted, _ := json.Marshal(s) // a string always marshals
	return string(quoted)
}

// sizeCategory returns the hub's name for a number of rows.
func sizeCategory(rows int) string {
	for _, c := range []struct {
		below int
		name  string
	}{{1_000, "n<1K"}, {10_000, "1K<n<10K"}, {100_000, "10K<n<100K"}, {1_000_000, "100K<n<1M"}} {
		if rows < c.below {
			return c.name
		}
	}
	return "n>1M"
}
