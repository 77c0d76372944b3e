package optim

import (
	"bytes"
	"fmt"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestShard_StepsAsOne lets several optimizers with a part each take two clipped steps together, as ranks do: weights
// and state have the bits of one optimizer with everything. Some parts are empty, and some end within a parameter.
func TestShard_StepsAsOne(t *testing.T) {
	shapes := [][]int{{129, 1033}, {70}, {5, 1000}, {1, 1}, {300, 1024}} // units of 256 and 512, in three layers
	layers := []int{0, 0, 1, -1, -1}
	masters := []Master{Split8, Stochastic, FP32}
	for _, size := range []int{1, 2, 3, 7} {
		for i, master := range masters {
			t.Run(fmt.Sprint(size, master), func(t *testing.T) {
				run := func(size int) (weights, state []byte) {
					dev, params := place(t, tensor.BF16, shapes...)
					for i := range params {
						params[i].Layer = layers[i]
						dev.Upload(params[i].W, normal(uint64(i), params[i].W.Len(), 1))
					}
					config, list := Default, []*AdamW(nil)
					config.Master, config.Seed = master, 5
					for rank := range size {
						config.Shard = Shard{Rank: rank, Size: size, Sums: []Sums{NoSums, LayerSums, AllSums}[i]}
						o, err := New(dev, params, config)
						expect.OK(t, err)
						defer o.Close()
						if need := SizeOf(params, config); o.arena.Size() != need {
							t.Errorf("rank %d takes %d bytes: must be %d on every rank", rank, o.arena.Size(), need)
						}
						list = append(list, o)
					}
					for step := range 2 {
						for i, p := range params {
							dev.Upload(p.Grad, normal(uint64(10+10*step+i), p.Grad.Len(), 1))
						}
						takeStep(t, dev, list)
					}
					for _, p := range params {
						weights = append(weights, p.W.Raw()...)
					}
					for k, whole := range list[0].Kept() {
						for i, part := range whole.Parts {
							state = append(state, list[part.Rank].Kept()[k].Parts[i].Here.Raw()...)
						}
					}
					return weights, state
				}
				weights, state := run(size)
				wantWeights, wantState := run(1)
				if !bytes.Equal(weights, wantWeights) || !bytes.Equal(state, wantState) {
					t.Error("other bits than of one optimizer")
				}
			})
		}
	}
}

// takeStep lets the optimizers of one model take a step, each with its part.
func takeStep(t *testing.T, dev *kernels.Device, list []*AdamW) {
	t.Helper()
	var squares []float64
	for _, o := range list {
		own := map[int]int{} // ranges of the layer
		for _, r := range o.ranges {
			p := o.params[r.Param]
			if sums, ok := o.Sums(p.Layer); ok {
				part := p.Grad.Part(r.First, r.Len)
				copy(sums[own[p.Layer]].F32(), part.F32())
				dev.Zero(part) // the step does not use it
				own[p.Layer]++
			}
		}
		o.Square()
		if squares == nil {
			squares = make([]float64, o.Squares().Len())
		}
		for i, x := range o.Squares().F64() {
			squares[i] += x
		}
	}
	for _, o := range list {
		copy(o.Squares().F64(), squares)
		o.Decide(0.5)
		for _, layer := range []int{-1, 0, 1} {
			o.UpdateLayer(layer, 1e-3)
		}
		if r, err := o.End(); err != nil || !r.Taken {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}
