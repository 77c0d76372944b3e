package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/data"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/quality"
	"restyle/tensor"
	"restyle/tokenizer"
)

func TestQuantize(t *testing.T) {
	fewQuestions(t, 32)
	out := filepath.Join(t.TempDir(), "int4")
	var stdout, stderr bytes.Buffer
	args := []string{"starter", out, "--weights", "int4", "--text", "4"}
	if code := run(context.Background(), args, &stdout, &stderr); code != cli.Done {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"model.embed_tokens.weight", "INT8", "model.layers.6.mlp.down_proj.weight", "INT4Z",
		"17 other parameters"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout.String())
		}
	}
	for _, want := range []string{"before", "21.1 MiB", "7.7 MiB", "-63%", "perplexity of the reference answers"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the closing table lacks %q:\n%s", want, stdout.String())
		}
	}
	closing(t, out)
	c, err := hf.OpenModel(out)
	expect.OK(t, err)
	defer c.Close()
	if want := (model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}); !c.Quantization.Equal(want) {
		t.Errorf("the model has %+v: want %+v", c.Quantization, want)
	}
	if base, err := infer.BaseOf(t.Context(), nil, out); base != "starter" || err != nil {
		t.Errorf("the model says that it was made from %q, %v", base, err)
	}
	stderr.Reset()
	again := filepath.Join(t.TempDir(), "again")
	args = []string{out, again, "--weights", "int4"}
	if code := run(context.Background(), args, &stdout, &stderr); code != cli.Failed ||
		!strings.Contains(stderr.String(), "is quantized already") {
		t.Errorf("a quantized model, quantized again: exit code %d: %s", code, stderr.String())
	}
}

// closing asks the model and its original two questions and checks the rows of the closing table, with and without a
// Python that runs the answers.
func closing(t *testing.T, out string) {
	questions, err := data.Questions()
	expect.OK(t, err)
	r, err := options{}.answers(context.Background(), "starter", out, questions[:2], cli.NewStatusLine(io.Discard))
	expect.OK(t, err)
	if len(r.Models) != 2 || r.Models[0].Name != "starter" || r.Models[1].Name != out || r.Questions != 2 {
		t.Fatalf("the report is of %+v", r.Models)
	}
	if was, is := r.Models[0].DType, r.Models[1].DType; was != "BF16" || is != "BF16 with INT4Z weights" {
		t.Errorf("the models have the types %q and %q", was, is)
	}
	c := cost{bytes: [2]float64{4 << 20, 1 << 20}, perplexity: [2]float64{4, 5}, answers: r}
	right := []*int{new(1), new(0)}
	for i := range r.Models {
		r.Models[i].Seen = quality.Metrics{Answers: 1, Right: right[i], Parse: 1, Stop: i}
		r.Models[i].Unseen = quality.Metrics{Answers: 1, Parse: i}
	}
	for python, want := range map[string]string{
		"": "                                     before   after    change\n" +
			"weights                              4.0 MiB  1.0 MiB  -75%\n" +
			"perplexity of the reference answers  4.0000   5.0000   +25.00%\n" +
			"of 2 answers, Python                 1        2        +1\n" +
			"of 2 answers, ended by the model     0        1        +1\n",
		"3.11": "                                     before   after    change\n" +
			"weights                              4.0 MiB  1.0 MiB  -75%\n" +
			"perplexity of the reference answers  4.0000   5.0000   +25.00%\n" +
			"of 2 answers, right                  1        0        -1\n" +
			"of 2 answers, Python                 1        2        +1\n" +
			"of 2 answers, ended by the model     0        1        +1\n",
	} {
		var b bytes.Buffer
		r.Python = python
		if err := c.print(&b); err != nil || b.String() != want {
			t.Errorf("%v, and with a Python %q the closing table is\n%s, want\n%s", err, python, &b, want)
		}
	}
}

func TestUsage(t *testing.T) {
	full := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o666))
	x := filepath.Join(full, "x")
	for want, args := range map[string][]string{
		"1 path:":                   {"starter"},
		"3 paths:":                  {"starter", "--threads", "1", x, "y"},
		"there is no --weights":     {"starter", x},
		"must be int8, int4 or nf4": {"--weights", "int5", "starter", x},
		"gptq or nearest":           {"starter", x, "--weights", "int4", "--rounding", "up"},
		"is not empty":              {"starter", full, "--weights", "int4"},
		"at least 1":                {"starter", x, "--weights", "int4", "--text", "0"},
		"from 1 to 1024":            {"starter", x, "--weights", "int4", "--threads", "99999"},
		"gptq is for int4":          {"starter", x, "--weights", "int8", "--rounding", "gptq"},
		"is for --rounding":         {"starter", x, "--weights", "int8", "--text", "8"},
		"nothing else":              {"starter", x, "--weights", "int4", "--rounding", "nearest", "--text", "8"},
	} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, &stderr, &stderr); code != cli.Usage ||
			!strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d: %s", args, code, stderr.String())
		}
	}
}

// TestOut_UnwritableIsFoundFirst checks that a directory that cannot be written is an error before the work, and that
// probing leaves nothing.
func TestOut_UnwritableIsFoundFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	expect.OK(t, os.WriteFile(file, nil, 0o666))
	for _, out := range []string{file, filepath.Join(file, "below")} {
		var stderr bytes.Buffer
		code := run(context.Background(), []string{"no/such/model", out, "--weights", "int4"}, &stderr, &stderr)
		if code != cli.Failed || !strings.Contains(stderr.String(), "not a directory: choose a directory that can be ") {
			t.Errorf("%s: exit code %d: %s", out, code, stderr.String())
		}
	}
	for _, out := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "a", "b", "c"), dir} {
		if err := probe(out); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestFullDisk_LeavesNothing checks that a run whose disk fills up leaves nothing.
func TestFullDisk_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	defer disk.Watch(func(op string, _ ...string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})()
	var stderr bytes.Buffer
	args := []string{"starter", filepath.Join(dir, "a", "b"), "--weights", "int8"}
	code := run(t.Context(), args, &stderr, &stderr)
	if code != cli.Failed || !strings.Contains(stderr.String(), ": no space left on device") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestTemplateFlag_OwnTemplate quantizes a model that has a named chat template, but no default one.
func TestTemplateFlag_OwnTemplate(t *testing.T) {
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	expect.OK(t, os.CopyFS(in, os.DirFS("../../infer/testdata/tiny/base")))
	config := `{"eos_token": "<|im_end|>", "chat_template": [{"name": "short", "template": "{% for m in messages %}` +
		"[{{ m.role }}]{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}" + `"}]}`
	expect.OK(t, os.WriteFile(filepath.Join(in, "tokenizer_config.json"), []byte(config), 0o666))
	perplexities := map[string]bool{}
	for _, c := range []struct {
		name string
		code int
	}{{"", cli.Usage}, {"long", cli.Usage}, {"short", cli.Done}, {"chatml", cli.Done}} {
		var stdout, stderr bytes.Buffer
		args := []string{in, filepath.Join(out, c.name), "--weights", "int4", "--rounding", "nearest"}
		if c.name != "" {
			args = append(args, "--template", c.name)
		}
		code := run(context.Background(), args, &stdout, &stderr)
		if code != c.code || (c.code == cli.Usage) != strings.Contains(stderr.String(), "export: --template: ") {
			t.Errorf("%q: exit code %d: %s", c.name, code, stderr.String())
		}
		_, text, _ := strings.Cut(stdout.String(), "perplexity of the reference answers")
		perplexities[text] = true
	}
	if len(perplexities) != 3 { // one is of those that printed none
		t.Errorf("the templates make no difference: %v", perplexities)
	}
	c, err := hf.OpenModel(filepath.Join(out, "chatml"))
	expect.OK(t, err)
	defer c.Close()
	if len(c.Tokenizer.ChatTemplates) != 1 || c.Tokenizer.ChatTemplate != "" {
		t.Errorf("the copy has the templates %v", c.Tokenizer.ChatTemplates)
	}
}

// TestMissingCharacters_RefuseGPTQAndQuality quantizes a model whose vocabulary lacks characters of the texts: GPTQ and
// --quality, which need them, are refused before the work, and anything else leaves out the perplexity.
func TestMissingCharacters_RefuseGPTQAndQuality(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	in := saved(t, d, configs["llama"]).Name
	const characters = "0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnop" // one per embedding
	vocabulary, err := tokenizer.Characters(slices.Values([]string{characters}))
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(in, "tokenizer.json"), vocabulary, 0o666))
	const lacks = "the model's vocabulary lacks the character"
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--weights int4 --text 1", cli.Usage, "--rounding gptq cannot be calibrated with the starter dataset: " + lacks},
		{"--weights int4 --text 1", cli.Usage, ": use --rounding nearest"},
		{"--weights int8 --quality", cli.Usage, "--quality: the model cannot be asked the held-out questions: " + lacks},
		{"--weights int8", cli.Done, "perplexity is not measured: " + lacks},
		{"--weights int4 --rounding nearest", cli.Done, "perplexity is not measured: " + lacks},
		{"--weights int4", cli.Failed, "has no tokenizer.json"},
		{"--weights int4 --rounding nearest", cli.Done, "has no tokenizer.json"},
	} {
		if c.want == "has no tokenizer.json" {
			os.Remove(filepath.Join(in, "tokenizer.json"))
		}
		out := filepath.Join(t.TempDir(), "out")
		var said bytes.Buffer
		code := run(t.Context(), append([]string{in, out}, strings.Fields(c.flags)...), &said, &said)
		if code != c.code || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: exit code %d: %s", c.flags, code, &said)
		}
		if _, err := os.Stat(filepath.Join(out, "model.safetensors")); (err == nil) != (code == cli.Done) {
			t.Errorf("%s: exit code %d, and the model: %v", c.flags, code, err)
		}
		if base, err := infer.BaseOf(t.Context(), nil, out); code == cli.Done && (base != in || err != nil) {
			t.Errorf("%s: the model says that it was made from %q, not %s; %v", c.flags, base, in, err)
		}
	}
}

// TestStopped_WritesNothing checks that an interrupted run writes nothing.
func TestStopped_WritesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	out := filepath.Join(t.TempDir(), "out")
	var stderr bytes.Buffer
	if code := run(ctx, []string{"starter", out, "--weights", "int4"}, &stderr, &stderr); code != cli.Stopped {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an interrupted run made the directory")
	}
}

// whileMeasuring is a context that is done once a file exists.
type whileMeasuring struct {
	context.Context
	file string
}

func (c whileMeasuring) Err() error {
	if _, err := os.Stat(c.file); err == nil {
		return context.Canceled
	}
	return nil
}

// TestStoppedMeasuring checks that a run that is interrupted while it measures leaves a complete model.
func TestStoppedMeasuring(t *testing.T) {
	fewQuestions(t, 32)
	out := filepath.Join(t.TempDir(), "out")
	ctx := whileMeasuring{t.Context(), filepath.Join(out, "model.safetensors")}
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"starter", out, "--weights", "int4", "--text", "1"}, &stdout, &stderr)
	if code != cli.Stopped || !strings.Contains(stderr.String(), out+" is complete, but not everything ") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	for want, times := range map[string]int{"INT4Z": 0, "weights ": 1, "perplexity": 0, "try it: ": 1} {
		if n := strings.Count(stdout.String(), want); n != times {
			t.Errorf("the output has %q %d times: want %d:\n%s", want, n, times, stdout.String())
		}
	}
	c, err := hf.OpenModel(out)
	expect.OK(t, err)
	defer c.Close()
	if want := (model.Quantization{Layers: tensor.INT4Z, Head: tensor.INT8}); !c.Quantization.Equal(want) {
		t.Errorf("the model has %+v: want %+v", c.Quantization, want)
	}
}
