package main

import (
	"os/exec"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/sandbox/sandboxtest"
)

// TestNoSandbox checks that if the kernel creates no namespaces, no question is asked until the flags say how to run
// answers.
func TestNoSandbox(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	if !sandboxtest.Forbidden(t) {
		return
	}
	ask := []string{"quality", "--only", "base", "--base", tinyBase, "--questions", knownFile(t)}
	code, stdout, stderr := bench(t, ask...)
	if code != cli.Failed || stdout != "" {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"there is no sandbox here", `--python ""`, "--run-code-unprotected",
		"whatever your user may"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("there is no %q in %s", want, stderr)
		}
	}
	if code, stdout, stderr := bench(t, append(ask, "--python", "")...); code != cli.Done ||
		!strings.Contains(stdout, "nothing was run") {
		t.Errorf("without running: exit %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := bench(t, append(ask, "--run-code-unprotected")...); code != cli.Done ||
		!strings.Contains(stdout, ", unprotected;") {
		t.Errorf("unprotected: exit %d, %s%s", code, stdout, stderr)
	}
}
