package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/infer"
	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever chat reads something, and checks everything that it writes for
// people.
func TestHostileTexts(t *testing.T) {
	hostile.Each(t, func(t *hostile.Test) {
		model := filepath.Join(t.Dir, t.Text)
		if err := os.CopyFS(model, os.DirFS(tinyTuned)); err != nil {
			t.Skip("this file system does not take the name: ", err)
		}
		write := func(name, content string) { t.Write(filepath.Join(t.Text, name), content) }
		all, log := both(t.T)
		look := func(what string, stdin string, args ...string) {
			t.Helper()
			o := invoke(t.T, stdin, args...)
			t.Look(what, o.stdout, o.stderr)
		}
		look("question in a pipe", t.Text+"\n/no such "+t.Text+"\n/save "+filepath.Join(t.Dir,
			t.Text+".json")+"\n/load "+t.Text+"\n", all...)
		look("question as a flag", "", append(all, "--prompt", t.Text)...)
		look("questions of a file", "", append(all, "--prompts", filepath.Join(t.Dir, t.Text+".txt"))...)
		look("value of a flag", "", append(all, "--temperature", t.Text)...)
		look("name of a model", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
		look("name of no model", "", "--base", model+"x", "--only", "base", "--prompt", "x", "--log", "")
		write("README.md", "---\nbase_model: "+strings.NewReplacer("\n", "", "\r", "").Replace(t.Text)+"\n---\n")
		look("base model of a card", "", "--tuned", model, "--prompt", "x", "--log", "")
		write("tokenizer_config.json", `{"chat_template": `+t.JSON+`}`)
		look("chat template", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
		write("config.json", `{"model_type": `+t.JSON+`, "architectures": [`+t.JSON+`]}`)
		look("configuration", "", "--base", model, "--only", "base", "--prompt", "x", "--log", "")
		t.LookAt(log, strings.TrimSuffix(log, ".md")+".jsonl")
	})
}

// TestHostileAnswers does so in an answer that arrives a few bytes at a time and is shown as it grows.
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
				expect.OK(t, c.show("id", replies))
			}
			for _, reply := range replies {
				reply.done = true
			}
			expect.OK(t, c.show("id", replies))
			if found := hostile.Found(out.String(), way.terminal); found != "" {
				t.Errorf("%s, %+v: %s", name, way, found)
			}
			if !strings.Contains(out.String(), "end") {
				t.Errorf("%s: the answer is not shown: %q", name, out.String())
			}
		}
	}
}
