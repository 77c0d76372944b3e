package infer

import (
	"slices"
	"testing"
)

// TestGreedy_ChosenOnGPU checks an engine whose device can choose tokens. The engine must use the device's choice if it
// needs only the highest logit, and ask for logits if it needs more or if there is no highest one.
func TestGreedy_ChosenOnGPU(t *testing.T) {
	for what, c := range map[string]struct {
		o      Sampling
		chosen bool
	}{
		"greedy":      {Sampling{TopK: 3, RepetitionPenalty: 1}, true},
		"temperature": {Sampling{Temperature: 1e-3}, false},
		"penalty":     {Sampling{RepetitionPenalty: 1.0001}, false},
	} {
		m := &script{t: t, prompt: 2, tokens: []int32{7, 8, 9}}
		e, chosen := m.engine(20), 0
		e.greedy = func(ids []int32) (int32, []float32, error) {
			chosen++
			logits, err := e.extend(ids)
			if m.broken || err != nil {
				return -1, logits, err
			}
			return int32(slices.Index(logits, slices.Max(logits))), nil, nil
		}
		g, err := e.Start([]int32{5, 6}, Options{Sampling: c.o, MaxTokens: 3})
		if err != nil {
			t.Fatal(err)
		}
		for g.Next(t.Context()) {
		}
		if g.Err() != nil || !slices.Equal(g.Result().IDs, m.tokens) {
			t.Errorf("%s: %v, %v", what, g.Result().IDs, g.Err())
		}
		if (chosen == 3) != c.chosen || (chosen == 0) == c.chosen {
			t.Errorf("%s: the device chose %d tokens", what, chosen)
		}
		m.broken = true
		if g, err = e.Start([]int32{5, 6, 4}, Options{Sampling: c.o, MaxTokens: 3}); err != nil {
			t.Fatal(err)
		}
		if g.Next(t.Context()) || g.Err() == nil {
			t.Errorf("%s: a logit that is NaN: %v, %v", what, g.Result().IDs, g.Err())
		}
	}
}
