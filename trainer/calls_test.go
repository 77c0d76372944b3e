package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/optim"
	"restyle/trainer/checkpoint"
)

// TestEveryCallOfARunFails has a call of the driver fail in a run of two steps, two validations and two checkpoints, one a run, whichever it
// is: the run ends with that call's error, and every checkpoint that is there is whole. Launches do no work, so no step is taken.
func TestEveryCallOfARunFails(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Setenv("RESTYLE_CACHE", t.TempDir())
	file := filepath.Join(t.TempDir(), "calls")
	run := func(fail, result int) (calls []string, saved int, err error) {
		cudatest.Set(t, fmt.Sprintf("IDLE=1 FAIL=%d RESULT=%d CALLS=%s", fail, result, file))
		dir := t.TempDir()
		err = everyCall(dir)
		if errors.Is(err, cuda.ErrNoCompiler) {
			t.Skip(err)
		}
		found, latest := checkpoint.Latest(CheckpointsIn(dir))
		if latest != nil && !errors.Is(latest, checkpoint.ErrNone) || len(found.Skipped) > 0 {
			t.Errorf("call %d answers %d: the checkpoints are %+v, %v", fail, result, found, latest)
		}
		text, missing := os.ReadFile(file)
		if missing != nil {
			t.Fatal(missing)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n"), found.Step, err
	}
	all, saved, err := run(0, 0)
	if err != nil || saved != 2 {
		t.Fatalf("the last checkpoint is that of step %d, %v", saved, err)
	}
	var chosen []int // each kind's first and last call, and some between
	for k, call := range all {
		if slices.Index(all, call) == k || !slices.Contains(all[k+1:], call) || k%101 == 0 || os.Getenv("RESTYLE_LONG") != "" {
			chosen = append(chosen, k)
		}
	}
	// There is a way without these.
	optional := []string{"cuMemHostAlloc", "cuDeviceGetAttribute", "cuEventDestroy_v2", "cuMemFreeHost"}
	for _, k := range chosen {
		for _, result := range []int{2, 700} {
			calls, _, err := run(k+1, result)
			if k >= len(calls) || err == nil && result == 2 && slices.Contains(optional, calls[k]) {
				continue
			}
			var e *cuda.Error
			if !errors.As(err, &e) || e.Code != result || !strings.Contains(err.Error(), calls[k]) {
				t.Errorf("call %d of %d, %s, answers %d: %v", k+1, len(all), calls[k], result, err)
			}
		}
	}
	t.Logf("%d of %d calls failed in turn, with two results", len(chosen), len(all))
}

// everyCall is a small run on the emulated GPU, as a program has it.
func everyCall(dir string) (err error) {
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.EvalEvery, s.SaveEvery = 0, 2, 1, 1
	d, err := kernels.Open("emulated", kernels.Options{Fused: kernels.All(), OwnProducts: true})
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
	m, err := model.New(d, from.Config, s.ModelOptions(from.Config, plan))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	m.Init(3, 0.05)
	o, err := optim.New(d, m.Params(), s.Optimizer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	r := &Run{Settings: s, Plan: plan, Model: m, Optimizer: o, Val: learnable(7, 2), Dir: dir, From: from, Identity: s.Recipe()}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Start(context.Background(), ""); err != nil {
		return err
	}
	_, err = r.Run(context.Background())
	return err
}
