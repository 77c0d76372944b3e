package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestPaths_HoldFromAnyDirectory asks models by relative paths with a relative log, and continues the log from another
// directory.
func TestPaths_HoldFromAnyDirectory(t *testing.T) {
	from := filepath.Join(t.TempDir(), "here")
	elsewhere := filepath.Join(from, "..", "else")
	for name, model := range map[string]string{"first-model": tinyBase, "second-model": tinyTuned} {
		expect.OK(t, os.CopyFS(filepath.Join(from, name), os.DirFS(model)))
	}
	expect.OK(t, os.Mkdir(elsewhere, 0o777))
	ask := func(up, question string) {
		t.Helper()
		o := invoke(t, "", "--base", up+"first-model", "--tuned", up+"second-model", "--temperature", "0", "--log",
			up+"log.md", "--prompt", question)
		if o.code != cli.Done {
			t.Fatal(o)
		}
	}
	t.Chdir(from)
	ask("", "Count to ten.")
	expect.Paths(t, from, []string{"log.md", "log.jsonl"}, "models") // the names as they were typed
	t.Chdir(elsewhere)
	ask("../here/", "How do I reverse a list?")
	if log := expect.Read(t, "../here/log.md"); strings.Count(log, "### Query") != 2 {
		t.Errorf("the log has\n%s", log)
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was written, %v", made, err)
	}
}
