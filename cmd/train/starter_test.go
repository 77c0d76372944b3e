package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"restyle/cmd/bench/quality"
	"restyle/data"
	"restyle/internal/cli"
	"restyle/internal/sandbox"
	"restyle/voice"
)

// TestStarter is the main job in short: the embedded model learns a part of what it learns by default, and then has the voice
// and still writes Python. What the whole of it comes to, bench quality measures.
func TestStarter(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	out := filepath.Join(t.TempDir(), "out")
	o := must(t, cli.Done, "--fused", "--data", "../../"+defaultData, "--max-steps", "250", "--out", out, "--benchmark-log", "")
	f := figuresOf(t, o)
	if f.ValLoss == nil || float64(*f.ValLoss) > 2 {
		t.Errorf("the validation loss is %v", f.ValLoss)
	}
	questions, err := data.Questions()
	if err != nil {
		t.Fatal(err)
	}
	style, err := voice.Builtin(voice.Default)
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		python = "" // then answers are parsed, not run
	} else if _, err := data.Judge(t.Context(), python, []data.Trial{{}}); errors.Is(err, sandbox.ErrUnavailable) {
		python = ""
	}
	report, err := quality.Run(context.Background(), quality.Options{
		Models: []quality.Model{{Label: "base", Name: data.StarterName}, {Label: "tuned", Name: out}}, Questions: questions[:40], MaxTokens: 320, Style: style, Python: python,
		Device: "cpu",
	})
	if err != nil {
		t.Fatal(err)
	}
	base, tuned := report.Models[0].Seen, report.Models[1].Seen
	t.Logf("base %+v\ntuned %+v", base, tuned)
	if base.Parse < 38 || python != "" && *base.Right < 30 || base.Tone > 0 {
		t.Errorf("the base model: %+v", base)
	}
	// A good half of what the whole run reaches.
	if tuned.Stop < 36 || tuned.Parse < 30 || tuned.Tone < 15 || python != "" && *tuned.Right < 20 {
		t.Errorf("the tuned model: %+v", tuned)
	}
}
