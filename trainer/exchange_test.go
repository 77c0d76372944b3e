package trainer

import (
	"slices"
	"testing"

	"restyle/optim"
	"restyle/ranks"
)

// TestRanks_CountAlike takes steps in which ranks have different numbers of passes. In each step they count equally
// many ticks, by which ranks.Group finds the rank that the others wait for.
func TestRanks_CountAlike(t *testing.T) {
	for name, sums := range map[string]optim.Sums{"optimizer": 0, "gradients": optim.LayerSums} {
		r := tiny(t, t.TempDir(), tinySettings())
		d := r.Model.Device()
		c := r.Plan.Config.AdamW()
		c.Shard = optim.Shard{Size: 1, Sums: sums}
		err := r.Optimizer.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r.Optimizer, err = optim.New(d, r.Model.Params(), c); err == nil {
			r.Ranks, err = NewRanks(ranks.Alone(), r.Model, nil, r.Optimizer, r.Plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		passes, _ := r.Plan.Step(0)
		if _, err := r.Model.Loss(passes[0]); err != nil || d.Ticks() > 0 {
			t.Fatalf("a validation, which only rank 0 has: %v, %d ticks", err, d.Ticks())
		}
		var want int64
		for _, of := range [][]int{{3, 3}, {3, 1}, {1, 3}, {0, 3}, {2, 3}} { // this rank's, and another's
			before := d.Ticks()
			r.Ranks.told, r.Ranks.passes = true, of
			if _, err := r.Update(slices.Repeat(passes[:1], of[0]), 1, 0); err != nil {
				t.Fatal(err)
			}
			got := d.Ticks() - before
			if want == 0 {
				want = got
			}
			if got != want || got == 0 {
				t.Errorf("%s: a step of %d passes beside one of %d has %d ticks, want %d", name, of[0], of[1], got, want)
			}
		}
	}
}
