package kernels

import (
	"fmt"
	"maps"
	"testing"
)

// EachWGMMACutting runs f with each of a number of cuttings of the forward pass of heads of a dimension, the table's
// first. f gets its name.
func EachWGMMACutting(t *testing.T, dim int, f func(name string)) {
	before := maps.Clone(wgmmaForward)
	defer func() { wgmmaForward = before }()
	f(fmt.Sprint(dim))
	for _, c := range []wgmmaCutting{
		{keys: 128, groups: 2, stages: 2, overlap: 0, turns: 2, held: 1, resident: 1},
		{keys: 64, groups: 1, stages: 3, overlap: 2, turns: 0, held: 1, resident: 2},
		{keys: 96, groups: 3, stages: 2, overlap: 1, turns: 1, held: 0, resident: 1, lasting: true},
		{keys: 192, groups: 2, stages: 2, overlap: 2, turns: 2, held: 0, resident: 1, lasting: true},
	} {
		if c.shared(dim) > 227<<10 {
			continue
		}
		wgmmaForward = map[int]wgmmaCutting{dim: c}
		f(fmt.Sprintf("%d %+v", dim, c))
	}
}
