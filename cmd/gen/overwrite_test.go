package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestEmitBatchKeepsAFile checks that --emit-batch keeps a file of results that was named by mistake.
func TestEmitBatchKeepsAFile(t *testing.T) {
	source, dir := tasks(t, 20), t.TempDir()
	batch := filepath.Join(dir, "paid.jsonl")
	expect.OK(t, os.WriteFile(batch, []byte("paid answers\n"), 0o600))
	args := []string{"--source", source, "--rows", "5", "--model", "m", "--out", filepath.Join(dir, "out.json"),
		"--emit-batch", batch}
	for range 2 { // the same requests again: nothing to keep
		must(t, cli.Done, args...)
	}
	if got := expect.Read(t, batch+".bak"); got != "paid answers\n" {
		t.Errorf("kept is %q", got)
	}
	if _, err := os.Stat(batch + ".bak.2"); err == nil {
		t.Error("a file with the same bytes was kept")
	}
}

// TestOutputsOfOneName checks that no output replaces another one, or the batch that is read.
func TestOutputsOfOneName(t *testing.T) {
	source := tasks(t, 20)
	t.Chdir(t.TempDir())
	expect.OK(t, os.WriteFile("results.jsonl", nil, 0o600))
	for _, args := range [][]string{
		{"--card", "out.json"},
		{"--card", "./out.json"},
		{"--card", dataset.CertificatePath("out.json")},
		{"--model", "m", "--emit-batch", "out.json"},
		{"--model", "m", "--emit-batch", "card.md", "--card", "card.md"},
		{"--model", "m", "--ingest-batch", "results.jsonl", "--emit-batch", "results.jsonl"},
	} {
		o := must(t, cli.Usage, append([]string{"--source", source, "--rows", "5", "--out", "out.json"}, args...)...)
		if !strings.Contains(o.stderr, args[len(args)-2]) {
			t.Errorf("%q: %v", args, o)
		}
	}
}

// TestBatchFromAPipe checks that gen refuses a named pipe without waiting for a writer.
func TestBatchFromAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "results")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("this file system has no pipes: ", err)
	}
	o := must(t, cli.Failed, "--source", tasks(t, 20), "--rows", "5", "--model", "m", "--out",
		filepath.Join(dir, "out.json"), "--ingest-batch", pipe)
	if !strings.Contains(o.stderr, "results: not a file but a named pipe") {
		t.Error(o)
	}
}
