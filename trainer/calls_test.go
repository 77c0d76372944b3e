package trainer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"restyle/hf"
	"restyle/infer"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer/checkpoint"
)

// TestEveryCallOfARunFails makes one call of the driver or of cuBLASLt fail per run. The run has two steps, two
// validations, each with a sample answer, and two checkpoints. It must end with that call's error, or report the error
// if it can continue, and every checkpoint that exists must be complete. Launches do no work, so no step is taken.
func TestEveryCallOfARunFails(t *testing.T) {
	cudatest.Once(t)
	run := func(call, result int) (names []string, saved int, err error) {
		dir := t.TempDir()
		names, err = cudatest.Fail(t, call, result, func() error { return everyCall(dir) })
		found, latest := checkpoint.Latest(CheckpointsIn(dir))
		if latest != nil && !errors.Is(latest, checkpoint.ErrNone) || len(found.Skipped) > 0 {
			t.Errorf("call %d answers %d: the checkpoints are %+v, %v", call, result, found, latest)
		}
		return names, found.Step, err
	}
	if _, saved, err := run(-1, 0); err != nil || saved != 2 { // compiles the kernels
		t.Fatalf("the last checkpoint is that of step %d, %v", saved, err)
	}
	all, _, err := run(-1, 0)
	expect.OK(t, err)
	for _, call := range []string{"cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch", "cublasLtMatmul"} {
		if !slices.Contains(all, call) {
			t.Errorf("%s is not called", call)
		}
	}
	chosen := cudatest.Chosen(all, 101)
	for _, k := range chosen {
		results := cudatest.Results(all[k])[:1] // a failure of only this call is harder to notice
		if slices.Index(all, all[k]) == k {
			results = cudatest.Results(all[k])[:min(2, len(cudatest.Results(all[k])))]
		}
		for _, result := range results {
			names, _, err := run(k, result)
			if wrong := cudatest.Wrong(names, k, result, err); wrong != "" {
				t.Error(wrong)
			}
		}
	}
	t.Logf("%d of %d calls failed in turn", len(chosen), len(all))
}

// everyCall runs a small training run on the emulated GPU, the way a program does.
func everyCall(dir string) (err error) {
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.EvalEvery, s.SaveEvery = 0, 2, 1, 1
	d, err := kernels.Open("emulated", kernels.Options{Fused: kernels.All()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	from, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	if err != nil {
		return err
	}
	plan, err := NewPlan(s, learnable(41, 1), nil)
	if err != nil {
		return err
	}
	m, err := model.New(d, from.Config, plan.ModelOptions(from.Config))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	m.Init(3, 0.05)
	o, err := optim.New(d, m.Params(), s.AdamW())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	r := &Run{Plan: plan, Model: m, Optimizer: o, Dir: dir, Base: from, Identity: plan.Recipe()}
	defer func() { err = errors.Join(err, r.Close()) }()
	e, err := infer.New(m, 16, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r.GenerateSamples = func(ctx context.Context) ([]Sample, error) { return answerOf(ctx, e) }
	var notices error // a sample answer that did not fit in memory; the run continues without it
	r.Hooks = hooks(func(event any) {
		if text, is := event.(notice); is {
			notices = errors.Join(notices, errors.New(string(text)))
		}
	})
	if err := r.startFrom(context.Background(), ""); err != nil {
		return err
	}
	_, err = r.Run(context.Background())
	return errors.Join(err, notices)
}

// answerOf returns a sample answer of four tokens.
func answerOf(ctx context.Context, e *infer.Engine) ([]Sample, error) {
	e.ResetCache()
	g, err := e.Start([]int32{1, 2, 3}, infer.Options{MaxTokens: 4})
	if err != nil {
		return nil, err
	}
	for g.Next(ctx) {
	}
	return []Sample{{Question: "q"}}, g.Err()
}
