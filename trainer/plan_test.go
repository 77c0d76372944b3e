package trainer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"restyle/dataset/training"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// TestPlan_EveryStep checks every step of runs of awkward sizes: each epoch has each example once, in the order of that
// epoch, no pass is larger than planned, and none is smaller than it could be.
func TestPlan_EveryStep(t *testing.T) {
	examples := learnable(41, 1)
	for _, packing := range []bool{false, true} {
		for _, c := range []struct{ batch, accumulate, epochs, max int }{{1, 1, 1, 0}, {1, 4, 3, 0}, {2, 3, 2, 0},
			{64, 2, 2, 0}, {2, 2, 3, 13}, {2, 2, 0, 25}} {
			t.Run(fmt.Sprint(packing, c), func(t *testing.T) {
				s := tinySettings()
				s.Packing, s.Batch, s.Accumulate, s.Epochs, s.MaxSteps = packing, c.batch, c.accumulate, c.epochs, c.max
				p, err := NewPlan(s, examples, nil)
				expect.OK(t, err)
				var seen []string
				epoch, total := 0, 0
				flush := func() {
					if len(seen) < len(examples) && c.max > 0 {
						return // the run ends within an epoch
					}
					var want []string
					order := training.Order(len(examples), s.Seed, epoch)
					for _, i := range order {
						want = append(want, fmt.Sprint(examples[i].IDs))
					}
					if packing {
						slices.Sort(seen)
						slices.Sort(want)
					}
					if !slices.Equal(seen, want) {
						t.Errorf("epoch %d has other examples, or another order", epoch)
					}
					seen = nil
				}
				for step := range p.Steps {
					if e := p.Epoch(step); e != epoch {
						flush()
						epoch = e
					}
					batches, n := p.Step(step)
					if !packing && n > c.batch*c.accumulate {
						t.Errorf("step %d has %d examples", step, n)
					}
					for i, b := range batches {
						if len(b.IDs) > p.MaxTokens {
							t.Errorf("step %d has a pass of %d tokens, planned for %d", step, len(b.IDs), p.MaxTokens)
						}
						if i > 0 && len(batches[i-1].IDs)+len(b.IDs) <= p.MaxTokens && c.batch == 1 {
							t.Errorf("step %d: passes %d and %d could be one", step, i-1, i)
						}
						for j := range len(b.CuSeqlens) - 1 {
							seen = append(seen, fmt.Sprint(b.IDs[b.CuSeqlens[j]:b.CuSeqlens[j+1]]))
						}
						total += len(b.CuSeqlens) - 1
					}
					if done := p.Done(step + 1); done <= p.Done(step) || p.EndsEpoch(step) != (done == float64(epoch+1)) {
						t.Errorf("step %d of epoch %d goes from %v to %v epochs", step, epoch, p.Done(step), done)
					}
				}
				flush()
				if c.max == 0 && total != c.epochs*len(examples) {
					t.Errorf("%d examples in all, want %d", total, c.epochs*len(examples))
				}
				if c.max > 0 && p.Steps != c.max {
					t.Errorf("%d steps, want %d", p.Steps, c.max)
				}
				for _, every := range []int{0, 1, 3, p.Steps, p.Steps + 1} {
					r := &Run{Plan: p}
					left := 0
					for step := p.Steps; step >= 0; step-- {
						if got := p.Left(every, step); got != left {
							t.Errorf("every %d, after step %d of %d: %d times left, want %d", every, step, p.Steps, got, left)
						}
						if r.state.Step = step; step > 0 && r.due(every) {
							left++
						}
					}
				}
			})
		}
	}
	if _, err := NewPlan(tinySettings(), nil, nil); err == nil {
		t.Error("a plan without examples")
	}
}

// TestPlan_Passes checks that a pass has as many tokens as a micro-batch may have, and no more than a step has.
func TestPlan_Passes(t *testing.T) {
	for _, c := range []struct {
		batch, accumulate int
		packing           bool
		longest, want     int
	}{
		{1, 4, false, 32, 32}, {3, 4, false, 32, 96}, {3, 4, false, 10, 96}, {3, 4, false, 5, 60}, {1, 4, false, 5, 20},
		{3, 4, true, 5, 96},
	} {
		p := Plan{Config: Config{Batch: c.batch, Accumulate: c.accumulate, Packing: c.packing, Seq: 32}, Longest: c.longest}
		if got := p.passTokens(); got != c.want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
}

// TestWarmup checks that a fraction of the steps is rounded to the nearest whole number of steps.
func TestWarmup(t *testing.T) {
	for warmup, steps := range map[float64]int{0: 0, 0.02: 0, 0.03: 1, 0.16: 4, 0.2: 4, 0.21: 5, 1: 1, 7: 7, 22: 22} {
		s := tinySettings()
		s.Schedule, s.Warmup = "constant", warmup
		p, err := NewPlan(s, learnable(41, 1), nil)
		if err != nil || p.Steps != 22 {
			t.Fatal(p, err)
		}
		for step := range p.Steps {
			if at := step >= steps; at != (p.rate(step) == s.LR) {
				t.Errorf("warmup %v of %d steps: step %d has the rate %v of %v", warmup, p.Steps, step, p.rate(step), s.LR)
			}
		}
	}
}

// TestHeldOutIsLongest checks that held-out examples fit in the same memory, even if no training example is as long.
func TestHeldOutIsLongest(t *testing.T) {
	s := tinySettings()
	s.Batch, s.Accumulate, s.Seq = 1, 1, 64
	examples, heldOut := learnable(9, 1), learnable(3, 2)
	for len(heldOut[1].IDs) <= 40 {
		heldOut[1].IDs = append(heldOut[1].IDs, 7)
		heldOut[1].Labels = append(heldOut[1].Labels, 7)
	}
	for _, packing := range []bool{false, true} {
		s.Packing = packing
		p, err := NewPlan(s, examples, heldOut)
		expect.OK(t, err)
		if longest := len(heldOut[1].IDs); p.Longest != longest || p.MaxTokens < longest {
			t.Errorf("packing %v: planned for examples of %d tokens, %d at once; one that is held out has %d", packing,
				p.Longest, p.MaxTokens, longest)
		}
	}
}

// TestStep_SameInAnyPasses compares the gradient of a step with the same gradient computed in other ways: all examples
// in one pass, one example per pass, and packed. In fp32 they differ only by rounding, because the order of sums
// differs.
func TestStep_SameInAnyPasses(t *testing.T) {
	s := tinySettings()
	s.DType, s.Batch, s.Accumulate = tensor.F32, 3, 4
	gradient := func(batches []model.Batch) (float64, []float32) {
		r := tiny(t, t.TempDir(), s, func(r *Run) {})
		trained := 0
		for _, b := range batches {
			trained += b.Targets()
		}
		big, err := model.New(r.Model.Device(), r.Model.Config(), model.Options{DType: s.DType, MaxTokens: 400, Train: true})
		expect.OK(t, err)
		defer big.Close()
		big.Init(3, 0.05)
		sum := 0.0
		for _, b := range batches {
			there, err := big.Gradient(b, float32(1/float64(trained)), model.Gradients{})
			expect.OK(t, err)
			l, err := big.Read(there)
			expect.OK(t, err)
			sum += l.Sum
		}
		var all []float32
		for _, p := range big.Params() {
			all = append(all, p.Grad.F32()...)
		}
		return sum / float64(trained), all
	}
	plan := tiny(t, t.TempDir(), s).Plan
	batches, n := plan.Step(1)
	if n != 12 || len(batches) < 2 {
		t.Fatalf("%d examples in %d passes: this compares nothing", n, len(batches))
	}
	loss, want := gradient(batches)
	joined := model.Join(batches...)
	var alone []model.Batch
	for i := range len(joined.CuSeqlens) - 1 {
		lo, hi := joined.CuSeqlens[i], joined.CuSeqlens[i+1]
		alone = append(alone, model.Batch{IDs: joined.IDs[lo:hi], Labels: joined.Labels[lo:hi]})
	}
	for name, other := range map[string][]model.Batch{"one pass": {joined}, "each alone": alone} {
		l, got := gradient(other)
		if !(math.Abs(l-loss) <= 1e-6*loss) {
			t.Errorf("%s: loss %v, want %v", name, l, loss)
		}
		var diff, norm float64
		for i := range got {
			diff += math.Pow(float64(got[i]-want[i]), 2)
			norm += math.Pow(float64(want[i]), 2)
		}
		if e := math.Sqrt(diff / norm); e > 1e-5 {
			t.Errorf("%s: the gradient is %.1e of itself off", name, e)
		}
	}
}

// TestStep_Update compares two steps with an independent computation: all examples of a step in one pass, the norm, the
// clipping, and the update with the step's learning rate. In fp32 they differ only by rounding.
func TestStep_Update(t *testing.T) {
	s := tinySettings()
	s.DType, s.Optimizer, s.Batch, s.Accumulate, s.Clip, s.Warmup, s.Schedule = tensor.F32, AdamW, 1, 8, 0.01, 0, "linear"
	var norms []float64
	r := tiny(t, t.TempDir(), s, func(r *Run) {
		r.Hooks = hooks(func(e any) {
			if s, ok := e.(Step); ok {
				norms = append(norms, float64(s.GradNorm))
			}
		})
	})
	joined := s
	joined.Batch, joined.Accumulate = 8, 1
	want := tiny(t, t.TempDir(), joined)
	state := func(r *Run) (list []tensor.Tensor) {
		for _, p := range r.Model.Params() {
			list = append(list, p.W)
		}
		return append(list, r.Optimizer.State()...)
	}
	var before [][]float32
	for _, x := range state(want) {
		before = append(before, slices.Clone(x.F32()))
	}
	var passes []model.Batch
	var wantNorms []float64
	for step := range 2 {
		of, _ := want.Plan.Step(step)
		if _, err := want.Model.Gradient(of[0], float32(1/float64(of[0].Targets())),
			model.Gradients{Overwrite: true}); err != nil || len(of) != 1 {
			t.Fatal(len(of), err)
		}
		taken, err := want.Optimizer.Step(want.Plan.rate(step), s.Clip)
		if err != nil || taken.Norm < 2*s.Clip {
			t.Fatalf("%+v: a norm that is not clipped shows nothing: %v", taken, err)
		}
		wantNorms = append(wantNorms, float64(taken.Norm))
		passes, _ = r.Plan.Step(step)
	}
	if len(passes) < 3 || passes[0].Targets() == passes[1].Targets() {
		t.Fatalf("%d passes, with as many trained tokens: this compares nothing", len(passes))
	}
	expect.OK(t, r.startFrom(context.Background(), ""))
	for range wantNorms {
		expect.OK(t, r.step())
	}
	if len(norms) != len(wantNorms) {
		t.Fatalf("the norms of %d steps", len(norms))
	}
	for i, norm := range norms { // a wrong scale shows here, not in a clipped step
		if !(math.Abs(norm/wantNorms[i]-1) <= 1e-4) {
			t.Errorf("step %d: the norm of the gradient is %v, want %v", i, norm, wantNorms[i])
		}
	}
	moved := state(want)
	for i, x := range state(r) {
		var diff, norm float64
		for j, v := range x.F32() {
			diff += math.Pow(float64(v-moved[i].F32()[j]), 2)
			norm += math.Pow(float64(moved[i].F32()[j]-before[i][j]), 2)
		}
		if e := math.Sqrt(diff / norm); !(e < 1e-2) { // AdamW's first steps amplify tiny gradients
			t.Errorf("%s moves by %.1e of the way elsewhere", x.Name, e)
		}
	}
}

// TestStep_WaitsOnce checks that a step of several passes gives each of them to the device once, and waits once for the
// result of all, with all losses.
func TestStep_WaitsOnce(t *testing.T) {
	s := tinySettings()
	s.Batch, s.Accumulate = 2, 3
	r := tiny(t, t.TempDir(), s, func(r *Run) {})
	expect.OK(t, r.startFrom(context.Background(), ""))
	batches, _ := r.Plan.Step(r.state.Step)
	if len(batches) < 2 {
		t.Fatalf("%d passes", len(batches))
	}
	var want model.Loss
	for _, b := range batches {
		l, err := r.Model.Loss(b)
		expect.OK(t, err)
		want.Sum, want.Targets = want.Sum+l.Sum, want.Targets+l.Targets
	}
	r.Model.Device().Transfers()
	expect.OK(t, r.step())
	if got, want := r.Model.Device().Transfers(), (kernels.Transfers{Uploads: len(batches), Waits: 1}); got != want {
		t.Errorf("a step of %d passes: %+v, want %+v", len(batches), got, want)
	}
	// The same passes in the same order before the step give the same bits.
	if got := float64(r.state.Loss); got != want.Mean() {
		t.Errorf("the loss of a step of %d passes is %v, of the passes %v", len(batches), got, want.Mean())
	}
}

// TestWriteBatches reads back what --write-batches writes.
func TestWriteBatches(t *testing.T) {
	p := tiny(t, t.TempDir(), tinySettings()).Plan
	var out bytes.Buffer
	expect.OK(t, p.Write(&out, 0))
	dec := json.NewDecoder(&out)
	for step := range p.Steps {
		var line struct {
			Step   int
			LR     float64
			Passes []struct{ IDs, Labels, Starts []int32 }
		}
		expect.OK(t, dec.Decode(&line))
		want, _ := p.Step(step)
		if line.Step != step+1 || line.LR != p.rate(step) || len(line.Passes) != len(want) ||
			!slices.Equal(line.Passes[0].Labels, want[0].Labels) {
			t.Errorf("step %d is written otherwise", step+1)
		}
	}
}

// TestSettings_OutOfRange gives every setting a value out of its range, and checks that the error names the setting.
func TestSettings_OutOfRange(t *testing.T) {
	expect.OK(t, tinySettings().Check())
	for name, change := range map[string]func(*Config){
		"epochs": func(s *Config) { s.Epochs = 0 }, "batch": func(s *Config) { s.Batch = 0 },
		"accumulate": func(s *Config) { s.Accumulate = -1 }, "seq": func(s *Config) { s.Seq = 1 },
		"lr": func(s *Config) { s.LR = math.NaN() }, "warmup": func(s *Config) { s.Warmup = -1 },
		"clip": func(s *Config) { s.Clip = -1 }, "schedule": func(s *Config) { s.Schedule = "square" },
		"pattern": func(s *Config) { s.Freeze = []string{"["} },
		"keep":    func(s *Config) { s.Keep = 0 }, "max-steps": func(s *Config) { s.MaxSteps = -1 },
		"save-every": func(s *Config) { s.SaveEvery = -2 }, "eval-every": func(s *Config) { s.EvalEvery = -2 },
		"patience": func(s *Config) { s.Patience = -2 }, "sample-every": func(s *Config) { s.SampleEvery = -2 },
	} {
		s := tinySettings()
		change(&s)
		if err := s.Check(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewPlan(s, learnable(41, 1), nil); err == nil {
			t.Errorf("%s: there is a plan", name)
		}
	}
}

// TestPatterns_ChooseParameters checks the choice of parameters by parts of their names.
func TestPatterns_ChooseParameters(t *testing.T) {
	const q, norm, embed = "model.layers.10.self_attn.q_proj.weight", "model.norm.weight", "model.embed_tokens.weight"
	for _, c := range []struct {
		freeze, only []string
		q, norm, emb bool
	}{
		{nil, nil, true, true, true},
		{[]string{"self_attn"}, nil, false, true, true},
		{[]string{"layers.1"}, nil, true, true, true},
		{[]string{"layers.10"}, nil, false, true, true},
		{[]string{"layers.1*"}, nil, false, true, true},
		{nil, []string{"*_proj"}, true, false, false},
		{[]string{"q_proj"}, []string{"self_attn", "norm"}, false, true, false},
		{[]string{"model.layers.*.weight"}, nil, false, true, true},
		{[]string{embed}, nil, true, true, false},
		{[]string{"proj"}, nil, true, true, true},
	} {
		s := Config{Freeze: c.freeze, TrainOnly: c.only}
		if s.Trainable(q) != c.q || s.Trainable(norm) != c.norm || s.Trainable(embed) != c.emb {
			t.Errorf("freeze %v, train only %v: %v %v %v", c.freeze, c.only, s.Trainable(q), s.Trainable(norm),
				s.Trainable(embed))
		}
	}
	params := []model.Param{{Name: q}, {Name: norm}}
	for _, s := range []Config{{Freeze: []string{"proj"}}, {Freeze: []string{"*"}}, {TrainOnly: []string{"mlp"}}} {
		if err := s.CheckPatterns(params); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
	if err := (Config{BalanceLoss: 0.01}).CheckModel(model.Config{}); err == nil ||
		!strings.Contains(err.Error(), "balance-loss 0.01: must be 0, as the model has no experts") {
		t.Errorf("an auxiliary loss without experts: %v", err)
	}
}
