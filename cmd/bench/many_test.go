package main

import (
	"fmt"
	"strings"
	"testing"

	"restyle/internal/cli"
)

// TestMany compares one GPU with what docs/bench/gpu.md measured, and checks the rows of the table and what is refused.
func TestMany(t *testing.T) {
	for _, x := range []struct {
		shape        string
		rate, memory float64 // tokens/s; GiB
		row          string  // what 8 GPUs keep, GiB, and send, GB: a gradient of 3.0 GB, weights of 2.5
	}{
		{"8x2048", 72100, 32.1, "| 8 | ZeRO-1 | 29.1 | 4.8 |"},
		{"4x512", 63700, 13.0, "| 8 | ZeRO-1 | 10.0 | 4.8 |"},
	} {
		code, stdout, stderr := bench(t, "many", "--config", "llama-3.2-1b", "--gpus", "1,8", "--shape", x.shape)
		lines := strings.Split(stdout, "\n")
		var tokens, rate, memory float64
		_, err := fmt.Sscanf(lines[0],
			"llama-3.2-1b, simulated: %f tokens a GPU and step, %f tokens/s and %f GiB on one GPU", &tokens, &rate, &memory)
		if code != cli.Done || err != nil || len(lines) != 2+2+8+2 || !strings.Contains(stdout, x.row) {
			t.Fatalf("exit %d, %v, %s\n%s", code, err, stderr, stdout)
		}
		// One number of TFLOP/s is used for both shapes; the page has three digits.
		if rate < 0.99*x.rate || rate > 1.01*x.rate || memory != x.memory {
			t.Errorf("%s: %v tokens/s in %v GiB; measured were %v in %v", x.shape, rate, memory, x.rate, x.memory)
		}
	}
	for args, want := range map[string]string{
		"--gpus 0":                      `--gpus "0": must be`,
		"--gather 89":                   `--gather "89": must be two numbers`,
		"--gather 1,100":                "must be faster than 16 MiB, and take longer",
		"--hops 1,+Inf":                 "--hops",
		"--recompute attention":         "must be none or layer",
		"--config small --shape 1x9000": "more tokens than the model's 8192 positions",
	} {
		if code, _, stderr := bench(t, append([]string{"many"}, strings.Fields(args)...)...); code != cli.Usage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s; want %q", args, code, stderr, want)
		}
	}
}
