package kernels

import (
	"slices"
	"testing"

	"restyle/kernels/cuda"
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
		all := launches(t, cuda.Properties{Major: 8}, Options{Fused: All()}, func(d *Device) error {
			a, err := d.NewArena("test", 1<<30)
			if err != nil {
				return err
			}
			x, w := a.New("x", test.t, test.rows, test.dim), a.New("w", test.t, test.dim)
			rstd, dw := a.New("rstd", tensor.F32, test.rows), a.New("dw", tensor.F32, test.dim)
			d.RMSNorm(x, rstd, x, w, 1)
			d.AddRMSNorm(x, rstd, x, x, x, w, 1)
			d.RMSNormBackward(x, dw, x, x, w, rstd)
			d.AddRMSNormBackward(x, dw, x, x, w, rstd)
			return a.Close()
		})
		found := 0
		for _, l := range all {
			if l.source != "op_rmsnorm.cu" { // the sums of dw
				continue
			}
			found++
			l.grid.shared = 0 // TestNorm_Stages checks it
			threads, want := test.threads, line(test.blocks, 256)
			if l.name == "rmsnorm_backward" {
				threads, want = test.backwardThreads, line(test.backwardBlocks, 512)
			}
			if l.grid != want || l.macros.first[3] != (macro{"THREADS", threads}) {
				t.Errorf("%v, %d × %d: %v, not %v with %d threads a row", test.t, test.rows, test.dim, l, want, threads)
			}
		}
		if found != 4 {
			t.Errorf("%d launches", found)
		}
	}
}

// TestNorm_Stages checks how many rows the gradient of a norm has on their way in shared memory, on GPUs with different
// amounts of it: up to three, and two or none if the thread blocks of a multiprocessor have no room for more.
func TestNorm_Stages(t *testing.T) {
	gpus := []cuda.Properties{{Major: 7, Minor: 5}, {Major: 8}, {Major: 8, Minor: 9}, {Major: 9}, {Major: 10}, {Major: 12}}
	for _, test := range []struct {
		t      tensor.DType
		dim    int
		place  int // bytes per stage of three operands
		stages []int
	}{
		{tensor.BF16, 64, 24 << 10, []int{0, 2, 0, 3, 3, 0}}, // two thread blocks, which also add up 64 rows
		{tensor.BF16, 2048, 24 << 10, []int{0, 2, 0, 3, 3, 0}},
		{tensor.BF16, 4096, 24 << 10, []int{0, 3, 2, 3, 3, 2}},
		{tensor.BF16, 8192, 48 << 10, []int{0, 3, 2, 3, 3, 2}}, // one thread block, whose threads have two vectors
		{tensor.BF16, 16384, 96 << 10, []int{0, 0, 0, 2, 2, 0}},
		{tensor.F32, 8192, 96 << 10, []int{0, 0, 0, 2, 2, 0}},
		{tensor.BF16, 4092, 0, []int{0, 0, 0, 0, 0, 0}}, // no vectors of 16 bytes
	} {
		w := tensor.Tensor{Addr: align, DType: test.t, Shape: []int{test.dim}}
		for i, p := range gpus {
			p.SMs = 100
			d := &Device{gpu: &gpu{GPU: &cuda.GPU{Properties: p}}}
			m, g := d.normRingGrid(tensor.Tensor{Addr: align, DType: test.t, Shape: []int{1000, test.dim}}, w)
			if !slices.Contains(m.first[:], macro{"STAGES", test.stages[i]}) || g.shared != test.stages[i]*test.place {
				t.Errorf("sm_%d%d, %v of %d: %v with %d bytes, not %d stages of %d", p.Major, p.Minor, test.t, test.dim, m,
					g.shared, test.stages[i], test.place)
			}
		}
	}
}
