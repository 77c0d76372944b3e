package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever chat reads something, and looks at all that it writes for people.
func TestHostileTexts(t *testing.T) {
	for name, text := range hostile.Texts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			model := filepath.Join(dir, text)
			copyModel := func(from string) {
				t.Helper()
				if err := os.CopyFS(model, os.DirFS(from)); err != nil {
					t.Skip("this file system does not take the name: ", err)
				}
			}
			write := func(name, content string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(model, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			copyModel(tinyTuned)
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			all, log := both(t)
			look := func(what string, stdin string, args ...string) {
				t.Helper()
				o := invoke(t, stdin, args...)
				for _, output := range []string{o.stdout, o.stderr} {
					if found := hostile.Found(output, false); found != "" {
						t.Errorf("%s: %s", what, found)
					}
				}
			}
			look("question in a pipe", text+"\n/no such "+text+"\n/save "+filepath.Join(dir, text+".json")+"\n/load "+text+"\n", all...)
			look("question as a flag", "", append(all, "--prompt", text)...)
			look("questions of a file", "", append(all, "--prompts", filepath.Join(dir, text+".txt"))...)
			look("value of a flag", "", append(all, "--temperature", text)...)
			look("name of a model", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
			look("name of no model", "", "--base", model+"x", "--only", "base", "--prompt", "x", "--log", "")
			write("README.md", "---\nbase_model: "+strings.NewReplacer("\n", "", "\r", "").Replace(text)+"\n---\n")
			look("base model of a card", "", "--tuned", model, "--prompt", "x", "--log", "")
			write("tokenizer_config.json", `{"chat_template": `+string(quoted)+`}`)
			look("chat template", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
			write("config.json", `{"model_type": `+string(quoted)+`, "architectures": [`+string(quoted)+`]}`)
			look("configuration", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
			for _, file := range []string{log, strings.TrimSuffix(log, ".md") + ".jsonl"} {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if found := hostile.Found(string(b), false); found != "" {
					t.Errorf("%s: %s", filepath.Base(file), found)
				}
			}
		})
	}
}

// TestHostileAnswers: an answer arrives a few bytes at a time and is shown as it grows.
func TestHostileAnswers(t *testing.T) {
	for name, text := range hostile.Texts {
		for _, way := range []struct {
			sides    int
			terminal bool
		}{{1, false}, {2, false}, {1, true}, {2, true}} {
			sides, size := way.sides, func() (width, height int) { return 100, 24 }
			var out bytes.Buffer
			c := &chatter{out: &out, notes: &out, terminal: way.terminal}
			var replies []*reply
			for i := range sides {
				s := &side{label: []string{"base", "tuned"}[i], engine: &infer.Engine{Name: "model " + text}}
				c.sides = append(c.sides, s)
				replies = append(replies, &reply{side: s, answer: &answer{Reason: "stop"}})
			}
			c.display = c.pickDisplay(&out, size)
			for r := range strings.SplitSeq(strings.ToValidUTF8(text, "\u009b")+" end\n", "") {
				for _, reply := range replies {
					reply.text.WriteString(r)
				}
				if err := c.show("id", replies); err != nil {
					t.Fatal(err)
				}
			}
			for _, reply := range replies {
				reply.done = true
			}
			if err := c.show("id", replies); err != nil {
				t.Fatal(err)
			}
			if found := hostile.Found(out.String(), way.terminal); found != "" {
				t.Errorf("%s, %+v: %s", name, way, found)
			}
			if !strings.Contains(out.String(), "end") {
				t.Errorf("%s: the answer is not shown: %q", name, out.String())
			}
		}
	}
}
