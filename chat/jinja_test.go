package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// proven has the SHA-256 of each of our own templates that TestJinja2 has shown to write what Render writes.
var proven = map[string]string{
	"llama3":       "696ddd8b0a62861d8debcd0b906f4a07d16aaf93145a6e40657e496cf764bade",
	"llama3.1":     "643e743eb5f9fc8d1ffb751006058f0343b02645275b737e89aab7d02dad9649",
	"llama3.2":     "7a1da22fcee73f87372f2f43fe50122a544f6d299f0135392514f2f6d3f0e734",
	"chatml":       "ed4184dbda54f94e04f4d8dbda2a35c50a66cee56d74642797c666a3e9a75748",
	"qwen2.5":      "7f5f67ecfce0da6bc8d5311539fd7e32cfd395f19d71a3f4e537824f91acf2b3",
	"qwen3":        "16905f33ff503732fa4bf81902166b93cbbbccc2eca9a30e7e2c4addd32e9ccd",
	"smollm2":      "f832d07916ec24aac3815e4a83cfe17e4d66a72ebbd86f2bb112357e5f7990d5",
	"zephyr":       "daeb822c740a18b8a0882eb4535e48a850e649057392c3400667e1124582d106",
	"mistral-v0.3": "877e55d1c5559b1107ad23c786a9d4a04681db8c151c81b0b61dd387b19f74d8",
	"gemma":        "03ef23de4111dbb1626f9f638ad1a29246ad489a2be98364169fd26d38445fe5",
	"raw":          "4cfb6c1b6fcb6fd075d7560969a48a00a9be296a44f5f75497f025a374614923",
	"raw with BOS": "219593965eb7a8589cb89dd0aa52f08dae081be8abc37e02a09981c2634944d7",
}

// TestJinja checks that Detect recognizes our own templates, and that none has changed since TestJinja2 last compared
// it.
func TestJinja(t *testing.T) {
	for _, f := range templates {
		if got, err := Detect(f.Jinja()); err != nil || got.Name != f.Name {
			t.Errorf("%s is detected as %q, %v", f.Name, got.Name, err)
		}
		if sum := hash(f.Jinja()); sum != proven[f.Name] {
			t.Errorf("%s has sha256 %s: run TestJinja2 with RESTYLE_PYTHON, a Python with Jinja2, and then write it into proven",
				f.Name, sum)
		}
	}
	raw := Raw()
	raw.BOS = "<s>"
	if got, err := Detect(raw.Jinja()); err != nil || got.Name != "raw" || hash(raw.Jinja()) != proven["raw with BOS"] {
		t.Errorf("raw with BOS is detected as %q, %v, sha256 %s", got.Name, err, hash(raw.Jinja()))
	}
}

// TestJinja2 has Jinja2 render all recorded conversations with our own templates, including those of raw. It checks
// that Jinja2 writes the same texts as Render and refuses the same conversations. It needs a Python with Jinja2.
func TestJinja2(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var g golden
		var bare struct{ Messages, Options json.RawMessage }
		if err := errors.Join(json.Unmarshal(line, &g), json.Unmarshal(line, &bare)); err != nil {
			t.Fatal(err)
		}
		f, err := ByName(g.Family)
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
