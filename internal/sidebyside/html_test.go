package sidebyside

import (
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// TestInert_NoHTML checks that no tag starts outside of what every reader of Markdown takes for code. X represents a
// tag.
func TestInert_NoHTML(t *testing.T) {
	const tag, safe = "<img src=x>", "&lt;img src=x>"
	for _, c := range []struct {
		text string
		code bool // the X remains a tag
	}{
		{"X", false},
		{"a\n\n    X", false},
		{"```\nX\n```", true},
		{"```html\na\n\nX\n```\nb", true},
		{"~~~ a`b\nX", true},
		{"   ```\n   X\n   ```", true},
		{"````\n```\nX\n````", true},
		{"```\na\n```\nX", false},
		{"```\na\n   ````  \nX", false},
		{"```\na\n    ```\nX", true},
		{"```\na\n``` b\nX", true},
		{"~~~\n```\n~~~\nX", false},
		{"``` a`b\nX", false},
		{"    ```\nX", false},
		{"\t```\nX", false},
		{"- ```\n  ```\nX", false}, // opened and closed in a list: what looks like an opening is none
		{"- a\n  ```\nX", false},   // a fence in a list ends with the list
		{"1. a\n   ```\n   X\n   ```", true},
		{"1. ```\nX", false},
		{"> ```\nX", false},
		{"`X`", true},
		{"a `` ` X `` b", true},
		{"`a`X`b`", false},
		{"`a``X`", true},
		{"`a` ``X`", false},
		{"a ` b\n` X `", false}, // the first pairs with the second
		{"a ` b\n\n` X `", true},
		{"\\` X `", false},
		{"a\n```\n` b\n```\n`X`", true},
	} {
		text := strings.ReplaceAll(c.text, "X", tag)
		want := strings.ReplaceAll(c.text, "X", safe)
		if c.code {
			want = text
		}
		if got := inert(text); got != want {
			t.Errorf("%q gives %q", text, got)
		}
	}
	for _, text := range []string{"a < b", "1<2", "<", "x <= y", "&lt;"} {
		if got := inert(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"</b>", "<!-- a", "<?php", "\\<b>", "<http://x>"} {
		if got := inert(text); strings.Contains(got, text[strings.Index(text, "<"):]) {
			t.Errorf("%q stays %q", text, got)
		}
	}
	got := Markdown("<b>q", Answer{Base, "<b>", "<i>a", "<u>n"})
	if strings.Contains(strings.ReplaceAll(got, "\n> ", ""), "<") {
		t.Errorf("%q", got)
	}
	if got := Markdown("a\n<b>"); !strings.Contains(got, "```\na\n<b>\n```") {
		t.Errorf("%q", got)
	}
}

// FuzzInert checks that only < changes, and that no tag remains outside of lines with backticks or tildes.
func FuzzInert(f *testing.F) {
	f.Add("```\n<a>\n```\n<b>")
	f.Add("- ```\n<a `<b>`")
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got string
		hostile.Within(t, hostile.Linear(len(text)), func() { got = inert(text) })
		if strings.ReplaceAll(got, "&lt;", "<") != strings.ReplaceAll(text, "&lt;", "<") {
			t.Fatalf("%q became %q", text, got)
		}
		if !strings.ContainsAny(text, "`~") && htmlStart.MatchString(got) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// TestHeading checks that a question is not read as Markdown, whatever it contains.
func TestHeading(t *testing.T) {
	for question, want := range map[string]string{
		"Print [3, 4] and 3 & 4": "Print [3, 4] and 3 &amp; 4",
		"a*b* __c__ `d` e_f":     `a\*b\* \_\_c\_\_ \` + "`d\\`" + ` e\_f`,
		"[a](http://b) ![c][d]":  `[a\](http://b) ![c\][d]`,
		`\*a\* <b>`:              `\\\*a\\\* &lt;b>`,
	} {
		if got, _, _ := strings.Cut(Markdown(question), "\n"); got != `### Query: *"`+want+`"*` {
			t.Errorf("%s gives\n%s", question, got)
		}
	}
}
