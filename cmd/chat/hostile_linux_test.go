package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTextsOnATerminal is TestHostileTexts on a terminal, on which the command draws.
func TestHostileTextsOnATerminal(t *testing.T) {
	chat, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range hostile.Texts {
		for _, only := range [][]string{nil, {"--only", "base"}} {
			dir := t.TempDir()
			line, err := json.Marshal(map[string]string{"prompt": text})
			if err != nil {
				t.Fatal(err)
			}
			questions := filepath.Join(dir, "questions.jsonl")
			if err := os.WriteFile(questions, append(append(line, '\n'), line...), 0o600); err != nil {
				t.Fatal(err)
			}
			args, _ := both(t, append(only, "--prompts", questions, "--max-tokens", "2")...)
			cmd := exec.Command(chat, args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			c := newConsole(t, 100, 24)
			c.start(t, cmd)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%s: %v: %s", name, err, stderr.String())
			}
			c.tty.Close()
			<-c.ended // all output has been read
			for _, output := range []string{c.raw.String(), stderr.String()} {
				if found := hostile.Found(output, true); found != "" || output == "" {
					t.Errorf("%s: %s in %q", name, found, output)
				}
			}
		}
	}
}
