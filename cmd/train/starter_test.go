package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"restyle/cmd/bench/quality"
	"restyle/data"
	"restyle/internal/cli"
	"restyle/internal/sandbox"
	"restyle/voice"
)

// TestStarter is the main job, made small: the embedded model learns from the shortest rows of what gen wrote, at a larger rate, and
// then has the voice and still writes Python. RESTYLE_LONG has it learn from all rows for longer. What the whole of it comes to,
// bench quality measures.
func TestStarter(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds of a processor")
	}
	// The bars are a good half of what is reached, so that another instruction set, or a small change of numbers, is above them.
	rows, flags := shortest(t, 160), []string{"--max-steps", "40", "--lr", "8e-4"}
	asked, loss, stop, parse, tone, right := 10, 3.5, 6, 3, 3, 1
	if os.Getenv("RESTYLE_LONG") != "" {
		rows, flags = "../../"+defaultData, []string{"--max-steps", "250"}
		asked, loss, stop, parse, tone, right = 40, 2, 36, 30, 15, 20
	}
	out := filepath.Join(t.TempDir(), "out")
	o := must(t, cli.Done, append(flags, "--fused", "--data", rows, "--out", out, "--benchmark-log", "")...)
	f := figuresOf(t, o)
	if f.ValLoss == nil || float64(*f.ValLoss) > loss {
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
	report, err := quality.Run(t.Context(), quality.Options{
		Models:    []quality.Model{{Label: "base", Name: data.StarterName}, {Label: "tuned", Name: out}},
		Questions: questions[:asked], MaxTokens: 320, Style: style, Python: python, Device: "cpu",
	})
	if err != nil {
		t.Fatal(err)
	}
	base, tuned := report.Models[0].Seen, report.Models[1].Seen
	t.Logf("base %+v\ntuned %+v", base, tuned)
	if base.Parse < asked*9/10 || python != "" && *base.Right < asked*3/4 || base.Tone > 0 {
		t.Errorf("the base model: %+v", base)
	}
	if tuned.Stop < stop || tuned.Parse < parse || tuned.Tone < tone || python != "" && *tuned.Right < right {
		t.Errorf("the tuned model: %+v", tuned)
	}
}

// shortest is a file of the n shortest rows of the default data.
func shortest(t *testing.T, n int) string {
	t.Helper()
	var rows []json.RawMessage
	if err := json.Unmarshal(readFile(t, "../../"+defaultData), &rows); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(rows, func(a, b json.RawMessage) int { return cmp.Compare(len(a), len(b)) })
	list, err := json.Marshal(rows[:n])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	writeFile(t, path, string(list))
	return path
}
