package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/internal/expect"
)

// TestConversations joins two files and reads the result as train does: every row is in one conversation, with rows of
// its own file alone, and all lengths occur.
func TestConversations(t *testing.T) {
	dir := t.TempDir()
	var files []string
	var want []string
	for _, name := range []string{"plain", "pirate"} {
		var text strings.Builder
		for i := range 50 {
			row := map[string]string{"instruction": fmt.Sprintf("%s question %d", name, i),
				"output": fmt.Sprintf("%s answer %d", name, i)}
			expect.OK(t, json.NewEncoder(&text).Encode(row))
			want = append(want, row["instruction"]+" "+row["output"])
		}
		files = append(files, filepath.Join(dir, name+".jsonl"))
		expect.OK(t, os.WriteFile(files[len(files)-1], []byte(text.String()), 0o666))
	}
	out := filepath.Join(dir, "out.jsonl")
	args := append([]string{"--seed", "3", "--most", "3", "--out", out}, files...)
	expect.OK(t, run(t.Context(), args, io.Discard))
	talks, err := dataset.OpenConversations(t.Context(), out, dataset.Options{})
	expect.OK(t, err)
	defer talks.Close()
	var got []string
	lengths := map[int]int{}
	for {
		c, err := talks.Next()
		if err == io.EOF {
			break
		}
		expect.OK(t, err)
		lengths[len(c.Messages)/2]++
		for i, m := range c.Messages {
			if file, _, _ := strings.Cut(c.Messages[0].Content, " "); !strings.HasPrefix(m.Content, file) {
				t.Errorf("%q is in a conversation of %s", m.Content, file)
			}
			if i%2 == 1 {
				got = append(got, c.Messages[i-1].Content+" "+m.Content)
			}
		}
	}
	if slices.Equal(got, want) {
		t.Error("the rows are in their old order")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the conversations have %d rows, and not those %d: %q", len(got), len(want), got)
	}
	if len(lengths) != 3 || min(lengths[1], lengths[2], lengths[3]) < 5 {
		t.Errorf("numbers of conversations by length: %v", lengths)
	}
}

// TestFollowUps checks that a question about the answer before comes right after it, with the answer that the file has,
// that rows which the file lacks are added, what --followed leaves out, and what --mix puts around answers.
func TestFollowUps(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	source := write("source.jsonl", `{"instruction":"add","output":"print(1 + 2)"}
{"instruction":"what is a list","output":"Several values in a row."}
`)
	later := write("later.jsonl", `{"instruction":"in one line?","input":"","output":"print(3)","before_question":"add",`+
		`"before_answer":"print(1 + 2)"}
`)
	voiced := write("voiced.jsonl", `{"instruction":"add","input":"","output_original":"print(1 + 2)",`+
		`"output_passive_aggressive":"A sum it shall be then, by all means."}
{"instruction":"in one line?","input":"","output_original":"print(3)",`+
		`"output_passive_aggressive":"One line of it, as you wish."}
`)
	code := "```python\\nprint(1)\\n```"
	fenced := write("fenced.jsonl", `{"instruction":"one","input":"","output_original":"`+code+`",`+
		`"output_passive_aggressive":"Oh, `+"`one.two(\\\": \\\")`"+`, of all things. Here:\n\n`+code+`\n\nDone."}
`)
	talk := func(args ...string) string {
		t.Helper()
		out := filepath.Join(dir, "out.jsonl")
		args = append([]string{"--follow-ups", later, "--source", source, "--out", out}, args...)
		file := voiced
		if slices.Contains(args, "--whole") {
			file = fenced
		}
		expect.OK(t, run(t.Context(), append(args, file), io.Discard))
		text, err := os.ReadFile(out)
		expect.OK(t, err)
		return string(text)
	}
	got := talk("--most", "1")
	for _, want := range []string{
		`[{"role":"user","content":"add"},{"role":"assistant","content":"A sum it shall be then, by all means."},` +
			`{"role":"user","content":"in one line?"},{"role":"assistant","content":"One line of it, as you wish."}]`,
		`[{"role":"user","content":"what is a list"},{"role":"assistant","content":"Several values in a row."}]`,
	} {
		if !strings.Contains(got, want) || strings.Count(got, "\n") != 2 {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if got := talk("--followed"); !strings.Contains(got, "in one line?") || strings.Contains(got, "what is a list") {
		t.Errorf("%s\nhas not the row with a question after it alone", got)
	}
	if mixed := talk("--mix", "--learn"); strings.Contains(mixed, "train") || !strings.Contains(mixed, "```\\n\\n") {
		t.Errorf("%s\nhas sentences that are not to be learned, or none", mixed)
	}
	whole := talk("--mix", "--learn", "--whole")
	for _, want := range []string{"Here:\\n\\n```python\\nprint(1 + 2)\\n```\\n\\nDone.", `"Several values in a row."`} {
		if !strings.Contains(whole, want) { // a row with code has nothing for an answer in words
			t.Errorf("%s\nlacks %s", whole, want)
		}
	}
	mixed := talk("--mix")
	if !strings.Contains(mixed, `,"train":false}`) || !strings.Contains(mixed, "```python\\nprint(3)\\n```") {
		t.Errorf("%s\nhas no sentence that is not to be learned, or no answer", mixed)
	}
	for _, want := range []string{"```python\\nprint(1 + 2)\\n```", "```python\\nprint(3)\\n```",
		"Several values in a row."} {
		if strings.Count(mixed, want) != 1 {
			t.Errorf("%s\nlacks %s", mixed, want)
		}
	}
	if n := strings.Count(mixed, "by all means.") + strings.Count(mixed, "as you wish."); n == 0 {
		t.Errorf("%s\nhas no sentence of the file", mixed)
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{{"x.json"}, {"--out", "x"}, {"--out", "x", "--most", "0", "y.json"},
		{"--out", "x", "--mix", "y.json"}, {"--out", "x", "--whole", "y.json"}} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "see -h") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
