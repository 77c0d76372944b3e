package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/lora"
	"restyle/trainer"
)

// TestLoRA_ResumesAfterKill trains adapters next to quantized weights to the end, and again with a kill in between, and
// then one of them further, the same way. Both leave the same adapter, for the base that they name, and nothing of the
// base's weights.
func TestLoRA_ResumesAfterKill(t *testing.T) {
	args := func(out string, more ...string) []string {
		return small(t, out, append(more, "--lora", "r=3,alpha=6,targets=q_proj+v_proj+down_proj,dropout=0.1", "--lora-also",
			"norm", "--quantize-base", "int8", "--save-every", "2", "--max-steps", "9", "--samples", "0")...)
	}
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	o := must(t, cli.Done, args(whole)...)
	for _, says := range []string{"parameters of adapters, beside", "layers in INT8", "whole modules (model.norm)"} {
		if !strings.Contains(o.stdout, says) {
			t.Errorf("want %q in %s", says, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "merge it into its base: ") {
		t.Error(o.stderr)
	}
	killed := func(cut, whole string, more ...string) {
		c := begin(t, command(args(cut, more...)...))
		c.until(t, "step 6")
		_ = c.Process.Kill()
		_ = c.Wait()
		must(t, cli.Done, append(args(cut, more...), "--resume")...)
		const weights = "adapter_model.safetensors"
		if !bytes.Equal(readFile(t, filepath.Join(whole, weights)), readFile(t, filepath.Join(cut, weights))) {
			t.Errorf("%s: after a kill the adapter is another", cut)
		}
	}
	killed(filepath.Join(dir, "cut"), whole)
	further := filepath.Join(dir, "further")
	must(t, cli.Done, args(further, "--model", whole)...)
	killed(filepath.Join(dir, "further-cut"), further, "--model", whole)
	o = must(t, cli.Failed, append(args(further, "--model", further+"-cut"), "--max-steps", "12", "--resume")...)
	if !strings.Contains(o.stderr, "not be the same run: adapter was ") {
		t.Error(o)
	}

	a, err := hf.OpenAdapter(whole)
	expect.OK(t, err)
	defer a.Close()
	if _, _, ok := a.Spec.Of("model.layers.1.self_attn.v_proj"); !ok || !a.Spec.Whole("model.norm.weight") {
		t.Errorf("%+v", a.Spec)
	}
	base, err := hf.OpenModel(tinyBase)
	expect.OK(t, err)
	defer base.Close()
	digest, err := base.Digest()
	expect.OK(t, err)
	want := infer.AdapterRecord{Base: trainer.BaseName(base), Digest: digest, QuantizedBase: "INT8"}
	var got infer.AdapterRecord
	if err := json.Unmarshal(a.Record, &got); err != nil || got != want {
		t.Errorf("%s (%v), want %+v", a.Record, err, want)
	}
	if _, err := os.Stat(filepath.Join(whole, "model.safetensors")); err == nil {
		t.Error("the base's weights are saved")
	}
	card := string(readFile(t, filepath.Join(whole, "README.md")))
	for _, says := range []string{"library_name: peft", "PeftModel.from_pretrained", "| adapters | r=3,alpha=6,"} {
		if !strings.Contains(card, says) {
			t.Errorf("want %q in %s", says, card)
		}
	}
}

// TestLoRA_TrainsFurther trains adapters, and then trains these further. With a learning rate of 0 the result is what
// it started as, bit for bit.
func TestLoRA_TrainsFurther(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.gguf")
	saveGGUF(t, file)
	for i, c := range []struct{ first, flags, says string }{
		{"--lora", "", "r=16,alpha=32,targets="},
		{"--lora r=3,rslora,dropout=0.1,r:q_proj=5", "--lora r=3,dropout=0.1", "rslora,dropout=0.1,r:q_proj=5"},
		{"--lora targets=q_proj+v_proj --quantize-base int8", "--lora", "layers in INT8"},
		{"--lora layers=1 --quantize-base nf4", "--quantize-base int8", "layers in INT8"},
		{"--lora r=2,alpha=4 --train-only norm", "--lora r=2", "also="},
		{"--lora r=2 --lora-also norm", "--freeze norm", "also=norm"},
		{"--lora r=2 --lora-also embed_tokens", "--lora-also norm", "also=embed_tokens+lm_head"},
		{"--lora r=2 --freeze layers.0", "", "exclude=model.layers.0.self_attn.q_proj+"},
		{"--lora r=2,unmatch=.*up_proj --freeze layers.0", "--lora r=2", "targets=model.layers.1.self_attn.q_proj+"},
		{"--lora r=2 --model " + file, "", "weights in Q5_0 and Q8_0"},
	} {
		name := filepath.Join(dir, fmt.Sprint(i))
		args := func(out, flags string, more ...string) []string {
			return small(t, out, append(strings.Fields(flags), append(more, "--samples", "0", "--val", "0")...)...)
		}
		must(t, cli.Done, args(name, c.first, "--max-steps", "3")...)
		o := must(t, cli.Done, args(name+"-on", "--model "+name+" "+c.flags, "--max-steps", "1", "--lr", "0")...)
		for _, says := range []string{name + ", which is trained further: r=", c.says} {
			if !strings.Contains(o.stdout, says) {
				t.Errorf("%s: want %q in %s", c.first, says, o.stdout)
			}
		}
		was, is := adapterIn(t, name), adapterIn(t, name+"-on")
		for _, tensor := range was.Names() {
			before, _, err := was.ReadF32(tensor)
			after, _, err2 := is.ReadF32(tensor)
			if err != nil || err2 != nil || !slices.Equal(before, after) {
				t.Errorf("%s: %s is another, %v, %v", c.first, tensor, err, err2)
			}
		}
	}
	expect.InCache(t, map[string]string{"owner/adapter": filepath.Join(dir, "0")})
	o := must(t, cli.Done, small(t, filepath.Join(dir, "hub"), "--model", "owner/adapter", "--max-steps", "1")...)
	must(t, cli.Done, small(t, filepath.Join(dir, "hub-int8"), "--model", "owner/adapter", "--max-steps", "1",
		"--quantize-base", "int8")...)
	if want := "owner/adapter, which is trained further: r=16"; !strings.Contains(o.stdout, want) {
		t.Errorf("want %q: %v", want, o)
	}
	for _, c := range []struct{ flags, want string }{
		{"--model %s/0 --lora r=8", "--lora r=8: the adapter %s/0 has r=16,alpha=32,targets="},
		{"--model %s/0 --lora alpha=16", "--lora alpha=16: the adapter"},
		{"--model %s/0 --lora dropout=0.1", "--lora dropout=0.1: the adapter"},
		{"--model %s/0 --lora none", "--lora none: the adapter"},
		{"--model %s/0 --freeze q_proj", "leave out model.layers.0.self_attn.q_proj, of which %s/0 has an adapter"},
		{"--model %s/0 --bnb", "leave bnb or lora out"},
		{"--model %s/0 --out %s", "--out %s: contains --model %s/0"},
		{"--model %s/0 --base " + file, "another base"},
		{"--base %s/0", "--base is for adapters"},
		{"--model %s/9 --out %s", "--out %s: contains --model %s/9"},
		{"--model %s/9 --quantize-base int8", "the model is quantized already"},
	} {
		flags, want := strings.ReplaceAll(c.flags, "%s", dir), strings.ReplaceAll(c.want, "%s", dir)
		o := invoke(t, small(t, filepath.Join(dir, "refused"), strings.Fields(flags)...)...)
		if o.code == cli.Done || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: want %q: %v", flags, want, o)
		}
	}
}

func adapterIn(t *testing.T, dir string) *hf.Adapter {
	t.Helper()
	a, err := hf.OpenAdapter(dir)
	expect.OK(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

// TestLoRA_Refusals gives flags of adapters that nothing can do.
func TestLoRA_Refusals(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for flags, want := range map[string]string{
		"--lora r=0":                                     "must be 1",
		"--lora targets=q_proj+nothing":                  `no module "nothing"`,
		"--lora targets=embed_tokens":                    "adapters of model.embed_tokens",
		"--lora exclude=q_proj+nothing":                  "exclude=nothing means none",
		"--lora --lora-also lm_head":                     "embed_tokens, which trains both",
		"--lora --lora-also nothing":                     `no module "nothing"`,
		"--lora --lora-also q_proj --quantize-base int8": "q_proj.weight",
		"--lora --freeze layers":                         "none of the model's linear layers",
		"--lora --bnb":                                   "leave bnb or lora out",
		"--quantize-base int8":                           "set lora",
		"--lora-also lm_head":                            "needs lora",
		"--lora --from-scratch " + tinyBase:              "leave one out",
	} {
		o := must(t, cli.Usage, small(t, out, strings.Fields(flags)...)...)
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%s: want %q in %s", flags, want, o.stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%s: something was written", flags)
		}
	}
	if s := lora.Default().String(); !strings.Contains(must(t, cli.Done, "-h").stdout, "r=16") ||
		!strings.Contains(s, "r=16") {
		t.Error("the help does not say the defaults")
	}
}

// TestLoRA_BesideGGUF trains adapters next to the blocks of a GGUF file. The adapter names the file, and both answer
// together.
func TestLoRA_BesideGGUF(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "tiny.gguf"), filepath.Join(dir, "out")
	saveGGUF(t, file)
	o := must(t, cli.Done, small(t, out, "--model", file, "--lora", "r=3", "--max-steps", "9", "--samples", "0")...)
	if !strings.Contains(o.stdout, "BF16, weights in Q5_0 and Q8_0") {
		t.Errorf("the types are not named: %s", o.stdout)
	}
	c, a, err := models.OpenTuned(t.Context(), nil, out, "")
	expect.OK(t, err)
	defer a.Close()
	defer c.Close()
	record, err := infer.RecordOf(a)
	if digest, wrong := c.Digest(); err != nil || wrong != nil || record.Base != file || record.Digest != digest {
		t.Errorf("%v, %v: the record is %+v, of %s with digest %s", err, wrong, record, file, digest)
	}
	dev, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer dev.Close()
	e, err := infer.Load(t.Context(), dev, c, infer.OpenOptions{Adapter: a})
	expect.OK(t, err)
	defer e.Close()
	if !strings.Contains(e.Types(), "Q5_0") {
		t.Errorf("the model has %s", e.Types())
	}
}

// saveGGUF saves the tiny base as a GGUF file.
func saveGGUF(t *testing.T, file string) {
	t.Helper()
	base, err := hf.OpenModel(tinyBase)
	expect.OK(t, err)
	defer base.Close()
	tensors, err := hf.Merge{Base: base}.Tensors(t.Context())
	expect.OK(t, err)
	mix, err := gguf.ParseMix("q4_k_m") // of rows of 32 and 64: Q5_0 and Q8_0
	expect.OK(t, err)
	if _, err := hf.SaveGGUF(file, base, tensors, hf.GGUFOptions{Mix: mix}); err != nil {
		t.Fatal(err)
	}
}
