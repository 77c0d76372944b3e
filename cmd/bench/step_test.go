package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
)

// tinyConfig is the config.json of a model that trains in an instant.
const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}`

func TestStep(t *testing.T) {
	dir := t.TempDir()
	config, log := filepath.Join(dir, "config.json"), filepath.Join(dir, "log.csv")
	if err := os.WriteFile(config, []byte(tinyConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := run(context.Background(), []string{"step", "--model", config, "--shapes", "1x8x2, 2x16", "--fused", "both", "--steps", "2", "--warmup", "0",
		"--train-only", "mlp", "--log", log, "--device", "cpu"}, &out, &errs)
	if code != cli.Done {
		t.Fatalf("%d: %s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"1x8x2 standard mlp: ", "1x8x2 fused mlp: ", "2x16x1 standard mlp: ", "2x16x1 fused mlp: "} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) || !strings.Contains(lines[i], ", loss 4.") { // log 64 is 4.16
			t.Errorf("line %d is not one of %q:\n%s", i, want, out.String())
		}
	}
	rows, err := os.ReadFile(log)
	if err != nil || strings.Count(string(rows), "\n") != 5 || strings.Count(string(rows), ",fused,") != 2 {
		t.Errorf("%s, %v", rows, err)
	}
}

func TestStepRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--shapes 4", `--shapes: "4" is no shape`},
		{"--shapes 4x0", `"0" is no number`},
		{"--shapes 1x200000", "the model has 131072 positions"},
		{"--fused some", "--fused: "},
		{"--steps 0", "--steps 0"},
		{"--master x", `--master "x"`},
		{"--optimizer sgd", `--optimizer "sgd"`},
		{"--dtype f16", `--dtype "f16"`},
		{"--recompute all", `--recompute "all"`},
		{"--train-only nothing", "--train-only: "},
		{"--model nowhere", "--model: "},
	} {
		var out, errs strings.Builder
		if code := run(context.Background(), append([]string{"step"}, strings.Fields(c.args)...), &out, &errs); code != cli.Usage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d, %s", c.args, code, errs.String())
		}
	}
}
