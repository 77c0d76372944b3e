// Package sidebyside formats a question and two models' answers as a Markdown entry, for chat's log and bench quality.
package sidebyside

import (
	"fmt"
	"strings"

	"restyle/internal/cli"
)

// The labels of the models.
const (
	Base  = "base"
	Tuned = "tuned"
)

// headings are what an entry calls the models, before their names.
var headings = map[string]string{Base: "Base model", Tuned: "Tuned model"}

// plain escapes the characters that have a meaning in a line of Markdown (CommonMark 0.31, section 2.4).
var plain = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "](", "\\](", "][", "\\][", "<",
	"&lt;", "&", "&amp;")

// An Answer is the answer of one model.
type Answer struct {
	Label string // Base or Tuned
	Model string // its name; may be empty
	Text  string // in Markdown
	Note  string // shown below the text; may be empty
}

// Fenced returns text as a fenced code block, which nothing in it ends.
func Fenced(text string) string {
	fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
	return fence + "\n" + text + "\n" + fence
}

// Markdown returns the entry. It contains no character that a terminal obeys and no HTML that a viewer renders. A
// question of several lines does not fit into a heading: the heading has its first line, and a fence below it has the
// whole question.
func Markdown(question string, answers ...Answer) string {
	var b strings.Builder
	question = strings.TrimSpace(cli.Clean(question))
	first, _, many := strings.Cut(question, "\n")
	if many {
		first += " …"
	}
	fmt.Fprintf(&b, "### Query: *\"%s\"*\n\n", plain.Replace(first))
	if many {
		fmt.Fprintf(&b, "%s\n\n", Fenced(question))
	}
	for _, a := range answers {
		text := strings.ReplaceAll(inert(strings.TrimSpace(cli.Clean(a.Text))), "\n", "\n> ")
		name := ""
		if a.Model != "" {
			name = ", " + plain.Replace(strings.ReplaceAll(cli.Clean(a.Model), "\n", " "))
		}
		fmt.Fprintf(&b, "**%s%s:**\n> %s\n\n", headings[a.Label], name, text)
		if a.Note != "" {
			fmt.Fprintf(&b, "*(%s)*\n\n", escape(cli.Clean(a.Note)))
		}
	}
	b.WriteString("---\n\n")
	return b.String()
}

func longestRun(s string, c byte) (longest int) {
	run := 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
