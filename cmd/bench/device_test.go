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
		{"parity", "../../parity/testdata/qwen2"},
		{"quality", "--base", tinyBase, "--tuned", tinyTuned, "--questions", knownFile(t), "--python", ""},
	} {
		code, _, stderr := bench(t, append(args, "--device", "auto")...)
		if code != cli.Done || strings.Count(stderr, "bench "+args[0]+": device auto: using the CPU: ") != 1 {
			t.Errorf("%s: exit %d, %s", args[0], code, stderr)
		}
	}
}

// TestDeviceUnknown checks that a device that cannot exist is a mistake in the flags of each measurement.
func TestDeviceUnknown(t *testing.T) {
	for name, args := range map[string][]string{
		"ops": nil, "parity": {"../../parity/testdata/qwen2"}, "step": {"--config", "small"},
		"quality": {"--base", tinyBase, "--tuned", tinyTuned}, "all": {"--out", t.TempDir()}, "kernels": nil, "layer": nil,
		"infer": nil, "train": nil, "decode": {"--model", tinyBase},
	} {
		code, _, stderr := bench(t, append([]string{name, "--device", "gpu"}, args...)...)
		want := `--device "gpu": must be auto, cpu, cuda, cuda:N or emulated` + "\nsee bench " + name + " -h\n"
		if code != cli.Usage || !strings.HasSuffix(stderr, want) {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
	}
}
