package kernels

import (
	"testing"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// TestFlashShared checks that attention takes tensor-core kernels only if a thread block has enough shared memory: on
// Turing, not for the larger heads, and not in F32.
func TestFlashShared(t *testing.T) {
	for major, most := range map[int]map[tensor.DType]int{
		7: {tensor.BF16: 64, tensor.F16: 64}, // without tensor cores for F32
		8: {tensor.BF16: 128, tensor.F16: 128, tensor.F32: 128},
		9: {tensor.BF16: 128, tensor.F16: 128, tensor.F32: 128},
	} {
		d := &Device{gpu: &gpu{GPU: &cuda.GPU{Properties: cuda.Properties{Major: major}}}}
		for _, dim := range []int{32, 64, 96, 128, 80} {
			s := AttentionSpec{HeadDim: dim}
			for _, typ := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
				want := dim <= most[typ] && dim != 80
				if got := d.flash(s, tensor.Tensor{DType: typ}); got != want {
					t.Errorf("heads of %d %v on sm_%d0: %t", dim, typ, major, got)
				}
			}
		}
	}
}
