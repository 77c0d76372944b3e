package main

import (
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/llamacpp"
	"restyle/internal/llamacpp/llamacpptest"
)

func TestDecode(t *testing.T) {
	code, stdout, stderr := bench(t, "decode", "--model", tinyBase, "--prompt", "5", "--answer", "3", "--times",
		"2", "--device", "cpu", "--quantize", "int8")
	if code != cli.Done || stderr != "" || !strings.Contains(stdout, "a prompt of 5 tokens, an answer of 3\n") ||
		!strings.Contains(stdout, "\n| restyle, BF16 int8 | ") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

// TestDecode_BesideLlamaCPP checks that both programs run the same model: in float32, their tokens agree.
func TestDecode_BesideLlamaCPP(t *testing.T) {
	dir := expect.Reference(t, "golden-next", "gguf", "llama_text")
	file := filepath.Join(dir, "f32.gguf")
	llamacpptest.Open(t, file, llamacpp.Options{}) // skips the test without it
	args := []string{"decode", "--model", dir, "--dtype", "fp32", "--threads", "1", "--device", "cpu", "--prompt", "9",
		"--answer", "4", "--times", "2", "--beside"}
	code, stdout, stderr := bench(t, append(args, file)...)
	for _, want := range []string{"\n| restyle, F32 | ", "\n| llama.cpp ", "\nprompt: restyle is ",
		"\nanswer: restyle is ",
		"\nthe first 4 of 4 tokens are the same\n"} {
		if code != cli.Done || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %s, no %q in\n%s", code, stderr, want, stdout)
		}
	}
	other := filepath.Join(dir, "../llama_k/q4_k_m.gguf")
	if code, _, stderr := bench(t, append(args, other)...); code != cli.Failed ||
		!strings.Contains(stderr, "tokens in its vocabulary, but the model has ") {
		t.Errorf("another model: exit %d, %s", code, stderr)
	}
}

func TestDecode_Refuses(t *testing.T) {
	t.Setenv("RESTYLE_LLAMACPP", "")
	model := " --device cpu --model " + tinyBase
	refuses(t, "decode", cli.Usage, map[string]string{
		"":                                     "--model: name a model",
		model + " --answer 0":                  "--answer 0: must be a number from 1 to ",
		model + " --dtype f8":                  `--dtype "f8": must be `,
		model + " --quantize q4_0":             `--quantize "q4_0": must be `,
		model + " --prompt 9999999 --answer 1": "--prompt 9999999",
	})
	refuses(t, "decode", cli.Failed, map[string]string{
		model + " --prompt 100000":                       "--prompt and --answer are 100128 tokens, but the model has ",
		model + " --prompt 2 --answer 2 --beside x.gguf": "--beside: llama.cpp cannot be asked: RESTYLE_LLAMACPP",
	})
}
