package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestPaths_HoldFromAnyDirectory quantizes a model by a relative path, and asks from another directory what the result
// was made from.
func TestPaths_HoldFromAnyDirectory(t *testing.T) {
	from := t.TempDir()
	tiny := os.DirFS("../../infer/testdata/tiny/base")
	expect.OK(t, os.CopyFS(filepath.Join(from, "models", "base-model"), tiny))
	for _, dir := range []string{"", "models", "models/base-model", "models/else/where"} {
		up, err := filepath.Rel(filepath.Join(from, dir), from)
		if err == nil {
			err = os.MkdirAll(filepath.Join(from, dir), 0o777)
		}
		expect.OK(t, err)
		t.Chdir(filepath.Join(from, dir))
		in, err := filepath.Rel(filepath.Join(from, dir), filepath.Join(from, "models", "base-model"))
		expect.OK(t, err)
		out := filepath.Join(up, "out", filepath.Base(filepath.Join(from, dir)))
		var said bytes.Buffer
		if code := run(t.Context(), []string{in, out, "--weights", "int8"}, &said, &said); code != cli.Done {
			t.Fatalf("%s %s: exit code %d: %s", in, out, code, &said)
		}
		out = filepath.Join(from, "out", filepath.Base(out))
		t.Chdir(t.TempDir())
		base, err := infer.BaseOf(t.Context(), nil, out)
		if err != nil || base != filepath.Join(from, "models", "base-model") {
			t.Errorf("from %q: made from %q, %v", dir, base, err)
		}
	}
	if n := expect.Paths(t, from, []string{"out"}); n < 4 {
		t.Errorf("only %d paths were found", n)
	}
}
