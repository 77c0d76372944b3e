package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/data"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// randomAdapter saves a random adapter of a model, and returns its directory and the model's greedy answer to a
// question in F32, with the adapter next to its weights, as in training.
func randomAdapter(t *testing.T, base, question string, o hf.AdapterOptions) (dir, answer string) {
	t.Helper()
	c, err := models.Open(t.Context(), nil, base)
	expect.OK(t, err)
	defer c.Close()
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	spec := lora.Spec{Rank: 4, Alpha: 8, Targets: lora.Targets{AllLinear: true}}
	m, err := model.New(d, c.Config, model.Options{DType: tensor.F32, Adapter: spec.Of})
	expect.OK(t, err)
	defer m.Close()
	r := rand.New(rand.NewPCG(3, 4))
	var of []model.Param
	for _, p := range m.Params() {
		if !p.Adapter {
			of = append(of, p)
			continue
		}
		values := make([]float32, p.W.Len())
		for i := range values {
			values[i] = float32(r.NormFloat64() / 10)
		}
		d.Upload(p.W, values)
	}
	expect.OK(t, c.Load(t.Context(), d, of, nil))
	dir = filepath.Join(t.TempDir(), "adapter")
	expect.OK(t, hf.SaveAdapter(dir, spec, d, m.Params(), o))
	codec, err := infer.CodecOf(c, "")
	expect.OK(t, err)
	e, err := infer.NewWithCodec(m, codec, 0)
	expect.OK(t, err)
	defer e.Close()
	prompt, err := e.Prompt([]chat.Message{{Role: "user", Content: question}}, 0)
	expect.OK(t, err)
	g, err := e.Start(prompt.IDs, infer.Options{MaxTokens: 12})
	expect.OK(t, err)
	for g.Next(t.Context()) {
		answer += g.Text()
	}
	return dir, answer
}

// TestAdapter_AnswersAsInTraining compares the greedy answer with an adapter, which chat merges into the embedded
// model, to the answer of the model that has it next to its weights.
func TestAdapter_AnswersAsInTraining(t *testing.T) {
	if _, err := data.StarterModel(); err != nil {
		t.Skip(err)
	}
	const question = "How do I reverse a list?"
	dir, want := randomAdapter(t, data.StarterName, question, hf.AdapterOptions{BaseModel: data.StarterName})
	ask := func(args ...string) outcome {
		return invoke(t, "", append(args, "--prompt", question, "--temperature", "0", "--dtype", "fp32", "--max-tokens",
			"12", "--log", "")...)
	}
	o, plain := ask("--tuned", dir, "--only", "tuned"), ask("--base", data.StarterName, "--only", "base")
	if o.code != cli.Done || want == "" || !strings.HasPrefix(o.stdout, strings.TrimRight(want, "\n")) ||
		o.stdout == plain.stdout || !strings.Contains(o.stderr, dir+" on starter, F32, ") ||
		!strings.Contains(o.stderr, "made from "+data.StarterScope) {
		t.Errorf("want %q, and without the adapter %q: %v", want, plain.stdout, o)
	}
	if o := ask("--tuned", dir, "--quantize", "int8"); o.code != cli.Done ||
		!strings.Contains(o.stderr, dir+" on starter, F32 with INT8 weights, ") ||
		!strings.Contains(o.stderr, "base   starter, F32 with INT8 weights, ") {
		t.Errorf("%v", o)
	}
}

// TestAdapter_FindsItsBase asks adapters with what they record, and what the flags name, of their base.
func TestAdapter_FindsItsBase(t *testing.T) {
	c, err := hf.OpenModel(tinyBase)
	expect.OK(t, err)
	defer c.Close()
	digest, err := c.Digest()
	expect.OK(t, err)
	adapter, _ := randomAdapter(t, tinyBase, "x", hf.AdapterOptions{})
	parent := filepath.Dir(adapter)
	here, err := filepath.Abs(tinyBase)
	expect.OK(t, err)
	const unchecked = "cannot be checked: no digest is recorded"
	for _, test := range []struct {
		base, record, flags string
		code                int
		want                []string
	}{
		{here, "", "", cli.Done, []string{adapter + " on " + here, unchecked}},
		{"../base", "", "", cli.Done, []string{adapter + " on " + parent + "/base", unchecked}},
		{"", `"base_model": "` + here + `"`, "", cli.Done, []string{" on " + here, unchecked}},
		{"no/such", `"base_digest": "` + digest + `"`, "--base " + tinyBase, cli.Done, []string{" on " + tinyBase}},
		{here, `"quantized_base": "INT8"`, "", cli.Done, []string{" on " + here + ", BF16 with INT8 weights"}},
		{here, `"quantized_base": "NF4"`, "", cli.Done, []string{" on " + here + ", BF16 with NF4 weights"}},
		{here, `"quantized_base": "INT3"`, "", cli.Failed, []string{`"INT3": restyle has no such weights`}},
		{here, `"base_model": "b", "base_digest": "123"`, "--base " + tinyTuned, cli.Failed,
			[]string{"was trained on another base: that was b with digest 123, and " + tinyTuned + " has digest ",
				"its own base with --base"}},
		{"", "", "", cli.Usage, []string{"does not name its base model: say where it is with --base"}},
		{parent + "/gone", "", "", cli.Usage, []string{"is not there any more: say where it is with --base"}},
		{"no/such", "", "", cli.Failed, []string{"the base of adapter ", "if it is elsewhere, say where with --base"}},
		{".", "", "", cli.Failed, []string{"the base of adapter ", "is an adapter, not a whole model"}},
		{"starter", "", "", cli.Failed, []string{"it belongs to another base"}},
		{here, "", "--only base --base " + adapter, cli.Failed,
			[]string{"--base: " + adapter + " is an adapter, not a whole model: chat and bench quality take it as --tuned"}},
	} {
		name := fmt.Sprint(test.base, test.record, test.flags)
		if _, err := data.StarterModel(); err != nil && test.base == "starter" {
			continue
		}
		write := func(file, text string) {
			expect.OK(t, os.WriteFile(filepath.Join(adapter, file), []byte(text), 0o666))
		}
		_ = os.RemoveAll(filepath.Join(parent, "base"))
		if test.base == "../base" {
			expect.OK(t, os.CopyFS(filepath.Join(parent, "base"), os.DirFS(tinyBase)))
		}
		text, err := os.ReadFile(filepath.Join(adapter, "adapter_config.json"))
		expect.OK(t, err)
		at := strings.Index(string(text), `"base_model_name_or_path":`)
		end := at + strings.Index(string(text[at:]), "\n")
		write("adapter_config.json", fmt.Sprintf("%s\"base_model_name_or_path\": %q,%s", text[:at], test.base, text[end:]))
		write("restyle_adapter.json", "{"+test.record+"}")
		args := append([]string{"--tuned", adapter, "--prompt", "x", "--max-tokens", "1", "--log", ""},
			strings.Fields(test.flags)...)
		if !strings.Contains(test.flags, "--only") {
			args = append(args, "--only", "tuned")
		}
		o := invoke(t, "", args...)
		if o.code != test.code || test.code != cli.Done && strings.Count(o.stderr, "\n") > 3 {
			t.Errorf("%s: %v", name, o)
		}
		for _, want := range test.want {
			if strings.Count(o.stderr, want) != 1 {
				t.Errorf("%s: %q is not there once: %v", name, want, o)
			}
		}
	}
}

// TestAdapter_OnTheHub asks an adapter in the hub's cache and the base that it names there.
func TestAdapter_OnTheHub(t *testing.T) {
	adapter, _ := randomAdapter(t, tinyBase, "x", hf.AdapterOptions{BaseModel: "owner/base"})
	nameless, _ := randomAdapter(t, tinyBase, "x", hf.AdapterOptions{})
	expect.InCache(t, map[string]string{"owner/adapter": adapter, "owner/base": tinyBase, "owner/nameless": nameless})
	for name, want := range map[string]string{
		"owner/adapter":  "\ntuned  owner/adapter on owner/base",
		"owner/nameless": "owner/nameless does not name its base model: set --base\n",
	} {
		o := invoke(t, "", "--tuned", name, "--prompt", "x", "--max-tokens", "1", "--log", "")
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%s: want %q: %v", name, want, o)
		}
	}
}
