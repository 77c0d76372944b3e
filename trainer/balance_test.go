package trainer

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

const tinyMixture = `{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 300,
	"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
	"num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 64, "eos_token_id": 2}`

// TestAuxiliaryLoss_Gradient compares the gradient of a step of several passes with differences of what the step
// minimizes: the mean loss, and the factor times the mean of the passes' auxiliary losses, whatever the loss scale.
func TestAuxiliaryLoss_Gradient(t *testing.T) {
	const factor = 2.0
	for name, c := range map[string]struct {
		settings func(*Config)
		passes   int
		limit    float64
	}{
		"fp32":   {func(s *Config) { s.DType = tensor.F32 }, 2, 0.02}, // the differences are off by up to 1%
		"fp16":   {func(s *Config) { s.DType = tensor.F16 }, 2, 0.05}, // and F16's activations by some 2⁻¹¹ each
		"layers": {func(s *Config) { s.DType, s.Gradients = tensor.F32, LayerGradients }, 1, 0.02},
	} {
		s := tinySettings()
		s.BalanceLoss, s.Clip, s.Batch, s.Accumulate = factor, 0, 1, 4
		c.settings(&s)
		r := tinyOf(t, tinyMixture, t.TempDir(), s)
		d := r.Model.Device()
		passes, _ := r.Plan.Step(0)
		if len(passes) < c.passes {
			t.Fatalf("%s: %d passes, want %d or more", name, len(passes), c.passes)
		}
		targets := 0
		for _, p := range passes {
			targets += p.Targets()
		}
		u, err := r.Update(passes, float32(1/float64(targets)), 0)
		if err != nil || !u.Taken {
			t.Fatalf("%s: %+v, %v", name, u, err)
		}
		minimized := func(m *model.Model) (loss, auxiliary float64) {
			for _, p := range passes {
				l, err := m.Loss(p)
				expect.OK(t, err)
				loss += l.Sum / float64(targets)
				auxiliary += l.Auxiliary / float64(len(passes))
			}
			return loss, auxiliary
		}
		if _, auxiliary := minimized(r.Model); !(math.Abs(auxiliary-u.Auxiliary) <= 1e-6*auxiliary) {
			t.Errorf("%s: the step has an auxiliary loss of %g, not %g", name, u.Auxiliary, auxiliary)
		}
		if s.Gradients == LayerGradients {
			continue // the gradients of other layers share the memory; TestAuxiliaryLoss_SpreadsTokens compares the whole run
		}
		exact := sameIn(t, r, tensor.F32)
		for i, p := range exact.Params() {
			if !strings.HasSuffix(p.Name, "block_sparse_moe.gate.weight") {
				continue
			}
			g, _ := d.Floats(r.Model.Params()[i].Grad)
			w, _ := d.Floats(p.W)
			norm := 0.0
			for j := range g {
				g[j] /= r.Optimizer.LossScale()
				norm += float64(g[j]) * float64(g[j])
			}
			norm = math.Sqrt(norm)
			at := func(step float64) float64 {
				x := slices.Clone(w)
				for j := range x {
					x[j] += float32(step * float64(g[j]) / norm)
				}
				d.Upload(p.W, x)
				loss, auxiliary := minimized(exact)
				return loss + factor*auxiliary
			}
			const h = 2e-4 // so small that it changes no choice of experts, which would make the loss jump
			numeric := (at(h) - at(-h)) / (2 * h)
			d.Upload(p.W, w)
			if !(math.Abs(numeric-norm) <= c.limit*norm) {
				t.Errorf("%s, %s: what the step minimizes rises by %g, the gradient says %g", name, p.Name, numeric, norm)
			}
		}
	}
}

// sameIn returns a model with the weights of a run's model, in another type.
func sameIn(t *testing.T, r *Run, dtype tensor.DType) *model.Model {
	t.Helper()
	o := r.Plan.ModelOptions(r.Base.Config)
	o.DType, o.Train = dtype, false
	m, err := model.New(r.Model.Device(), r.Base.Config, o)
	expect.OK(t, err)
	t.Cleanup(func() { m.Close() })
	for i, p := range m.Params() {
		w, err := r.Model.Device().Floats(r.Model.Params()[i].W)
		expect.OK(t, err)
		r.Model.Device().Upload(p.W, w)
	}
	return m
}

// TestAuxiliaryLoss_SpreadsTokens trains a mixture of experts, two of which get all tokens at first. Without the
// auxiliary loss most tokens stay there; with it they spread, whether the gradients of all layers or of only one are
// held at a time. A run that is stopped and resumed ends with the same bits, metrics included.
func TestAuxiliaryLoss_SpreadsTokens(t *testing.T) {
	s := tinySettings()
	s.LR, s.Epochs, s.DType, s.Batch, s.Accumulate = 3e-3, 8, tensor.F32, 4, 2
	s.EvalEvery, s.SaveEvery = 40, 25
	prefer := func(r *Run) { // all embeddings have a direction in common, to which the first two experts answer
		d := r.Model.Device()
		for _, p := range r.Model.Params() {
			w, _ := d.Floats(p.W)
			switch {
			case strings.HasSuffix(p.Name, "embed_tokens.weight"):
				for i := range w {
					w[i] += 0.1
				}
			case strings.HasSuffix(p.Name, "block_sparse_moe.gate.weight"):
				for i := range 2 * p.W.Dim(-1) {
					w[i] += 0.1
				}
			}
			d.Upload(p.W, w)
		}
	}
	end := func(r *Run) (auxiliary, share float64) { // the mean over the last ten steps, and an expert's largest share
		all, err := report.ReadMetrics[Step](filepath.Join(r.Dir, "metrics.jsonl"))
		expect.OK(t, err)
		all = slices.DeleteFunc(all, func(s Step) bool { return s.Tokens == 0 })
		if first := float64(all[0].Auxiliary); first < 5 || len(all) != 48 {
			t.Fatalf("%d steps, the first with an auxiliary loss of %.2f: two of eight experts do not have all tokens",
				len(all), first)
		}
		for _, s := range all[38:] {
			auxiliary += float64(s.Auxiliary) / 10
		}
		r.Model.OnRouting = func(_ int, _ tensor.Tensor, routing kernels.Routing) {
			at := routing.Offsets.I32()
			for e := range len(at) - 1 {
				share = max(share, float64(at[e+1]-at[e])/float64(at[len(at)-1]))
			}
		}
		defer func() { r.Model.OnRouting = nil }()
		if _, err := ValLoss(context.Background(), r.Model, r.Plan.HeldOut, r.Plan.MaxTokens); err != nil {
			t.Fatal(err)
		}
		return auxiliary, share
	}
	// Evenly spread, the auxiliary loss is 2 and the shares are 1/8 each; with two experts it is 8, and 1/2 each. Runs
	// end at 5.0 and 0.50 without it, and at 2.1 and 0.35 with it.
	plain := tinyOf(t, tinyMixture, t.TempDir(), s, prefer)
	toEnd(t, plain)
	if auxiliary, share := end(plain); auxiliary < 4 || share < 0.45 {
		t.Errorf("without a factor the auxiliary loss becomes %.2f and a share %.2f", auxiliary, share)
	}
	s.BalanceLoss = 0.01
	layers := s
	layers.Gradients = LayerGradients
	even := tinyOf(t, tinyMixture, t.TempDir(), s, prefer)
	for _, r := range []*Run{tinyOf(t, tinyMixture, t.TempDir(), layers, prefer), even} {
		toEnd(t, r)
		if auxiliary, share := end(r); auxiliary > 2.5 || share > 0.42 {
			t.Errorf("with a factor and gradients %s, the auxiliary loss becomes %.2f and a share %.2f",
				r.Plan.Config.Gradients, auxiliary, share)
		}
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	half := tinyOf(t, tinyMixture, dir, s, prefer)
	half.Hooks.Step = func(s Step) {
		if s.Step == 19 {
			cancel()
		}
	}
	expect.OK(t, half.Start(ctx))
	if _, err := half.Run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	again := tinyOf(t, tinyMixture, dir, s)
	expect.OK(t, again.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(dir), 19)))
	if _, err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if hash(t, again) != hash(t, even) {
		t.Error("a resumed run ends with other bits")
	}
}
