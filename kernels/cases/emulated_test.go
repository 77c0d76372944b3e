package cases

import (
	"errors"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda"
)

// TestEmulated runs the kernels for GPUs, in every case that they have, on the GPU that the CPU plays.
func TestEmulated(t *testing.T) {
	ran := map[string]bool{}
	emulated(t, kernels.Options{OwnProducts: true}, All(), ran)
	for _, op := range []string{
		"add", "rmsnorm", "swiglu", "gelu", "rope", "rows", "embedding", "linear", "crossentropy", "attention", "cached", "qknorm",
		"adamw", "quantize",
	} {
		if !ran[op] {
			t.Errorf("%s has a kernel, and none ran", op)
		}
	}
}

// TestEmulatedBLAS runs what multiplies matrices by calls of cuBLASLt.
func TestEmulatedBLAS(t *testing.T) {
	ran := map[string]bool{}
	emulated(t, kernels.Options{}, Of("linear"), ran)
	if !ran["linear"] {
		t.Error("no product ran")
	}
}

// emulated checks cases and notes which operations have kernels.
func emulated(t *testing.T, o kernels.Options, list []*Case, ran map[string]bool) {
	t.Setenv("RESTYLE_CACHE", t.TempDir())
	d, err := kernels.Open("emulated", o)
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range list {
		for _, fused := range c.Forms() {
			r, err := c.Check(d, fused)
			if err != nil {
				t.Fatalf("%s: %v", c.ID(), err)
			}
			for _, p := range []Pass{r.Forward, r.Backward} {
				ran[c.Op] = ran[c.Op] || p.Ran
				for _, fault := range p.Faults {
					t.Errorf("%s, fused %t: %s", c.ID(), fused, fault)
				}
			}
		}
	}
}
