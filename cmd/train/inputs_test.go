package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestColumnsOfData checks which --data a --columns belongs to.
func TestColumnsOfData(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b1.json", "b2.json"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("[]"), 0o666))
	}
	t.Chdir(dir)
	x, y := "instruction=q,output=a", "instruction=u,output=v"
	for _, c := range []struct {
		args, want string // what each dataset has, and String, separated by |
		err        string
	}{
		{"", defaultData + "|", ""},
		{"--columns " + x, defaultData + " " + x + "|" + x, ""},
		{"--data a.json", "a.json|", ""},
		{"--data a.json --columns " + x, "a.json " + x + "|" + x, ""},
		{"--columns " + x + " --data a.json", "a.json " + x + "|" + x, ""},
		{"--data a.json --columns " + x + " --data b1.json", "a.json " + x + "|b1.json|" + x + "; -", ""},
		{"--data a.json --data b1.json --columns " + x, "a.json|b1.json " + x + "|-; " + x, ""},
		{"--data a.json --columns " + x + " --data b1.json --columns " + y,
			"a.json " + x + "|b1.json " + y + "|" + x + "; " + y, ""},
		{"--columns " + x + " --data a.json --data b1.json --columns " + y,
			"a.json " + x + "|b1.json " + y + "|" + x + "; " + y, ""},
		{"--columns " + x + " --data a.json --data b1.json", "a.json " + x + "|b1.json " + x + "|" + x, ""},
		{"--data b*.json --columns " + x, "b1.json " + x + "|b2.json " + x + "|" + x, ""},
		{"--data a.json --columns " + x + " --data a.json --columns " + y,
			"a.json " + x + "|a.json " + y + "|" + x + "; " + y, ""},
		{"--data a.json --columns " + x + " --columns " + y, "", "--data a.json has it twice"},
		{"--columns " + x + " --columns " + y, "", "given twice before the first --data"},
		{"--data a.json --columns output", "", `"output" names no column`},
		{"--columns=", "", "it is empty"},
	} {
		var said bytes.Buffer
		o, flags := newOptions(&said, &said)
		code, done := flags.Parse(strings.Fields(c.args))
		if c.err != "" {
			if code != cli.Usage || !done || !strings.Contains(said.String(), c.err) {
				t.Errorf("%s: exit %d, %q, want %q", c.args, code, said.String(), c.err)
			}
			continue
		}
		if done {
			t.Errorf("%s: %s", c.args, said.String())
		}
		var got []string
		for _, s := range o.sources() {
			got = append(got, strings.TrimSpace(s.spec+" "+s.columns.String()))
		}
		if s := strings.Join(append(got, o.columns.String()), "|"); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.args, s, c.want)
		}
	}
}

// TestDataForms trains on one file of each form at once: gzip and CSV by a pattern, and columns of its own.
func TestDataForms(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, "q,a\nSo?,It is.\n"); err != nil {
		t.Fatal(err)
	}
	z.Close()
	for name, content := range map[string]string{
		"1.csv": "question,answer\n\"So,\nwhat?\",Yes.\n", "2.csv.gz": packed.String(),
		"3.tsv": "prompt\tresponse\nWhy?\tNo.\n",
	} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	o := must(t, cli.Done, "--model", tinyBase, "--data", filepath.Join(dir, "[13].*sv"), "--data",
		filepath.Join(dir, "*.gz"), "--columns", "instruction=q,output=a", "--dry-run", "--val", "0")
	for _, want := range []string{"1.csv and 3.tsv and 2.csv.gz: 3 rows",
		"columns question, answer; columns prompt, response; columns q, a", "3 examples to train on"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in\n%s", want, o.stdout)
		}
	}
}

// TestTextColumn trains on documents: without a template, with samples that continue them.
func TestTextColumn(t *testing.T) {
	var lines strings.Builder
	for range 20 {
		lines.WriteString(`{"text":"To be, or not to be, that is the question.","id":7}` + "\n")
		lines.WriteString(`{"text":"<|im_end|> Whether 'tis nobler in the mind to suffer","id":8}` + "\n")
	}
	data := expect.File(t, "rows.jsonl", lines.String())
	out := filepath.Join(t.TempDir(), "out")
	o := must(t, cli.Done, "--model", tinyBase, "--data", data, "--out", out, "--benchmark-log", "", "--seq", "64",
		"--max-steps", "2", "--samples", "1")
	for _, want := range []string{"40 rows, plain text, each row a document (text)",
		"raw, which the result is saved with", "written out in 20 rows (1, 3, 5, 7, 9, …; the first is 0)"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in\n%v", want, o)
		}
	}
	// A model that has a template keeps it if asked to.
	o = must(t, cli.Done, "--model", tinyBase, "--data", data, "--template", "chatml", "--dry-run", "--out", out+"2")
	if !strings.Contains(o.stdout, "plain text") || strings.Contains(o.stdout, "which the result is saved with") {
		t.Error(o)
	}
	// Next to conversations, documents change no template, and rows are named in their own file.
	o = must(t, cli.Done, "--model", tinyBase, "--data", rows(t, 5), "--data", data, "--dry-run", "--out", out+"2")
	if !strings.Contains(o.stdout, "; plain text, each row a document (text)") ||
		!strings.Contains(o.stdout, "written out in 20 rows (1 of rows.jsonl, 3 of rows.jsonl") ||
		strings.Contains(o.stdout, "which the result is saved with") {
		t.Error(o)
	}
	config := expect.File(t, "config.json", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":280,`+
		`"hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,`+
		`"max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":true}`)
	o = must(t, cli.Done, "--from-scratch", config, "--data", data, "--out", out+"3", "--benchmark-log", "", "--seq", "32",
		"--max-steps", "1", "--samples", "0")
	if !strings.Contains(o.stderr, "have it continue a text") {
		t.Error(o)
	}
}

// TestAnswersApart trains a model whose template leaves out earlier thoughts: the run says that rows were split.
func TestAnswersApart(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	expect.OK(t, os.CopyFS(base, os.DirFS(tinyBase)))
	template := "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ '<think></think>' if m.role == 'assistant' and " +
		"loop.last }}{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	expect.OK(t, os.WriteFile(filepath.Join(base, "chat_template.jinja"), []byte(template), 0o666))
	turn := func(question, answer string) string {
		return `{"role":"user","content":"` + question + `"},{"role":"assistant","content":"` + answer + `"}`
	}
	data := expect.File(t, "rows.jsonl", `{"messages":[`+turn("So?", "It is.")+`,`+turn("Is it?", "Yes.")+`]}`+"\n"+
		`{"messages":[`+turn("What?", "It.")+`]}`+"\n")
	o := must(t, cli.Done, "--model", base, "--data", data, "--dry-run", "--val", "0", "--out", filepath.Join(base, "out"))
	for _, want := range []string{"2 rows, chat messages (messages)", "3 examples to train on",
		"so 1 row with several answers became 2 examples, one for each answer"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in\n%v", want, o)
		}
	}
}
