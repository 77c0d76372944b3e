package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/data"
	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// made returns a copy of the tiny model that says in a file what it was made from.
func made(t *testing.T, file, base string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	if err := os.CopyFS(dir, os.DirFS(tinyTuned)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(base), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConversations checks which questions share a conversation: of models that were made from the embedded one and of
// others, with flags and commands, in sessions and files.
func TestConversations(t *testing.T) {
	tuned := made(t, "run.json", `{"base_model": "starter"}`)
	checkpoint := filepath.Join(tuned, "checkpoints", "best-000010")
	if err := os.CopyFS(checkpoint, os.DirFS(tinyTuned)); err != nil {
		t.Fatal(err)
	}
	quantized := made(t, "quantize.json", fmt.Sprintf(`{"base_model": %q}`, tuned))
	circle := filepath.Join(t.TempDir(), "made") // it says that it was made from itself
	if err := os.CopyFS(circle, os.DirFS(made(t, "run.json", "{}"))); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(circle, "run.json"), fmt.Appendf(nil, `{"base_model": %q}`, circle), 0o666)
	file := filepath.Join(t.TempDir(), "p.json")
	os.WriteFile(file, []byte(`[{"prompt": "Count to ten.", "id": 7}, {"prompt": "Who are you?", "system": "S"},
		{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
			{"role": "user", "content": "Who are you?"}]}]`), 0o666)
	const twice = "Count to ten.\nWho are you?\n"
	const because = "each question starts a new conversation, because this model"
	const plain = "each question starts a new conversation: /"
	for _, c := range []struct {
		model string
		flags []string
		stdin string
		turns []int
		says  string // besides the line about the embedded model
	}{
		{tuned, nil, twice, []int{1, 1}, because},
		{checkpoint, nil, twice, []int{1, 1}, because},
		{quantized, nil, twice, []int{1, 1}, because},
		{circle, nil, twice, []int{1, 2}, ""},
		{tinyTuned, nil, twice, []int{1, 2}, ""},
		{tuned, []string{"--conversation", "keep"}, twice, []int{1, 2}, ""},
		{tinyTuned, []string{"--conversation", "new"}, twice, []int{1, 1}, plain},
		{tuned, nil, "Who are you?\n/conversation keep\n" + twice + "/conversation new\nWho are you?\n",
			[]int{1, 2, 3, 1}, "the conversation goes on with each question"},
		{tuned, nil, "Who are you?\n/regen\n/edit Count to ten.\n/regen\n", []int{1, 1, 1, 1}, because},
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

// TestSavedConversations checks that /save writes all conversations since /clear.
func TestSavedConversations(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "talk.json")
	o := invoke(t, "Who are you?\n/clear\nCount to ten.\nWho are you?\n/regen\n/save "+saved+"\n", "--tuned", tinyTuned,
		"--only", "tuned", "--conversation", "new", "--max-tokens", "4", "--log", "")
	var talk struct {
		Tuned struct {
			Conversations []struct{ Messages []struct{ Content string } }
		}
	}
	if err := json.Unmarshal([]byte(expect.Read(t, saved)), &talk); err != nil || !strings.Contains(o.stderr,
		saved+": 2 turns") {
		t.Errorf("%v, %v", err, o)
	}
	all := talk.Tuned.Conversations
	if len(all) != 2 || len(all[0].Messages) != 2 || all[0].Messages[0].Content != "Count to ten." ||
		len(all[1].Messages) != 2 || all[1].Messages[0].Content != "Who are you?" {
		t.Errorf("%+v", all)
	}
}

// TestExamples checks that /examples shows three questions, others the next time, and that a number asks one of them,
// but only then.
func TestExamples(t *testing.T) {
	known, err := data.Examples()
	if err != nil {
		t.Fatal(err)
	}
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
