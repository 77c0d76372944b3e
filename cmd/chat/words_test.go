package main

import (
	"encoding/json"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestConversationOfPrompt reads the messages of --prompts: who may come first, in between, and last.
func TestConversationOfPrompt(t *testing.T) {
	const s, u, a = `{"role":"system","content":"s"}`, `{"role":"user","content":"q"}`,
		`{"role":"assistant","content":"a"}`
	for _, c := range []struct{ list, question, system, before, says string }{
		{u, "q", "", "", ""}, {s + "," + u, "q", "s", "", ""}, {u + "," + a + "," + u, "q", "", "user assistant", ""},
		{s + "," + u + "," + a + "," + u, "q", "s", "user assistant", ""}, {a + "," + u, "q", "", "assistant", ""},
		{s, "", "", "", `ends with a message of the role "system"`},
		{u + "," + a, "", "", "", `ends with a message of the role "assistant"`},
		{u + "," + s, "", "", "", `ends with a message of the role "system"`},
		{u + "," + s + "," + u, "", "", "", `in message 2 the role "system"`},
		{s + "," + s + "," + u, "", "", "", "in message 2 the role"},
		{`{"role":"user","content":" "}`, "", "", "", "ends with a message"}, {"", "", "", "", "no list of messages"},
		{u + `,{"role":"tool","content":"x"},` + u, "", "", "", `in message 2 the role "tool"`},
		{u + `,{"role":7,"content":"x"}`, "", "", "", `in message 2 no text as "role"`},
		{`{"role":"user"}`, "", "", "", `in message 1 no text as "content"`},
		{`{"role":"user","content":null}`, "", "", "", `no text as "content"`},
		{`{"role":"user","content":["x"]}`, "", "", "", `no text as "content"`},
	} {
		x, err := conversation(json.RawMessage("[" + c.list + "]"))
		if c.says != "" {
			expect.Error(t, err, c.says)
			continue
		}
		system, before := "", []string{}
		if x.system != nil {
			system = *x.system
		}
		for _, m := range x.before {
			before = append(before, m.Role)
		}
		if err != nil || x.question != c.question || system != c.system || strings.Join(before, " ") != c.before {
			t.Errorf("%s: %+v, %v", c.list, x, err)
		}
	}
}

// TestNotes checks what chat says about itself, and after which commands.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		do                  func(c *chatter) error
		fresh, embedded     bool
		conversation, wants string
	}{
		{func(c *chatter) error { c.sayConversations(); return nil },
			true, false, "new", "a new conversation: /conversation keep"},
		{func(c *chatter) error { c.sayConversations(); return nil }, false, false, "", ""},
		{func(c *chatter) error { return c.setConversation(t.Context(), "new") },
			false, false, "", "each question starts a new"},
		{func(c *chatter) error { return c.setConversation(t.Context(), "keep") },
			true, false, "", "the conversation goes on"},
		{func(c *chatter) error { return c.setConversation(t.Context(), "") },
			true, false, "", "each question starts a new"},
		{func(c *chatter) error { return c.setConversation(t.Context(), "x") },
			true, false, "", "error: must be keep or new"},
		{func(c *chatter) error { return c.set(t.Context(), "") }, false, false, "", "temperature 0.5, top-p "},
		{func(c *chatter) error { return c.set(t.Context(), "top-k") },
			false, false, "", "temperature 0.5, top-p "},
		{func(c *chatter) error { return c.set(t.Context(), "topk 3") }, false, false, "", "error: did you mean top-k?"},
		{func(c *chatter) error { return c.set(t.Context(), "zzzzzz") }, false, false, "", "error: unknown: see /help"},
		{func(c *chatter) error { return c.set(t.Context(), "top_k x") },
			false, false, "", `error: top-k "x": must be a whole number`},
		{func(c *chatter) error { return c.set(t.Context(), "min-p x") },
			false, false, "", `error: min-p "x": must be a number`},
		{func(c *chatter) error { return c.showExamples(t.Context(), "") },
			false, false, "", "error: there are none for this model"},
		{func(c *chatter) error { return c.showExamples(t.Context(), "") }, false, true, "", "\n  3  "},
	} {
		var notes strings.Builder
		chat := &chatter{options: defaults(), notes: &notes, fresh: c.fresh, embedded: c.embedded}
		chat.settings.Temperature = 0.5
		chat.conversation = c.conversation
		err := c.do(chat)
		said := notes.String()
		if err != nil {
			said = "error: " + err.Error()
		}
		word, isError := strings.CutPrefix(c.wants, "error: ")
		if isError != (err != nil) || !strings.Contains(said, word) || c.wants == "" && said != "" {
			t.Errorf("%q, want %q", said, c.wants)
		}
		for i, example := range chat.examples {
			if !strings.Contains(said, example) || chat.example(string(rune('1'+i))) != example {
				t.Errorf("example %d is %q", i+1, example)
			}
		}
		if chat.example("0")+chat.example("4")+chat.example("x") != "" {
			t.Error("there are only three examples")
		}
	}
}
