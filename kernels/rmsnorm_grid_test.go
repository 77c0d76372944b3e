package kernels

import (
	"testing"

	"restyle/tensor"
)

// TestRMSNormGrids checks the sizes of launches. A row is shared by as many threads as give each of them one or two
// vectors (one in the backward pass), and longer rows by a whole thread block. There are thread blocks for all rows,
// but in the backward pass no more than a GPU of 132 multiprocessors runs at once.
func TestRMSNormGrids(t *testing.T) {
	for _, test := range []struct {
		t                               tensor.DType
		rows, dim                       int
		threads, blocks                 int
		backwardThreads, backwardBlocks int
	}{
		{tensor.BF16, 1000, 2048, 128, 500, 256, 264}, // 256 vectors
		{tensor.BF16, 1000, 8192, 256, 1000, 512, 132},
		{tensor.BF16, 1000, 4096, 256, 1000, 512, 264},
		{tensor.BF16, 100, 2056, 256, 100, 512, 100}, // 257 vectors
		{tensor.F32, 33, 64, 8, 2, 16, 2},
		{tensor.F32, 64, 63, 32, 8, 64, 8},
		{tensor.F32, 3, 1, 8, 1, 8, 1},
	} {
		want := map[string]grid{
			"rmsnorm": line(test.blocks, 256), "add_rmsnorm": line(test.blocks, 256),
			"rmsnorm_backward": line(test.backwardBlocks, 512),
		}
		for _, l := range launches(test.t, test.rows, test.dim) {
			if l.name == "rmsnorm" && l.grid == line(1, 256) && test.blocks > 1 {
				continue // the size for a single token
			}
			threads := test.threads
			if l.name != "rmsnorm" && l.name != "add_rmsnorm" {
				threads = test.backwardThreads
			}
			if l.source == "rmsnorm.cu" && (l.grid != want[l.name] || l.macros[3] != macro{"THREADS", threads}) {
				t.Errorf("%v, %d × %d: %v, not %v with %d threads a row", test.t, test.rows, test.dim, l, want[l.name], threads)
			}
		}
	}
}
