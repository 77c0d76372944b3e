package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/cli/clitest"
)

// TestNumberFlags_AtZero checks every flag that takes a number at 0, and what it refuses.
func TestNumberFlags_AtZero(t *testing.T) {
	const tiny = "../../infer/testdata/tiny/base"
	invoke := func(out string, flags ...string) (int, string) {
		var stderr bytes.Buffer
		args := append([]string{tiny, out, "--weights", "int4"}, flags...)
		return run(t.Context(), args, io.Discard, &stderr), stderr.String()
	}
	clitest.Numbers(t, new(options).flags(io.Discard, io.Discard), map[string]clitest.Number{
		"text": {},
		"threads": {Zero: func(t *testing.T) { // all of them, which the result does not depend on
			var weights [2][]byte
			for i, n := range []string{"0", "1"} {
				out := filepath.Join(t.TempDir(), "out")
				if code, said := invoke(out, "--text", "1", "--threads", n); code != cli.Done {
					t.Fatal(said)
				}
				var err error
				if weights[i], err = os.ReadFile(filepath.Join(out, "model.safetensors")); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(weights[0], weights[1]) {
				t.Error("other weights with --threads 1")
			}
		}},
	}, func(args ...string) (int, string) {
		out := filepath.Join(t.TempDir(), "out")
		code, said := invoke(out, args...)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q made a directory", args)
		}
		return code, said
	})
}
