package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/trainer"
)

// TestFinishedRun_MadeLonger continues a finished run: as its message says, with more epochs, with fewer, and with
// other settings changed too.
func TestFinishedRun_MadeLonger(t *testing.T) {
	out, log := filepath.Join(realDir(t), "out"), filepath.Join(t.TempDir(), "log.csv")
	args := small(t, out, "--samples", "0", "--benchmark-log", log)
	resume := append(slices.Clone(args), "--resume")
	must(t, cli.Done, args...)
	if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr, "with larger --epochs than 2\n") ||
		summaryOf(t, o).Steps != 18 {
		t.Errorf("a finished run: %v", o)
	}
	weights := readFile(t, filepath.Join(out, "model.safetensors"))
	if o := must(t, cli.Failed, append(resume, "--epochs", "3", "--lr", "0.5")...); !strings.Contains(o.stderr,
		"lr was 0.001 and is now 0.5") {
		t.Errorf("more epochs at another rate: %v", o)
	}
	batches := filepath.Join(t.TempDir(), "batches.jsonl")
	writeFile(t, batches, "those of 18 steps\n")
	if o := must(t, cli.Usage, append(resume, "--epochs", "3", "--write-batches", batches)...); !strings.Contains(o.stderr,
		"choose a new name") {
		t.Errorf("more epochs and old batches: %v", o)
	}
	if !bytes.Equal(readFile(t, filepath.Join(out, "model.safetensors")), weights) {
		t.Error("a run that did not begin changed the weights")
	}

	batches += "2"
	o := must(t, cli.Done, append(resume, "--epochs", "3", "--write-batches", batches)...)
	if f := summaryOf(t, o); f.Steps != 27 || !strings.Contains(o.stderr, "it has 27 steps, and had 18") ||
		!strings.Contains(o.stderr, "continuing after step 18 of 27") {
		t.Errorf("more epochs: %v", o)
	}
	if lines := readFile(t, batches); bytes.Count(lines, []byte("\n")) != 9 ||
		!bytes.HasPrefix(lines, []byte(`{"step":19,`)) {
		t.Errorf("the batches are %.200s", lines)
	}
	if rows := bytes.Count(readFile(t, log), []byte("\n")); rows != 3 {
		t.Errorf("the benchmark log has %d lines", rows)
	}
	if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr, "made with --epochs 3, and not 2") ||
		summaryOf(t, o).Steps != 27 {
		t.Errorf("fewer epochs: %v", o)
	}

	other := small(t, out+"2", "--samples", "0", "--max-steps", "100")
	must(t, cli.Done, other...)
	if o := must(t, cli.Done, append(other, "--resume")...); !strings.Contains(o.stderr, "with larger --epochs than 2\n") {
		t.Errorf("more steps are allowed than the epochs have: %v", o)
	}

	expect.OK(t, os.RemoveAll(trainer.CheckpointsIn(out)))
	if o := must(t, cli.Failed, append(resume, "--epochs", "4")...); !strings.Contains(o.stderr,
		"no checkpoint to continue from") {
		t.Errorf("more epochs without checkpoints: %v", o)
	}
}

// TestFinishedRun_LongerAfterPatience requests more steps of a run that its patience ended. With a learning rate of 0
// no validation improves on the first.
func TestFinishedRun_LongerAfterPatience(t *testing.T) {
	out := filepath.Join(realDir(t), "out")
	args := small(t, out, "--samples", "0", "--lr", "0", "--eval-every", "2", "--patience", "2")
	if f := summaryOf(t, must(t, cli.Done, args...)); f.Steps != 4 {
		t.Errorf("%+v", f)
	}
	if o := must(t, cli.Done, append(args, "--epochs", "9", "--resume")...); summaryOf(t, o).Steps != 4 ||
		!strings.Contains(o.stderr, "give it as --model and another --out") {
		t.Error(o)
	}
}

// TestDamagedMetrics resumes runs with a damaged metrics.jsonl. A damaged line is left out of the curve, and a file
// that no longer matches the checkpoint must be renamed first. Either way the run ends as it would have.
func TestDamagedMetrics(t *testing.T) {
	dir := realDir(t)
	out := filepath.Join(dir, "out")
	args := small(t, out, "--samples", "0")
	resume := append(slices.Clone(args), "--epochs", "3", "--resume")
	must(t, cli.Done, args...)
	metrics := filepath.Join(out, "metrics.jsonl")
	good := readFile(t, metrics)
	end := bytes.IndexByte(good, '\n')
	damage := func(at int) {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		writeFile(t, metrics, string(bad))
	}
	var want []byte
	for name, at := range map[string]int{"a digit or brace": end - 1, "a line's end": end,
		"the last line's end": len(good) - 1} {
		t.Run(name, func(t *testing.T) {
			this := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			expect.OK(t, os.CopyFS(this, os.DirFS(out)))
			resume := append(resume, "--out", this)
			metrics = filepath.Join(this, "metrics.jsonl")
			damage(at)
			if name == "the last line's end" {
				if o := must(t, cli.Failed, resume...); !strings.Contains(o.stderr, "rename it and run the same command again") {
					t.Error(o)
				}
				expect.OK(t, os.Rename(metrics, metrics+".damaged"))
				if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr,
					"is missing: the metrics up to step 18 are lost") {
					t.Error(o)
				}
			} else if o := must(t, cli.Done, resume...); !strings.Contains(o.stderr, "line 1: ") ||
				!strings.Contains(o.stderr, "1 damaged of") {
				t.Error(o)
			}
			got := readFile(t, filepath.Join(this, "checkpoints", "step-000027", "model.safetensors"))
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Error("it ends with other weights")
			}
		})
	}
}
