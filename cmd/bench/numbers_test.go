package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
	"restyle/internal/expect"
	"restyle/kernels/cpu"
)

// TestNumberFlags_AtZero checks every flag of every measurement that takes a number at 0, and what it refuses. Effects
// are counted where they arrive: in steps, tokens and questions.
func TestNumberFlags_AtZero(t *testing.T) {
	config, questions := tinyModel(t), knownFile(t)
	done := func(t *testing.T, args string) string {
		t.Helper()
		code, stdout, stderr := bench(t, strings.Fields(args)...)
		if code != cli.Done {
			t.Fatalf("bench %s: %d: %s", args, code, stderr)
		}
		return stdout
	}
	// runs checks that a measurement takes 0.
	runs := func(args string) clitest.Number {
		return clitest.Number{Zero: func(t *testing.T) { done(t, args) }}
	}
	// threads checks how many threads a measurement takes, for one that opens its device although it was stopped before.
	threads := func(args string) clitest.Number {
		return clitest.Number{Zero: func(t *testing.T) {
			defer cpu.SetThreads(cpu.Threads())
			stopped, stop := context.WithCancel(t.Context())
			stop()
			for _, n := range []int{3, 0} {
				all := strings.Fields(fmt.Sprintf("%s --device cpu --threads %d", args, n))
				if run(stopped, all, io.Discard, io.Discard); cpu.Threads() != cmp.Or(n, runtime.GOMAXPROCS(0)) {
					t.Errorf("--threads %d takes %d", n, cpu.Threads())
				}
			}

		}}
	}
	step := "step --config " + config + " --shapes 1x8 --steps 1 --device cpu "
	quality := "quality --device cpu --only base --base " + tinyBase + " --python= --questions " + questions + " "
	train := "train --model " + tinyBase + " --modes fused --device cpu --seq 128 --rows 12 "
	serve := "serve --device cpu --prompt 4 --answer 2 --times 1 --sequences 1 --model " + tinyBase + " "
	decode := "decode --device cpu --prompt 4 --answer 2 --times 1 --model " + tinyBase + " "
	// trained returns a column of bench train's results.
	trained := func(t *testing.T, flags, column string) any {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		done(t, train+flags+" --out "+out)
		f, err := results.Load(out)
		expect.OK(t, err)
		return f.Table("train").Rows[0][column]
	}
	page := func(rows map[string]clitest.Number) map[string]clitest.Number {
		rows["max-time"] = clitest.Number{}
		return rows
	}
	steps := newStepOptions()
	var arguments []string
	for name, c := range map[string]struct {
		flags   *cli.Flags
		numbers map[string]clitest.Number
	}{
		"all": {newAllOptions(nil).flags(io.Discard, io.Discard), page(map[string]clitest.Number{
			"seconds": {}, "rows": {}, "threads": {Zero: func(t *testing.T) {
				if part := newAllOptions(nil).parts()[0]; slices.Contains(part, "--threads") {
					t.Errorf("%q", part)
				}
			}},
		})},
		"infer": {newInferOptions(nil).flags(io.Discard, io.Discard), page(map[string]clitest.Number{
			"tokens": {}, "threads": threads("infer --lengths 99 --config " + config),
			"warmup": {Zero: func(t *testing.T) { // all 64 positions are for the context and the timed tokens
				for n, fits := range map[string]bool{"0": true, "1": false} {
					said := done(t, "infer --config "+config+" --lengths 60 --tokens 4 --device cpu --warmup "+n)
					if strings.Contains(said, "the model has 64 positions") == fits {
						t.Errorf("--warmup %s: %s", n, said)
					}
				}
			}},
		})},
		"serve": {newServeOptions().flags(io.Discard, io.Discard), map[string]clitest.Number{
			"prompt": {}, "answer": {}, "times": {}, "rows": {}, "arrivals": runs(serve + "--arrivals 0"),
			"threads":  runs(serve + "--threads 0"),
			"adapters": runs(serve + "--adapters 0"), "temperature": runs(serve + "--temperature 0"),
			"top-k": runs(serve + "--temperature 1 --top-k 0"), "top-p": runs(serve + "--temperature 1 --top-p 0"),
		}},
		"decode": {newDecodeOptions().flags(io.Discard, io.Discard), map[string]clitest.Number{
			"prompt": {}, "answer": {}, "times": {}, "threads": runs(decode + "--threads 0"),
		}},
		"kernels": {newKernelOptions(nil).flags(io.Discard, io.Discard), page(map[string]clitest.Number{
			"iterations": {}, "seconds": {}, "threads": threads("kernels --op topk"),
		})},
		"layer": {newLayerOptions(nil).flags(io.Discard, io.Discard), page(map[string]clitest.Number{
			"iterations": {}, "seconds": {}, "threads": threads("layer --config " + config),
		})},
		"many": {newManyOptions().flags(io.Discard, io.Discard), map[string]clitest.Number{
			"per-node": {}, "tflops": {}, "update": {}, "memory": {}, "between": {},
		}},
		"ops": {new(opsOptions).flags(io.Discard, io.Discard), map[string]clitest.Number{"threads": threads("ops")}},
		"parity": {new(parityOptions).flags(io.Discard, io.Discard), map[string]clitest.Number{
			"threads": threads("parity " + filepath.Dir(tinyBase)),
		}},
		"precompile": {(&precompileOptions{stepOptions: newStepOptions()}).flags(io.Discard, io.Discard), nil},
		"quality": {newQualityOptions().flags(io.Discard, io.Discard), map[string]clitest.Number{
			"max-tokens": {}, "after": runs(quality + "--after 0"), "threads": runs(quality + "--threads 0"),
			"sequences": runs(quality + "--sequences 0"),
			"limit": {Zero: func(t *testing.T) {
				for n, want := range map[string]string{"0": "asked  3 of 3 questions", "1": "asked  2 of 2 questions"} {
					if said := done(t, quality+"--limit "+n); !strings.Contains(said, want) {
						t.Errorf("--limit %s: %s", n, said)
					}
				}
			}},
		}},
		"step": {steps.flags(io.Discard, io.Discard), map[string]clitest.Number{
			"steps": {}, "warmup": runs(step + "--warmup 0"), "seconds": runs(step + "--seconds 0"),
			"head-rows": runs(step + "--head-rows 0"), "threads": runs(step + "--threads 0"),
			"ranks": runs(step + "--ranks 0"),
		}},
		"train": {newTrainOptions(nil).flags(io.Discard, io.Discard), page(map[string]clitest.Number{
			"rows": {}, "batch": {}, "accumulate": {}, "seq": {}, "lr": runs(train + "--steps 1 --lr 0"),
			"threads": {Zero: func(t *testing.T) { // each mode has a device of its own
				defer cpu.SetThreads(cpu.Threads())
				for _, n := range []int{3, 0} {
					done(t, fmt.Sprint(train, "--steps 1 --threads ", n))
					if cpu.Threads() != cmp.Or(n, runtime.GOMAXPROCS(0)) {
						t.Errorf("--threads %d takes %d", n, cpu.Threads())
					}
				}

			}},
			"seed": {Negative: true, Zero: func(t *testing.T) { // another order of the rows
				if a, b := trained(t, "--steps 1 --seed 0", "loss"), trained(t, "--steps 1 --seed -1", "loss"); a == b {
					t.Errorf("seeds 0 and -1 have the loss %v", a)
				}
			}},
			"steps": {Zero: func(t *testing.T) { // the 12 rows, four at a time
				for n, want := range map[string]float64{"0": 3, "2": 2} {
					if got := trained(t, "--steps "+n, "steps"); got != want {
						t.Errorf("--steps %s: %v steps", n, got)
					}
				}
			}},
		})},
	} {
		arguments = append(arguments, name)
		t.Run(name, func(t *testing.T) {
			clitest.Numbers(t, c.flags, c.numbers, func(args ...string) (int, string) {
				// What is accepted by mistake must not measure for hours: there is no such GPU.
				always := map[string]string{"all": "all --out " + t.TempDir(), "parity": "parity " + t.TempDir(),
					"quality": quality, "decode": decode, "serve": serve}[name]
				if always == "" {
					always = name
				}
				if name != "many" { // which takes no time and has no device
					always += " --device cuda:999"
				}
				code, _, stderr := bench(t, append(strings.Fields(always), args...)...)
				return code, stderr
			})
		})
	}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if !slices.Contains(append(arguments, "page", "compare"), name) { // which take no numbers
			t.Errorf("bench %s is not in the table", name)
		}
	}
	if _, err := os.Stat("results.json"); err == nil {
		t.Error("it left results.json")
	}
}
