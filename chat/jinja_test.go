package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"

	"restyle/internal/expect"
)

// proven has the SHA-256 of each of our own templates that TestJinja_WritesWhatJinja2Does has shown to write what
// Render writes.
var proven = map[string]string{
	"llama3":       "9e78e8306911f46c9fa3900cc226fc7634485fc6ed7b0331e1e324858b57d715",
	"llama3.1":     "6ab6f2ab8f282cba2c5b73c79c74adf55b17faace415c4eedbe728b5090057ec",
	"llama3.2":     "9a486153e4dc922621f0f70e1ccb3510964645290d04e0b894c05bac979b3717",
	"chatml":       "11dd0f3038b7d015294d204248d9d87352bbad2b4e1ccfcb4201c398e42b16b4",
	"qwen2.5":      "ab9147545bb62a5635c36b37fd619224d5fc40fe3355e7e2f8776c6188f70e43",
	"qwen3":        "ebd2d2fdd93bc4e7233bff3f6f88d36f1feb3b09e19b1118d87e1eefc47c918e",
	"smollm2":      "660abe8d04428a77ae39d1cea1b55c27a5d5eb77fb347b932c067387350e30a8",
	"zephyr":       "915471a7f7f552ac723e9842ea3551ec2c8a82502b05a9292d962e4814bdd868",
	"mistral-v0.3": "877e55d1c5559b1107ad23c786a9d4a04681db8c151c81b0b61dd387b19f74d8",
	"gemma":        "49f18c278b89b6595386a2127490fb22b89bb732323db1a2d656bddffc873236",
	"raw":          "117d253d73c79017f73e5b9bc9b2d0d22d5f8c1a6a02697859af5ad818ebd148",
	"raw with BOS": "ec6137cefa0e04830a1b6cf5d28c2de4fd0bdefc5b21559aa4061dbd731427c6",
}

// TestJinja_DetectsOwnTemplates checks that Detect recognizes our own templates, and that none has changed since
// TestJinja_WritesWhatJinja2Does last compared it.
func TestJinja_DetectsOwnTemplates(t *testing.T) {
	for _, f := range templates {
		if got, err := Detect(f.Jinja()); err != nil || got.Name != f.Name {
			t.Errorf("%s is detected as %q, %v", f.Name, got.Name, err)
		}
		if sum := hash(f.Jinja()); sum != proven[f.Name] {
			t.Errorf("%s has sha256 %s: run TestJinja_WritesWhatJinja2Does with RESTYLE_PYTHON, a Python with Jinja2, and "+
				"then write it into proven",
				f.Name, sum)
		}
	}
	raw := Raw()
	raw.BOS = "<s>"
	if got, err := Detect(raw.Jinja()); err != nil || got.Name != "raw" || hash(raw.Jinja()) != proven["raw with BOS"] {
		t.Errorf("raw with BOS is detected as %q, %v, sha256 %s", got.Name, err, hash(raw.Jinja()))
	}
}

// TestJinja_WritesWhatJinja2Does has Jinja2 render all recorded conversations with our own templates, including those
// of raw. It checks that Jinja2 writes the same texts as Render and refuses the same conversations. It needs a Python
// with Jinja2.
func TestJinja_WritesWhatJinja2Does(t *testing.T) {
	python := os.Getenv("RESTYLE_PYTHON")
	if python == "" {
		t.Skip("RESTYLE_PYTHON does not name a Python with Jinja2")
	}
	type job struct {
		Family, Jinja, BOS, EOS string
		Messages, Options       json.RawMessage
		Text                    *string // nil if it is refused
		Reason                  string
	}
	var jobs []job
	add := func(f Template, g golden, messages, options json.RawMessage) {
		j := job{f.Name, f.Jinja(), f.BOS, f.EOS, messages, options, nil, ""}
		r, err := f.Render(g.Messages, g.options(t))
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			j.Reason = refused.Reason
		} else if err != nil {
			t.Fatal(err)
		} else {
			if f.Name == "raw" { // Render leaves the BOS to the tokenizer
				r.Text = f.BOS + r.Text
			}
			j.Text = &r.Text
		}
		jobs = append(jobs, j)
	}
	data, err := os.ReadFile("testdata/goldens.jsonl")
	expect.OK(t, err)
	for line := range bytes.Lines(data) {
		var g golden
		var bare struct{ Messages, Options json.RawMessage }
		expect.OK(t, errors.Join(json.Unmarshal(line, &g), json.Unmarshal(line, &bare)))
		f, err := ByName(g.Family)
		expect.OK(t, err)
		add(f, g, bare.Messages, bare.Options)
		if g.Family == "chatml" { // once is enough
			raw := Raw()
			raw.EOS = "</s>"
			add(raw, g, bare.Messages, bare.Options)
			raw.BOS = "<s>"
			add(raw, g, bare.Messages, bare.Options)
		}
	}
	input, err := json.Marshal(jobs)
	expect.OK(t, err)
	cmd := exec.Command(python, "-c", `
import json, sys
sys.path.insert(0, "testdata")
import make
for j in json.load(sys.stdin):
    try:
        got = make.render(j["Jinja"], j["BOS"], j["EOS"], j["Messages"], j["Options"])
        wrong = got != j["Text"]
    except make.jinja2.exceptions.UndefinedError as e:
        got, wrong = e, j["Text"] is not None
    except make.jinja2.exceptions.TemplateError as e:
        got, wrong = e, str(e) != j["Reason"]
    if wrong:
        print(j["Family"], j["Messages"], repr(got), "want", repr(j["Text"]), j["Reason"])
`)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(len(jobs), "renderings")
}
