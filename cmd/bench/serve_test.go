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

// TestServe times the tiny model, and in float32 compares its answers with llama.cpp's: they are the same.
func TestServe(t *testing.T) {
	args := []string{"serve", "--device", "cpu", "--threads", "1", "--prompt", "9", "--answer", "4", "--times", "2",
		"--sequences", "1, 3"}
	code, stdout, stderr := bench(t, append(args, "--model", tinyBase, "--quantize", "int8", "--arrivals", "3",
		"--temperature", "1", "--top-p", "0.9")...)
	if code != cli.Done || stderr != "" || strings.Count(stdout, "\n| restyle | ") != 2 ||
		strings.Count(stdout, "\nfirst token: alone after ") != 2 {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	dir := expect.Reference(t, "golden-next", "gguf", "llama_text")
	file := filepath.Join(dir, "f32.gguf")
	llamacpptest.Open(t, file, llamacpp.Options{}) // skips the test without it
	code, stdout, stderr = bench(t, append(args, "--model", dir, "--dtype", "fp32", "--beside", file)...)
	for _, want := range []string{"\n| llama.cpp ", "\n1: restyle is ", "\n3: restyle is ",
		"; 12 of 12 tokens are the same"} {
		if code != cli.Done || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %s, no %q in\n%s", code, stderr, want, stdout)
		}
	}
}

func TestServe_Refuses(t *testing.T) {
	t.Setenv("RESTYLE_LLAMACPP", "")
	model := " --device cpu --model " + tinyBase
	refuses(t, "serve", cli.Usage, map[string]string{
		"":                           "name a model with --model, or one with random weights with --config",
		model + " --config small":    "name a model with --model, or",
		model + " --answer 1":        "--answer 1: must be a number from 2 to ",
		model + " --dtype f8":        `--dtype "f8": must be `,
		model + " --quantize int8x8": `--quantize "int8x8": must be `,
		model + " --sequences 1,x":   `--sequences "1,x": must be numbers from 1 to `,
		model + " --top-p 2":         "top-p 2: must be",
		model + " --temperature 1 --beside x.gguf": "--temperature with --beside: llama.cpp",
	})
	refuses(t, "serve", cli.Failed, map[string]string{
		model + " --prompt 100000":                       "pool: sequences of 100128 tokens",
		model + " --prompt 2 --answer 2 --beside x.gguf": "--beside: llama.cpp cannot be asked: RESTYLE_LLAMACPP",
	})
}
