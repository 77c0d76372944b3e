package kernels

import (
	"maps"
	"testing"

	"restyle/tensor"
)

// TestEagerLaunches checks that a product of all heads is one launch, except for products that are added up over the
// heads that share a key head.
func TestEagerLaunches(t *testing.T) {
	for _, test := range []struct {
		name                        string
		heads, kvHeads              int
		forward, backward, products int // of one sequence; products are the backward pass's
	}{
		{"GQA", 32, 8, 3, 4 + 3 + 2*4, 3 + 2*4}, {"as many key heads", 12, 12, 3, 4 + 5, 5},
		{"one key head", 6, 1, 3, 4 + 3 + 2*6, 3 + 2*6},
	} {
		s := AttentionSpec{CuSeqlens: []int32{0, 30, 30, 130}, Heads: test.heads, KVHeads: test.kvHeads, HeadDim: 64}
		const sequences = 2 // that are not empty
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			for backward, want := range map[bool][2]int{false: {test.forward, 2}, true: {test.backward, test.products}} {
				d := counting(nil)
				SizeOf(func(a *Arena) {
					attention(s, backward)(d, func(t tensor.DType, shape ...int) tensor.Tensor {
						if t == tensor.BF16 {
							t = dtype
						}
						return a.New("x", t, shape...)
					})
				})
				all, products := map[string]int{}, 0
				for _, k := range d.Profile() {
					all[k.Kernel] += k.Count
					if k.FLOPs > 0 {
						products += k.Count
					}
				}
				launches := 0
				for n := range maps.Values(all) {
					launches += n
				}
				if launches != sequences*want[0] || products != sequences*want[1] {
					t.Errorf("%s %v, backward %t: %d launches, %d of them products, not %d and %d: %v",
						test.name, dtype, backward, launches, products, sequences*want[0], sequences*want[1], all)
				}
			}
		}
	}
}
