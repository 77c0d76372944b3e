package trainer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cpu"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
)

// TestRandomSettings_SameBits draws random settings that affect results and runs them on one thread with all
// activations kept. It then checks that the bits are the same with other threads, with other parts of the forward pass
// recomputed, with checkpoints at other steps, and after stopping and resuming.
func TestRandomSettings_SameBits(t *testing.T) {
	draws := 4
	if os.Getenv("RESTYLE_LONG") != "" {
		draws = 60
	}
	for seed := range uint64(draws) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := tinySettings()
		s.MaxSteps, s.Epochs = 6+rng.IntN(6), 3
		s.Batch, s.Accumulate, s.Packing = 1+rng.IntN(3), 1+rng.IntN(3), rng.IntN(2) == 0
		s.DType = one(rng, tensor.BF16, tensor.F32)
		s.Optimizer, s.Master = one(rng, AdamW8bit, AdamW), one(rng, optim.Split8, optim.Stochastic, optim.FP32,
			optim.NoMaster)
		s.Clip, s.Seed, s.EvalEvery = one(rng, 0, 0.05, 1), rng.Int64N(100), one(rng, 0, 2, 5)
		s.Freeze = one(rng, nil, []string{"embed_tokens"}, []string{"k_proj", "up_proj"}, []string{"norm"})
		begun := func(threads int) func(*Run) {
			return func(r *Run) {
				r.Identity, r.Decisions = nil, nil // these also record settings that do not affect results
				expect.OK(t, cpu.SetThreads(threads))
			}
		}
		want, control := whole(t, t.TempDir(), s, begun(1))
		steps := control.State().Step
		for range 2 {
			same := s
			same.Recompute = one(rng, model.RecomputeNone, model.RecomputeAttention, model.RecomputeLayer)
			same.SaveEvery, same.Keep = rng.IntN(4), 1+rng.IntN(3)
			threads, stop := 1+rng.IntN(5), 1+rng.IntN(steps-1)
			what := fmt.Sprintf("%+v on %d threads, stopped after step %d of %d", same, threads, stop, steps)
			dir := t.TempDir()
			stopped(t, dir, same, stop, func(any) {}, begun(threads))
			found, err := checkpoint.Latest(CheckpointsIn(dir))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			again := tiny(t, dir, same, begun(1+rng.IntN(5)))
			if err := again.startFrom(context.Background(), found.Dir); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := again.Run(context.Background()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := hash(t, again); got != want {
				t.Errorf("seed %d, %s: it ends as %.12s, want %.12s", seed, what, got, want)
			}
		}
	}
}

// one returns a random element of a list.
func one[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }
