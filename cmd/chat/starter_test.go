package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// made returns a copy of the tiny model that says in a file what it was made from.
func made(t *testing.T, file, base string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	expect.OK(t, os.CopyFS(dir, os.DirFS(tinyTuned)))
	expect.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(base), 0o666))
	return dir
}

// TestQuestions_ShareAConversation checks which questions share a conversation: of models that were made from the
// embedded one and of others, with flags and commands, in sessions and files.
func TestQuestions_ShareAConversation(t *testing.T) {
	tuned := made(t, "run.json", `{"base_model": "starter"}`)
	checkpoint := filepath.Join(tuned, "checkpoints", "best-000010")
	expect.OK(t, os.CopyFS(checkpoint, os.DirFS(tinyTuned)))
	quantized := made(t, "export.json", fmt.Sprintf(`{"base_model": %q}`, tuned))
	circle := filepath.Join(t.TempDir(), "made") // it says that it was made from itself
	expect.OK(t, os.CopyFS(circle, os.DirFS(made(t, "run.json", "{}"))))
	os.WriteFile(filepath.Join(circle, "run.json"), fmt.Appendf(nil, `{"base_model": %q}`, circle), 0o666)
	file := filepath.Join(t.TempDir(), "p.json")
	os.WriteFile(file, []byte(`[{"prompt": "Count to ten.", "id": 7}, {"prompt": "Who are you?", "system": "S"},
		{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
			{"role": "user", "content": "Who are you?"}]}]`), 0o666)
	const twice = "Count to ten.\nWho are you?\n"
	const plain = "each question starts a new conversation: /"
	for _, c := range []struct {
		model string
		flags []string
		stdin string
		turns []int
		says  string // besides the line about the embedded model
	}{
		{tuned, nil, twice, []int{1, 2}, ""},
		{checkpoint, nil, twice, []int{1, 2}, ""},
		{quantized, nil, twice, []int{1, 2}, ""},
		{circle, nil, twice, []int{1, 2}, ""},
		{tinyTuned, nil, twice, []int{1, 2}, ""},
		{tuned, []string{"--conversation", "keep"}, twice, []int{1, 2}, ""},
		{tinyTuned, []string{"--conversation", "new"}, twice, []int{1, 1}, plain},
		{tuned, nil, "Who are you?\n/conversation keep\n" + twice + "/conversation new\nWho are you?\n",
			[]int{1, 2, 3, 1}, "the conversation goes on with each question"},
		{tuned, nil, "Who are you?\n/regen\n/edit Count to ten.\n/regen\n", []int{1, 1, 1, 1}, ""},
		{tinyTuned, []string{"--prompts", file}, "", []int{1, 1, 2}, "p.json: not used: id\n"},
		{tuned, []string{"--prompts", file}, "", []int{1, 1, 2}, "p.json: not used: id\n"},
		{tinyTuned, []string{"--prompts", file, "--conversation", "keep"}, "", []int{1, 2, 2}, ""},
	} {
		log := filepath.Join(t.TempDir(), "log.md")
		o := invoke(t, c.stdin, append(c.flags, "--tuned", c.model, "--only", "tuned", "--max-tokens", "4", "--log", log)...)
		var turns []int
		for _, e := range readEvents(t, jsonlPath(log)) {
			if e.Event == "ask" {
				turns = append(turns, e.Turn)
				if (e.System == "S") != (len(turns) == 2 && c.stdin == "") || (len(e.Before) == 2) != (len(turns) == 3 &&
					c.stdin == "") {
					t.Errorf("%+v: %+v", c, e)
				}
			}
		}
		scope := c.model != tinyTuned && c.model != circle
		if o.code != cli.Done || !slices.Equal(turns, c.turns) || !strings.Contains(o.stderr, c.says) ||
			strings.Contains(o.stderr, "made from "+data.StarterScope+"\n") != scope ||
			c.says == "" && strings.Contains(o.stderr, "conversation") {
			t.Errorf("%+v: turns %v, %v", c, turns, o)
		}
	}
	o := invoke(t, "", "--tuned", tuned, "--only", "tuned", "--raw", "--prompts", file, "--log", "")
	if o.code != cli.Usage || !strings.Contains(o.stderr, "--raw has no place for a system prompt, as question 2 of "+
		"--prompts has one") {
		t.Errorf("%v", o)
	}
}

// TestSavedConversations writes down what /save saves after each command of a session that has every sequence of three
// commands: all conversations since /clear, each with the system prompt that it was answered with.
func TestSavedConversations(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	var want [][][]string
	type state struct {
		earlier       [][]string
		now           []string // the system prompt, then the questions
		system, asked string
		fresh, listed bool // listed: the last question is among them
	}
	var s state
	end := func() { // the end of a conversation
		if len(s.now) > 1 {
			s.earlier = append(slices.Clip(s.earlier), s.now)
		}
		s.now, s.listed = nil, false
	}
	answered := func(question string) {
		s.now = append([]string{s.system}, append(slices.Clip(s.now[min(1, len(s.now)):]), question)...)
		s.asked, s.listed = question, true
	}
	for i, kind := range expect.Sequences("aAeErcsnk", 3) {
		question, long := fmt.Sprintf("Question %d?", i), strings.Repeat("word ", 500)+fmt.Sprint(i)
		switch before := s; kind {
		case 'a', 'A', 'e', 'E':
			failing, edit := kind == 'A' || kind == 'E', kind == 'e' || kind == 'E'
			if failing {
				question = long
			}
			if lines = append(lines, map[bool]string{true: "/edit "}[edit]+question); edit && s.asked == "" {
				break
			}
			if edit && s.listed {
				s.now = slices.Clone(s.now[:len(s.now)-1])
			}
			if s.fresh {
				end()
			}
			if answered(question); failing && edit {
				s = before
			} else if failing {
				s.now, s.listed = before.now, false
				if s.fresh {
					s.now = nil
				}
			}
			s.asked = question
		case 'r':
			if lines = append(lines, "/regen"); s.listed {
				s.now[0] = s.system // of the new answer
			}
		case 'c':
			lines = append(lines, "/clear")
			s.earlier, s.now, s.asked, s.listed = nil, nil, "", false
		case 's':
			s.system = []string{"", fmt.Sprint("Be brief ", i)}[i%2]
			lines = append(lines, fmt.Sprintf("/system %q", s.system))
		default:
			s.fresh = kind == 'n'
			lines = append(lines, "/conversation "+map[rune]string{'n': "new", 'k': "keep"}[kind])
		}
		lines = append(lines, fmt.Sprintf("/save %s/%d.json", dir, i))
		want = append(want, slices.Clone(s.earlier))
		if len(s.now) > 1 || s.earlier == nil {
			want[i] = append(want[i], slices.Clone(s.now))
		}
	}
	o := invoke(t, strings.Join(lines, "\n"), "--tuned", tinyTuned, "--only", "tuned", "--max-tokens", "1", "--log", "")
	for i, want := range want {
		if got := savedQuestions(t, fmt.Sprintf("%s/%d.json", dir, i)); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %q: %q, want %q\n%s", lines[max(0, 2*i-20):2*i+2], got, want, o.stderr)
		}
	}
}

// savedQuestions returns the system prompt and the questions of each conversation in a file that /save wrote.
func savedQuestions(t *testing.T, path string) (all [][]string) {
	t.Helper()
	type conversation struct{ Messages []chat.Message }
	var saved struct {
		Tuned struct {
			conversation
			Conversations []conversation
		}
	}
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, path)), &saved))
	if saved.Tuned.Conversations == nil {
		saved.Tuned.Conversations = []conversation{saved.Tuned.conversation}
	}
	for _, c := range saved.Tuned.Conversations {
		var said []string
		for i, m := range c.Messages {
			if i == 0 && m.Role != "system" {
				said = []string{""}
			}
			if m.Role != "assistant" {
				said = append(said, m.Content)
			}
		}
		all = append(all, said)
	}
	return all
}

// TestExamplesCommand checks that /examples shows three questions, others the next time, and that a number asks one of
// them, but only then.
func TestExamplesCommand(t *testing.T) {
	known, err := data.Examples()
	expect.OK(t, err)
	asked := func(model, stdin string) (questions []string, o outcome) {
		log := filepath.Join(t.TempDir(), "log.md")
		o = invoke(t, stdin, "--tuned", model, "--only", "tuned", "--max-tokens", "2", "--log", log)
		for _, e := range readEvents(t, jsonlPath(log)) {
			if e.Event == "ask" {
				questions = append(questions, e.Question)
			}
		}
		return questions, o
	}
	tuned := made(t, "run.json", `{"base_model": "starter"}`)
	first, o := asked(tuned, "2\n/examples\n2\n3\n4\n/examples\n1\n/examples\n2\n")
	again, _ := asked(tuned, "2\n/examples\n2\n3\n4\n/examples\n1\n/examples\n2\n")
	if o.code != cli.Done || len(first) != 6 || first[0] != "2" || first[3] != "4" || !slices.Equal(first, again) {
		t.Errorf("%q, then %q, %v", first, again, o)
	}
	shown := []string{first[1], first[2], first[4], first[5]}
	for i, q := range shown {
		if slices.Index(shown, q) != i || !strings.Contains(o.stderr, "  "+q+"\n") ||
			!slices.ContainsFunc(known, func(k data.Question) bool { return dataset.Question(k.Instruction, k.Input) == q }) {
			t.Errorf("%q is shown twice, or not at all, or is no held-out question: %v", q, o)
		}
	}
	if other, _ := asked(tuned, "/seed 1\n/examples\n2\n"); len(other) != 1 || other[0] == first[1] {
		t.Errorf("with another seed: %q", other)
	}
	if q, o := asked(tinyTuned, "/examples\n1\n"); o.code != cli.Failed || !slices.Equal(q, []string{"1"}) ||
		!strings.Contains(o.stderr, "/examples: there are none for this model") {
		t.Errorf("%q, %v", q, o)
	}
}
