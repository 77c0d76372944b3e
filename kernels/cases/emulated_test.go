package cases

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestEmulated runs the GPU kernels, in every case, on the emulated GPU.
func TestEmulated(t *testing.T) {
	d := emulated(t, kernels.Options{OwnProducts: true})
	for _, op := range Ops(All()) {
		t.Run(op, func(t *testing.T) { checkAll(t, d, everyFifthF16(Of(op))) })
	}
}

// everyFifthF16 leaves out the other cases of F16: compiling each takes time, and it differs from BF16 only in what
// every case has, conversions and tensor cores.
func everyFifthF16(list []*Case) []*Case {
	n := 0
	return slices.DeleteFunc(list, func(c *Case) bool {
		if c.Type != tensor.F16 {
			return false
		}
		n++
		return n%5 != 1
	})
}

// TestEmulatedBLAS runs everything that multiplies matrices through cuBLASLt, including attention's batched products,
// in sequences of a length that cuBLASLt takes and of one that it does not.
func TestEmulatedBLAS(t *testing.T) {
	m := kernels.AttentionSpec{CuSeqlens: []int32{0, 32, 32, 80, 101}, Heads: 6, KVHeads: 2, HeadDim: 16}
	checkAll(t, emulated(t, kernels.Options{}), slices.Concat(everyFifthF16(Of("linear")),
		everyFifthF16(Of("batched_product")),
		[]*Case{AttentionCase(tensor.BF16, m, 1), AttentionCase(tensor.F16, m, 1)}))
}

// emulated opens the emulated GPU.
func emulated(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	if os.Getenv("RESTYLE_CPU") != "" || testing.Short() {
		t.Skip("a GPU's results do not depend on the CPU's instruction set: once is enough")
	}
	t.Setenv("RESTYLE_CACHE", t.TempDir())
	d, err := kernels.Open("emulated", o)
	cudatest.Opened(t, d, err)
	return d
}

// checkAll checks cases, all of which must run.
func checkAll(t *testing.T, d *kernels.Device, list []*Case) {
	for _, c := range list {
		t.Run(fmt.Sprint(c.Type, " ", c.Name), func(t *testing.T) {
			for _, fused := range c.Forms() {
				r, err := c.Check(d, fused)
				if err != nil {
					t.Fatal(err)
				}
				if !r.Forward.Ran || c.Backward != nil && !r.Backward.Ran {
					t.Errorf("fused %t did not run", fused)
				}
				for _, p := range []Pass{r.Forward, r.Backward} {
					for _, fault := range p.Faults {
						t.Errorf("fused %t: %s", fused, fault)
					}
				}
			}
		})
	}
}
