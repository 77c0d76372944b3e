package main

import (
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestPaths_HoldFromAnyDirectory runs gen with relative paths and then the same run from another directory: it finds
// its journal and its output, asks for nothing again, and every path in every file leads somewhere from there.
func TestPaths_HoldFromAnyDirectory(t *testing.T) {
	source := tasks(t, 40)
	from := filepath.Join(t.TempDir(), "here")
	elsewhere := filepath.Join(from, "..", "else", "where")
	for _, dir := range []string{filepath.Join(from, "tasks-here"), elsewhere} {
		expect.OK(t, os.MkdirAll(dir, 0o777))
	}
	expect.OK(t, os.Rename(source, filepath.Join(from, "tasks-here", "rows.jsonl")))
	s := newServer(t, nil)
	args := func(up string) []string {
		return []string{"--source", up + "tasks-here/rows.jsonl", "--out", up + "data/mine.json", "--base-url", s.base(),
			"--model", "fake", "--rows", "10"}
	}
	t.Chdir(from)
	must(t, cli.Done, args("")...)
	expect.Paths(t, from, []string{"data"})
	calls, _ := s.counts()
	t.Chdir(elsewhere)
	o := must(t, cli.Done, args("../../here/")...)
	if again, _ := s.counts(); lastLine(t, o)["outcome"] != "unchanged" || again != calls {
		t.Errorf("%d requests, then %d: %v", calls, again, o)
	}
	expect.OK(t, os.Rename(filepath.Join(from, "data"), "moved"))
	t.Chdir(filepath.Join(elsewhere, "moved"))
	o = must(t, cli.Done, "--source", filepath.Join(from, "tasks-here", "rows.jsonl"), "--out", "mine.json",
		"--base-url", s.base(), "--model", "fake", "--rows", "10")
	if again, _ := s.counts(); lastLine(t, o)["outcome"] != "unchanged" || again != calls {
		t.Errorf("after the directory moved: %d requests, then %d: %v", calls, again, o)
	}
}
