package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
	"restyle/internal/expect"
	"restyle/trainer"
	"restyle/trainer/report"
)

// counted is what a run of 18 steps has done.
type counted struct {
	steps       []trainer.Step
	evaluations []trainer.Evaluation
	checkpoints int
	weights     []byte // of the last checkpoint
	o           outcome
}

// counting trains the tiny model, two epochs of nine steps, and counts.
func counting(t *testing.T, flags ...string) (c counted) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	args := small(t, out, "--schedule", "constant", "--samples", "0")
	if slices.Contains(flags, "--from-scratch") {
		args = args[2:] // without --model
	}
	c.o = must(t, cli.Done, append(args, flags...)...)
	path := filepath.Join(out, "metrics.jsonl")
	steps, err := report.ReadMetrics[trainer.Step](path)
	expect.OK(t, err)
	c.steps = slices.DeleteFunc(steps, func(s trainer.Step) bool { return s.Examples == 0 })
	if c.evaluations, err = report.ReadMetrics[trainer.Evaluation](path); err != nil {
		t.Fatal(err)
	}
	c.evaluations = slices.DeleteFunc(c.evaluations, func(e trainer.Evaluation) bool {
		return e.Loss == 0 && len(e.Samples) == 0
	})
	saved, err := filepath.Glob(filepath.Join(out, "checkpoints", "step-*"))
	if err != nil || len(saved) == 0 {
		t.Fatal(saved, err)
	}
	c.checkpoints = len(saved)
	c.weights = readFile(t, filepath.Join(saved[len(saved)-1], "model.safetensors"))
	return c
}

// mixtureConfig returns the path of the configuration of a small mixture of experts.
func mixtureConfig(t *testing.T, layers int) string {
	path := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, path, fmt.Sprintf(`{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 320,
		"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": %d, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "tie_word_embeddings": true,
		"num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.5}`, layers))
	return path
}

// TestNumberFlags_AtZero checks every flag that takes a number at 0, and what it refuses. The test counts effects
// where they arrive: in the steps, the evaluations and the checkpoints of a run.
func TestNumberFlags_AtZero(t *testing.T) {
	_, flags := newOptions(io.Discard, io.Discard)
	mixture := mixtureConfig(t, 1)
	// like checks that 0 gives the bits of one value, and not the bits of another.
	like := func(name, same, other string, more ...string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			weights := map[string][]byte{}
			for _, value := range []string{"0", same, other} {
				c := counting(t, append(more, "--max-steps", "3", "--val", "0", "--"+name, value)...)
				weights[value] = c.weights
			}
			if !bytes.Equal(weights["0"], weights[same]) || bytes.Equal(weights["0"], weights[other]) {
				t.Errorf("--%s 0 does not give the bits of %s, or those of %s", name, same, other)
			}
		}
	}
	sampled := func(c counted) (n int) {
		for _, e := range c.evaluations {
			n += min(1, len(e.Samples))
		}
		return n
	}
	clitest.Numbers(t, flags, map[string]clitest.Number{
		"epochs": {Zero: func(t *testing.T) {
			if c := counting(t, "--epochs", "0", "--max-steps", "20"); len(c.steps) != 20 {
				t.Errorf("%d steps", len(c.steps))
			}
		}},
		"max-steps": {Zero: func(t *testing.T) {
			if c := counting(t, "--max-steps", "0"); len(c.steps) != 18 {
				t.Errorf("%d steps", len(c.steps))
			}
		}},
		"batch": {}, "accumulate": {}, "seq": {}, "keep": {},
		"lr": {Zero: func(t *testing.T) {
			c := counting(t, "--lr", "0", "--eval-every", "1", "--max-steps", "3")
			for _, e := range c.evaluations {
				if e.Loss != c.evaluations[0].Loss || c.steps[0].LR != 0 {
					t.Errorf("it learns: %+v", c.evaluations)
				}
			}
		}},
		"warmup": {Zero: func(t *testing.T) {
			for n, want := range map[string]float64{"0": 1e-3, "4": 0} {
				if c := counting(t, "--warmup", n, "--max-steps", "5"); c.steps[0].LR != want {
					t.Errorf("--warmup %s: the first rate is %v", n, c.steps[0].LR)
				}
			}
		}},
		"weight-decay": {Zero: like("weight-decay", "1e-30", "0.01", "--lr", "0.1")},
		"clip":         {Infinite: true, Zero: like("clip", "1e30", "1")},
		"balance-loss": {Zero: like("balance-loss", "1e-30", "0.01", "--from-scratch", mixture, "--tokenizer", tinyBase)},
		"seed":         {Negative: true, Zero: like("seed", "0", "1")},
		"eval-every": {Zero: func(t *testing.T) {
			for n, want := range map[string][]int{"0": {9, 18}, "7": {7, 14, 18}} {
				var at []int
				for _, e := range counting(t, "--eval-every", n).evaluations {
					at = append(at, e.Step)
				}
				for _, step := range want {
					if !slices.Contains(at, step) || n == "7" && slices.Contains(at, 9) {
						t.Errorf("--eval-every %s: evaluations after %v", n, at)
					}
				}
			}
		}},
		"patience": {Zero: func(t *testing.T) {
			for n, want := range map[string]int{"0": 18, "2": 4} {
				if c := counting(t, "--patience", n, "--lr", "0", "--eval-every", "2"); len(c.steps) != want {
					t.Errorf("--patience %s: %d steps", n, len(c.steps))
				}
			}
		}},
		"save-every": {Zero: func(t *testing.T) {
			if c := counting(t, "--save-every", "0", "--keep", "100"); c.checkpoints > 3 {
				t.Errorf("%d checkpoints", c.checkpoints)
			}
		}},
		"samples": {Zero: func(t *testing.T) {
			for n, want := range map[string]bool{"0": false, "1": true} {
				if c := counting(t, "--samples", n, "--max-steps", "1"); sampled(c) > 0 != want {
					t.Errorf("--samples %s: %+v", n, c.evaluations)
				}
			}
		}},
		"sample-every": {Zero: func(t *testing.T) {
			for n, want := range map[string]int{"0": 2, "1": 4} { // at the start and the end in any case
				if c := counting(t, "--samples", "1", "--max-steps", "3", "--sample-every", n); sampled(c) != want {
					t.Errorf("--sample-every %s: %d times, want %d", n, sampled(c), want)
				}
			}
		}},
		"val": {Zero: func(t *testing.T) {
			c := counting(t, "--val", "0", "--epochs", "1")
			if len(c.steps) != 10 || len(c.evaluations) > 0 || !strings.Contains(c.o.stdout, "40 examples to train on") {
				t.Errorf("%d steps, %d evaluations: %v", len(c.steps), len(c.evaluations), c.o)
			}
		}},
		"log-every": {Zero: func(t *testing.T) {
			for n, all := range map[string]bool{"0": false, "1": true} {
				if c := counting(t, "--log-every", n); strings.Contains(c.o.stderr, "step 8/18") != all {
					t.Errorf("--log-every %s: %v", n, c.o)
				}
			}
		}},
		"ranks": {Zero: func(t *testing.T) { // no others
			must(t, cli.Done, small(t, filepath.Join(t.TempDir(), "out"), "--ranks", "0", "--max-steps", "1")...)
		}},
		"threads": {Zero: func(t *testing.T) {
			o := must(t, cli.Done, small(t, filepath.Join(t.TempDir(), "out"), "--threads", "0", "--dry-run")...)
			if want := cli.Count(runtime.GOMAXPROCS(0), "thread"); !strings.Contains(o.stdout, ", "+want) {
				t.Errorf("no %s in %v", want, o)
			}
		}},
	}, func(args ...string) (int, string) {
		out := filepath.Join(t.TempDir(), "out")
		got := invoke(t, append(small(t, out), args...)...)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q made a directory", args)
		}
		return got.code, got.stderr
	})
}
