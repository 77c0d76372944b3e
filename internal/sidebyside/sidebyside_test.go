package sidebyside

import "testing"

func TestMarkdown(t *testing.T) {
	for _, c := range []struct {
		question string
		answers  []Answer
		want     string
	}{
		{
			" Why?\n", []Answer{{Base, "", "Because.\r\nSo.", ""}, {Tuned, "my_*out*", "", "cut"}},
			"### Query: *\"Why?\"*\n\n**Base model:**\n> Because.\n> So.\n\n" +
				"**Tuned model, my\\_\\*out\\*:**\n> \n\n*(cut)*\n\n---\n\n",
		},
		{"Sort:\r```\n1", nil, "### Query: *\"Sort: …\"*\n\n````\nSort:\n```\n1\n````\n\n---\n\n"},
		{"", []Answer{{Tuned, "", "x", ""}}, "### Query: *\"\"*\n\n**Tuned model:**\n> x\n\n---\n\n"},
	} {
		if got := Markdown(c.question, c.answers...); got != c.want {
			t.Errorf("%q gives\n%q, want\n%q", c.question, got, c.want)
		}
	}
}
