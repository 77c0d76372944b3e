package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever bench reads something, and checks everything that it writes for
// people.
func TestHostileTexts(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	hostile.Each(t, func(t *hostile.Test) {
		questions := t.Write(t.Text+".jsonl",
			fmt.Sprintf(`{"instruction":%s,"output":%s,"check":"pass","kind":%s,"seen":true}`+"\n", t.JSON, t.JSON, t.JSON))
		recorded := filepath.Join(t.Dir, t.Text)
		expect.OK(t, os.Mkdir(recorded, 0o700))
		t.Write(filepath.Join(t.Text, "golden.json"), "{"+t.JSON+": 1")
		look := func(what string, args ...string) {
			t.Helper()
			var stdout, stderr bytes.Buffer
			run(t.Context(), args, &stdout, &stderr)
			t.Look(what, stdout.String(), stderr.String())
		}
		markdown, answers := filepath.Join(t.Dir, "a.md"), filepath.Join(t.Dir, "a.jsonl")
		look("questions", "quality", "--base", tinyBase, "--tuned", tinyTuned, "--questions", questions, "--max-tokens", "4",
			"--python", "", "--markdown", markdown, "--answers", answers)
		look("model", "quality", "--base", recorded, "--questions", questions)
		look("measurement", t.Text)
		look("recordings", "parity", recorded)
		look("no recordings", "parity", recorded+"x")
		t.LookAt(markdown, answers)
	})
}
