package kernels

import (
	"testing"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// TestFlashShared checks that attention takes tensor-core kernels only where a thread block has the shared memory: on
// Turing, not for the larger heads.
func TestFlashShared(t *testing.T) {
	for major, most := range map[int]int{7: 64, 8: 128, 9: 128} {
		d := &Device{gpu: &gpu{GPU: &cuda.GPU{Properties: cuda.Properties{Major: major}}}}
		for _, dim := range []int{32, 64, 96, 128, 80} {
			s := AttentionSpec{HeadDim: dim}
			for _, typ := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
				want := typ.Half() && dim <= most && dim != 80
				if got := d.flash(s, tensor.Tensor{DType: typ}); got != want {
					t.Errorf("heads of %d %v on sm_%d0: %t", dim, typ, major, got)
				}
			}
		}
	}
}
