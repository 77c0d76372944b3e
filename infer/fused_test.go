package infer

import (
	"math"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestFusedEqualsStandard answers with fused and with standard operations, and requires the same greedy tokens and, in
// float32, the same logits within its rounding (1e-4, as for recorded gaps). In BF16 the standard operations round what
// lies between them, so only what is far from a tie must be the same.
func TestFusedEqualsStandard(t *testing.T) {
	runs := readRuns(t, "testdata/tiny/base/greedy.json")
	for _, typ := range []tensor.DType{tensor.F32, tensor.BF16} {
		e := open(t, "testdata/tiny/base", OpenOptions{DType: typ})
		d := e.Model.Device()
		// logits returns the logits after the prompt and after each token of the recorded answer.
		logits := func(run greedyRun, fused kernels.Fused, ran string) (all [][]float32) {
			d.SetFused(fused)
			d.Counts()
			e.ResetCache()
			ids := run.Prompt
			for _, next := range append(slices.Clone(run.Continuation), 0) {
				l, err := e.extend(ids)
				if err != nil {
					t.Fatal(err)
				}
				all, ids = append(all, slices.Clone(l)), []int32{next}
			}
			if c := d.Counts(); c[ran] == 0 || c["silu"] > 0 == fused["swiglu"] {
				t.Errorf("%v ran", c)
			}
			return all
		}
		limit := map[tensor.DType]float64{tensor.F32: 1e-4, tensor.BF16: 0.25}[typ] // logits are of size 10
		for _, run := range runs {
			standard, fused := logits(run, nil, "silu"), logits(run, kernels.All(), "swiglu")
			for step := range standard {
				for i, v := range standard[step] {
					if off := math.Abs(float64(fused[step][i] - v)); !(off <= limit) {
						t.Fatalf("%v, step %d: logit %d is %v fused and %v standard", typ, step, i, fused[step][i], v)
					}
				}
				if step < len(run.Gap) && run.Gap[step] > 2*limit && choice(fused[step]) != choice(standard[step]) {
					t.Errorf("%v, step %d: %d fused, %d standard", typ, step, choice(fused[step]), choice(standard[step]))
				}
			}
		}
	}
}

// choice returns the token of the highest logit.
func choice(logits []float32) int { return slices.Index(logits, slices.Max(logits)) }
