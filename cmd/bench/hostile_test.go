package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever bench reads something, and looks at all that it writes for people.
func TestHostileTexts(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	for name, text := range hostile.Texts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			questions := filepath.Join(dir, text+".jsonl")
			question := fmt.Sprintf(`{"instruction":%s,"output":%s,"check":"pass","kind":%s,"seen":true}`, quoted, quoted, quoted)
			if err := os.WriteFile(questions, []byte(question+"\n"), 0o600); err != nil {
				t.Skip("this file system does not take the name: ", err)
			}
			recorded := filepath.Join(dir, text)
			if err := os.MkdirAll(recorded, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(recorded, "golden.json"), []byte("{"+string(quoted)+": 1"), 0o600); err != nil {
				t.Fatal(err)
			}
			look := func(what string, args ...string) {
				t.Helper()
				var stdout, stderr bytes.Buffer
				run(t.Context(), args, &stdout, &stderr)
				for _, output := range []string{stdout.String(), stderr.String()} {
					if found := hostile.Found(output, false); found != "" {
						t.Errorf("%s: %s", what, found)
					}
				}
			}
			markdown, answers := filepath.Join(dir, "a.md"), filepath.Join(dir, "a.jsonl")
			look("questions", "quality", "--base", tinyBase, "--tuned", tinyTuned, "--questions", questions, "--max-tokens", "4",
				"--python", "", "--markdown", markdown, "--answers", answers)
			look("model", "quality", "--base", recorded, "--questions", questions)
			look("measurement", text)
			look("recordings", "parity", recorded)
			look("no recordings", "parity", recorded+"x")
			for _, file := range []string{markdown, answers} {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if found := hostile.Found(string(b), false); found != "" {
					t.Errorf("%s: %s", filepath.Base(file), found)
				}
			}
		})
	}
}
