package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/lora"
	"restyle/trainer"
)

// TestLoRA_ResumesAfterKill trains adapters beside quantized weights to the end, and again with a kill in between. Both
// leave the same adapter, for the base that they name, and nothing of the base's weights.
func TestLoRA_ResumesAfterKill(t *testing.T) {
	args := func(out string) []string {
		return small(t, out, "--lora", "r=3,alpha=6,targets=q_proj+v_proj+down_proj", "--lora-also", "norm",
			"--quantize-base", "int8", "--save-every", "2", "--max-steps", "9", "--samples", "0")
	}
	dir := t.TempDir()
	whole, cut := filepath.Join(dir, "whole"), filepath.Join(dir, "cut")
	o := must(t, cli.Done, args(whole)...)
	for _, says := range []string{"parameters of adapters, beside", "layers in INT8", "whole modules (model.norm)"} {
		if !strings.Contains(o.stdout, says) {
			t.Errorf("want %q in %s", says, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "merge it into its base: ") {
		t.Error(o.stderr)
	}
	c := begin(t, command(args(cut)...))
	c.until(t, "step 6")
	_ = c.Process.Kill()
	_ = c.Wait()
	must(t, cli.Done, append(args(cut), "--resume")...)

	const weights = "adapter_model.safetensors"
	if !bytes.Equal(readFile(t, filepath.Join(whole, weights)), readFile(t, filepath.Join(cut, weights))) {
		t.Error("after a kill the adapter is another")
	}
	a, err := hf.OpenAdapter(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, _, ok := a.Spec.Of("model.layers.1.self_attn.v_proj"); !ok || !a.Spec.Whole("model.norm.weight") {
		t.Errorf("%+v", a.Spec)
	}
	base, err := hf.OpenModel(tinyBase)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	digest, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
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

// TestLoRA_Refusals gives flags of adapters that nothing can do.
func TestLoRA_Refusals(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for flags, want := range map[string]string{
		"--lora r=0":                                     "must be 1",
		"--lora targets=q_proj+nothing":                  `no module "nothing"`,
		"--lora targets=embed_tokens":                    "adapters of model.embed_tokens",
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

// TestLoRA_BesideGGUF trains adapters beside the blocks of a GGUF file. The adapter names the file, and both answer
// together.
func TestLoRA_BesideGGUF(t *testing.T) {
	base, err := hf.OpenModel(tinyBase)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	tensors, err := hf.Merge{Base: base}.Tensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mix, err := gguf.ParseMix("q4_k_m") // of rows of 32 and 64: Q5_0 and Q8_0
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, out := filepath.Join(dir, "tiny.gguf"), filepath.Join(dir, "out")
	if _, err := hf.SaveGGUF(file, base, tensors, hf.GGUFOptions{Mix: mix}); err != nil {
		t.Fatal(err)
	}
	o := must(t, cli.Done, small(t, out, "--model", file, "--lora", "r=3", "--max-steps", "9", "--samples", "0")...)
	if !strings.Contains(o.stdout, "BF16, weights in Q5_0 and Q8_0") {
		t.Errorf("the types are not named: %s", o.stdout)
	}
	c, a, err := models.OpenTuned(t.Context(), nil, out, "")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer c.Close()
	record, err := infer.RecordOf(a)
	if digest, wrong := c.Digest(); err != nil || wrong != nil || record.Base != file || record.Digest != digest {
		t.Errorf("%v, %v: the record is %+v, of %s with digest %s", err, wrong, record, file, digest)
	}
	dev, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e, err := infer.Load(t.Context(), dev, c, infer.OpenOptions{Adapter: a})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if !strings.Contains(e.Types(), "Q5_0") {
		t.Errorf("the model has %s", e.Types())
	}
}
