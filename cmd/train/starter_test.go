package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/data"
	"restyle/grade"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/internal/sandbox"
	"restyle/quality"
	"restyle/voice"
)

// TestStarter_LearnsFromGensRows is the main task in small: the embedded model learns from the shortest rows that gen
// wrote, at a higher learning rate. The test checks only what differs between instruction sets by no more than
// rounding: the loss on held-out examples, and that answers that had none of the voice now have some. With RESTYLE_LONG
// the model learns from all rows for longer, and the test checks the answers one by one. bench quality measures the
// full result.
func TestStarter_LearnsFromGensRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes six seconds of a processor")
	}
	long := os.Getenv("RESTYLE_LONG") != ""
	rows, flags, asked := shortest(t, 100), []string{"--max-steps", "20", "--lr", "1e-3"}, 5
	if long {
		rows, flags, asked = "../../"+defaultData, []string{"--max-steps", "250"}, 40
	}
	out := filepath.Join(t.TempDir(), "out")
	o := must(t, cli.Done, append(flags, "--fused", "--data", rows, "--out", out, "--benchmark-log", "")...)
	f := summaryOf(t, o)
	var before struct {
		ValLoss float64 `json:"val_loss"`
	}
	first, _, _ := strings.Cut(string(readFile(t, filepath.Join(out, "metrics.jsonl"))), "\n")
	expect.OK(t, json.Unmarshal([]byte(first), &before))
	if f.ValLoss == nil || float64(*f.ValLoss) > 2.0/3*before.ValLoss { // the run reaches 0.21 of it
		t.Errorf("the validation loss was %v and is %v", before.ValLoss, f.ValLoss)
	} else {
		t.Logf("validation loss %.3f, then %.3f", before.ValLoss, *f.ValLoss)
	}
	questions, err := data.Questions()
	expect.OK(t, err)
	style, err := voice.Builtin(voice.Default)
	expect.OK(t, err)
	python, err := exec.LookPath("python3")
	if err != nil {
		python = "" // without Python, answers are parsed but not run
	} else if _, err := grade.Run(t.Context(), python, []grade.Trial{{}}); errors.Is(err, sandbox.ErrUnavailable) {
		python = ""
	}
	report, err := quality.Run(t.Context(), quality.Options{
		Models:    []quality.Model{{Label: "base", Name: data.StarterName}, {Label: "tuned", Name: out}},
		Questions: questions[:asked], MaxTokens: 320, Style: style, Python: python, Device: "cpu",
	})
	expect.OK(t, err)
	base, tuned := report.Models[0].Seen, report.Models[1].Seen
	t.Logf("base %+v\ntuned %+v", base, tuned)
	if base.Parse < asked*9/10 || python != "" && *base.Right < asked*3/4 || base.Tone > 0 {
		t.Errorf("the base model: %+v", base)
	}
	if tuned.Failed > 0 || tuned.ToneMean <= base.ToneMean ||
		long && (tuned.Stop < 36 || tuned.Parse < 30 || tuned.Tone < 15 || python != "" && *tuned.Right < 20) {
		t.Errorf("the tuned model: %+v", tuned)
	}
}

// shortest writes a file of the n shortest rows of the default data.
func shortest(t *testing.T, n int) string {
	t.Helper()
	var rows []json.RawMessage
	expect.OK(t, json.Unmarshal(readFile(t, "../../"+defaultData), &rows))
	slices.SortStableFunc(rows, func(a, b json.RawMessage) int { return cmp.Compare(len(a), len(b)) })
	list, err := json.Marshal(rows[:n])
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "rows.json")
	writeFile(t, path, string(list))
	return path
}
