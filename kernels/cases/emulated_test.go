package cases

import (
	"errors"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda"
)

// TestEmulated runs the kernels for GPUs, in every case that they have, on the GPU that the CPU plays.
func TestEmulated(t *testing.T) {
	t.Setenv("RESTYLE_CACHE", t.TempDir())
	d, err := kernels.Open("emulated", kernels.Options{})
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ran := map[string]bool{}
	for _, c := range All() {
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
	for _, op := range []string{"add", "rmsnorm", "swiglu", "gelu", "rope", "rows", "embedding", "linear"} {
		if !ran[op] {
			t.Errorf("%s has a kernel, and none ran", op)
		}
	}
}
