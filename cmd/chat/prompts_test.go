package main

import (
	"slices"
	"strings"
	"testing"
)

func TestReadPrompts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		says       string
	}{
		{"lines", "one\n\n  two \r\nthree", []string{"one", "two", "three"}, ""},
		{"JSON", `{"prompt": "one\ntwo", "id": 3}` + "\n\n" + `{"prompt":" three"}`, []string{"one\ntwo", " three"}, ""},
		{"a byte order mark", "\ufeff{\"prompt\": \"one\"}", []string{"one"}, ""},
		{"a brace in a later line", "one\n{two}", []string{"one", "{two}"}, ""},
		{"another encoding", "one\ncaf\xe9", nil, "f: line 2: not valid UTF-8"},
		{"nothing", "\n \n", nil, "f has no questions"},
		{"broken", `{"prompt": "one"}` + "\n{", nil, "line 2 is not a JSON object"},
		{"other keys", `{"question": "one"}`, nil, `line 1 has no text as "prompt"`},
		{"an empty one", `{"prompt": " "}`, nil, `line 1 has no text as "prompt"`},
		{"a number", `{"prompt": 3}`, nil, `line 1 has no text as "prompt"`},
	} {
		got, err := readPrompts(strings.NewReader(c.text), "f")
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add("one\ntwo\n")
	f.Add(`{"prompt": "x"}` + "\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		prompts, err := readPrompts(strings.NewReader(text), "f")
		if err == nil && len(prompts) == 0 {
			t.Error("no questions and no error")
		}
		for _, p := range prompts {
			if strings.TrimSpace(p) == "" {
				t.Error("an empty question")
			}
		}
	})
}
