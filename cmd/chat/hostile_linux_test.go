package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestHostileTextsOnATerminal is TestHostileTexts on a terminal, on which the command draws.
func TestHostileTextsOnATerminal(t *testing.T) {
	chat, err := build()
	expect.OK(t, err)
	var lines []byte
	for _, text := range hostile.Texts {
		line, err := json.Marshal(map[string]string{"prompt": text})
		expect.OK(t, err)
		lines = append(append(append(append(lines, line...), '\n'), line...), '\n')
	}
	questions := filepath.Join(t.TempDir(), "questions.jsonl")
	expect.OK(t, os.WriteFile(questions, lines, 0o600))
	for _, only := range [][]string{nil, {"--only", "base"}} {
		args, log := both(t, append(only, "--prompts", questions, "--max-tokens", "2")...)
		cmd := exec.Command(chat, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		c := newConsole(t, 100, 24)
		c.start(t, cmd)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		c.tty.Close()
		<-c.ended // all output has been read
		if text, err := os.ReadFile(log); err != nil || bytes.Count(text, []byte("### ")) < 2*len(hostile.Texts) {
			t.Errorf("not all questions were asked: %v\n%s", err, text)
		}
		for _, output := range []string{c.raw.String(), stderr.String()} {
			if found := hostile.Found(output, true); found != "" || output == "" {
				t.Errorf("%s in %q", found, output)
			}
		}
	}
}
