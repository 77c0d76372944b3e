package main

import (
	"fmt"
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// TestReadPrompts reads every kind of file of questions. A question is shown as its system prompt, the messages before
// it and its text.
func TestReadPrompts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // questions, one per line, then what is not used
		says       string
	}{
		{"lines", "one\n\n  two \r\nthree", "one\ntwo\nthree\n", ""},
		{"a brace in a later line", "one\n{two}", "one\n{two}\n", ""},
		{"brackets that are no JSON", "[3, 1] sorted?\n[{\"a\": 1}] as Python?",
			"[3, 1] sorted?\n[{\"a\": 1}] as Python?\n", ""},
		{"another encoding", "one\ncaf\xe9", "", "f: line 2: not valid UTF-8"},
		{"nothing", "\n \n", "", "f has no questions"},
		{"CSV is lines", "prompt,id\none,1", "prompt,id\none,1\n", ""},

		{"JSON lines", `{"prompt": "one\ntwo", "id": 3}` + "\r\n\n" + `{"prompt":" three", "Source": null, "tag": 1}`,
			"one⏎two\n three\nnot used: [id tag]", ""},
		{"a byte order mark", "\ufeff{\"prompt\": \"one\"}", "one\n", ""},
		{"objects over several lines", "{\n \"prompt\": \"one\"\n}\n{\n \"prompt\": \"two\"\n}",
			"one\ntwo\n", ""},
		{"an array of objects", ` [{"prompt": "one"}, {"prompt": "two", "system": "Be brief."}]`,
			"one\n<Be brief.> two\n", ""},
		{"an array of texts", `["one", "two"]`, "one\ntwo\n", ""},
		{"an array of both, over lines", "[\n \"one\",\n {\"prompt\": \"two\"}\n]\n", "one\ntwo\n", ""},
		{"no system prompt", `{"prompt": "one", "system": ""}`, "<> one\n", ""},
		{"messages", `{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"},
			{"role": "assistant", "content": "b", "tool_calls": null}, {"role": "user", "content": "c"}]}`,
			"<S> user:a assistant:b c\n", ""},
		{"a prompt of messages", `{"prompt": [{"role": "user", "content": "c"}], "system": "S"}`, "<S> c\n", ""},
		{"a bare conversation", `[{"role": "system", "content": "S"}, {"role": "user", "content": "c"}]`, "<S> c\n", ""},
		{"conversations in lines", `[{"role": "user", "content": "a"}]` + "\n" + `[{"role": "user", "content": "b"}]`,
			"a\nb\n", ""},

		{"broken", `{"prompt": "one"}` + "\n{", "", "line 2 is not valid JSON"},
		{"a broken array", "[\n\"one\",\n]", "", "line 1 is not valid JSON"},
		{"a broken array of objects", `[{"prompt": "one"},`, "", "line 1 is not valid JSON"},
		{"more on the line", `{"prompt": "one"} two`, "", "line 1 is not valid JSON"},
		{"an empty array", "[]", "", "f has no questions"},
		{"numbers", "[1, 2]", "", "line 1, element 1 is 1: must be a text or an object"},
		{"other keys", "\n" + `{"question": "one"}`, "", `line 1 has "question", which chat does not read: use "prompt"`},
		{"no key", `{"id": 1}`, "", `line 1 has no text as "prompt"`},
		{"an empty one", `{"prompt": " "}`, "", `line 1 has no text as "prompt"`},
		{"a number", `{"prompt": 3}`, "", `line 1 has no text as "prompt"`},
		{"a setting", `{"prompt": "a", "temperature": 0}`, "",
			`has "temperature", which chat does not read: use --temperature`},
		{"tools", `[{"prompt": "a"}, {"prompt": "b", "tools": []}]`, "",
			`element 2 has "tools", which chat does not support`},
		{"two questions", `{"prompt": "a", "messages": []}`, "", "leave one out"},
		{"two system prompts", `{"system": "a", "messages": [{"role": "system", "content": "b"},
			{"role": "user", "content": "c"}]}`, "", "leave one out"},
		{"a system prompt that is none", `{"prompt": "a", "system": 3}`, "", `has 3 as "system": must be a text`},
		{"the answer at the end", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`,
			"", `ends with a message of the role "assistant"`},
		{"another role", `{"messages": [{"role": "tool", "content": "a"}, {"role": "user", "content": "b"}]}`, "",
			`has in message 1 the role "tool"`},
		{"a late system prompt", `{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "a"},
			{"role": "user", "content": "b"}]}`, "", `has in message 2 the role "system"`},
		{"a name", `{"messages": [{"role": "user", "content": "a", "name": "Bob"}]}`, "", `has in message 1 "name"`},
		{"parts", `{"messages": [{"role": "user", "content": [{"type": "image"}]}]}`, "", `message 1 no text as "content"`},
		{"no messages", `{"messages": []}`, "", "has no list of messages"},
	} {
		prompts, unused, err := readPrompts(strings.NewReader(c.text), "f")
		var got strings.Builder
		for _, p := range prompts {
			if p.system != nil {
				fmt.Fprintf(&got, "<%s> ", *p.system)
			}
			for _, m := range p.before {
				fmt.Fprintf(&got, "%s:%s ", m.Role, m.Content)
			}
			fmt.Fprintln(&got, joinLines(p.question))
		}
		if len(unused) > 0 {
			fmt.Fprintf(&got, "not used: %v", unused)
		}
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
		} else if err != nil || got.String() != c.want {
			t.Errorf("%s: %q, %v", c.name, &got, err)
		}
	}
	// The name of a file decides what its first character leaves open.
	for name, want := range map[string]bool{"a.txt": true, "a.jsonl": false} {
		if p, _, err := readPrompts(strings.NewReader(`"one"`), name); err != nil || (p[0].question == `"one"`) != want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add("one\ntwo\n")
	f.Add(`{"prompt": "x"}` + "\n{}")
	f.Add(`[{"prompt": "x", "system": null}, "y", [{"role": "user", "content": "z"}]]`)
	f.Add(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`)
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var prompts []prompt
		var err error
		hostile.Within(t, hostile.Linear(3*len(text)), func() { // a line of one byte is a prompt, with its settings
			prompts, _, err = readPrompts(strings.NewReader(text), "f")
		})
		if err == nil && len(prompts) == 0 {
			t.Error("no questions and no error")
		}
		for _, p := range prompts {
			if strings.TrimSpace(p.question) == "" {
				t.Error("an empty question")
			}
		}
	})
}
