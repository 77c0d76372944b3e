package main

import (
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/kernels/cuda/cudatest"
)

// TestDevice_AutoSaysWhy checks that a line says which device auto chose and why, and that for an unusable GPU chat
// says what is wrong and exits with the right code.
func TestDevice_AutoSaysWhy(t *testing.T) {
	tiny := []string{"--base", tinyBase, "--only", "base", "--log", "", "--prompt", "a"}
	cudatest.Use(t)
	if o := invoke(t, "", append(tiny, "--max-tokens", "1")...); o.code != cli.Done ||
		strings.Count(o.stderr, "device auto: using the CPU: ") != 1 {
		t.Error(o)
	}
	if o := invoke(t, "", append(tiny, "--device", "cuda")...); o.code != cli.Failed ||
		!strings.Contains(o.stderr, `device "cuda": no NVIDIA driver: `) {
		t.Error(o)
	}
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, "MODE=3")
	if o := invoke(t, "", append(tiny, "--device", "cuda")...); o.code != cli.Retry ||
		!strings.Contains(o.stderr, "another process uses the GPU exclusively") {
		t.Error(o)
	}
	cudatest.Set(t, "MODE=0 MEMORY=17179869184 LARGEST=1000")
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	o := invoke(t, "", append(tiny, "--device", "cuda")...)
	for _, want := range []string{"memory for weights: ", "\n  in all ", "\na smaller --context needs less"} {
		if o.code != cli.Failed || !strings.Contains(o.stderr, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
	}
}
