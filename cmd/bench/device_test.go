package main

import (
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/kernels/cuda/cudatest"
)

// TestDeviceAuto checks that exactly one line says which device auto chose and why.
func TestDeviceAuto(t *testing.T) {
	cudatest.Use(t)
	for _, args := range [][]string{
		{"ops", "--op", "add"},
		{"parity", "parity/testdata/qwen2"},
		{"quality", "--base", tinyBase, "--tuned", tinyTuned, "--questions", knownFile(t), "--python", ""},
	} {
		code, _, stderr := bench(t, append(args, "--device", "auto")...)
		if code != cli.Done || strings.Count(stderr, "bench "+args[0]+": device auto: using the CPU: ") != 1 {
			t.Errorf("%s: exit %d, %s", args[0], code, stderr)
		}
	}
}
