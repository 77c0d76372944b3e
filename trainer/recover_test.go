package trainer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
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

// TestStoppedEvaluations stops runs during evaluations at the start, in the middle and after the last step, both in the
// validation and in the samples. The resumed run must make up for the evaluation and end with the same bits.
func TestStoppedEvaluations(t *testing.T) {
	s := tinySettings()
	s.SampleEvery = 3
	// run returns a run that generates samples and calls at before each validation and each sample.
	run := func(dir string, at func(what string, step int)) *Run {
		return tiny(t, dir, s, func(r *Run) {
			r.Hooks = hooks(func(e any) {
				if e == Phase("evaluate") {
					at("validation", r.State().Step)
				}
			})
			r.GenerateSamples = func(ctx context.Context) ([]Sample, error) {
				at("answers", r.State().Step)
				tone := r.State().Step % 5
				return []Sample{{"q", "a", &tone}, {"q", "a", nil}}, ctx.Err()
			}
		})
	}
	control := run(t.TempDir(), func(string, int) {})
	finish := func(r *Run, from string) string {
		expect.OK(t, r.startFrom(context.Background(), from))
		if _, err := r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return hash(t, r)
	}
	want := finish(control, "")
	if b := control.State().Best; b.Tone == nil || *b.Tone != float64(b.Step%5) {
		t.Errorf("the best weights, after step %d, have the tone %v of others", b.Step, b.Tone)
	}
	for _, what := range []string{"validation", "answers"} {
		for _, at := range []int{0, 3, 4, control.Plan.Steps} {
			t.Run(fmt.Sprintf("%s after %d", what, at), func(t *testing.T) {
				t.Parallel() // they wait for the disk
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(context.Background())
				late := false // whether anything is done after the stop
				r := run(dir, func(what2 string, step int) {
					late = ctx.Err() != nil
					if what2 == what && step == at {
						cancel()
					}
				})
				expect.OK(t, r.startFrom(ctx, ""))
				if _, err := r.Run(ctx); !errors.Is(err, ErrStopped) {
					t.Fatal(err)
				}
				found, err := checkpoint.Latest(CheckpointsIn(dir))
				expect.OK(t, err)
				state, err := ReadState(found.Dir)
				// If an evaluation has only samples, the phase before them stops the run in them.
				if err != nil || found.Step != at || state.Pending == "" || late && at != 3 {
					t.Fatalf("stopped: %+v, %+v, %v; went on: %v", found, state, err, late)
				}
				if got := finish(run(dir, func(string, int) {}), found.Dir); got != want {
					t.Errorf("stopped it ends as %.12s, want %.12s", got, want)
				}
			})
		}
	}
}

// TestBestIsChecked damages and removes the best weights. The checkpoint of the same step must replace them, and
// without one the run must continue and report it.
func TestBestIsChecked(t *testing.T) {
	s := tinySettings()
	s.SaveEvery, s.EvalEvery, s.Keep = 5, 5, 10
	script := finds(bestAfter(10))
	source := t.TempDir()
	want, control := whole(t, source, s, script)
	best, last := control.State().Best, control.Plan.Steps
	if best.Step != 10 {
		t.Fatalf("the best weights are those after step %d", best.Step)
	}
	damage := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("x"), 0o666)
	}
	for name, c := range map[string]struct {
		spoil func(dir string) error // spoils the best weights
		own   bool                   // whether the step's own checkpoint exists
	}{"damaged": {damage, true}, "lost": {os.RemoveAll, true}, "all damaged": {damage, false},
		"all lost": {os.RemoveAll, false}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			expect.OK(t, os.CopyFS(dir, os.DirFS(source)))
			expect.OK(t, c.spoil(bestIn(dir, best.Step)))
			if !c.own {
				expect.OK(t, os.RemoveAll(checkpoint.Dir(CheckpointsIn(dir), best.Step)))
			}
			var said []string
			r := tiny(t, dir, s, script, func(r *Run) {
				r.Hooks = hooks(func(e any) {
					if n, ok := e.(notice); ok {
						said = append(said, string(n))
					}
				})
			})
			expect.OK(t, r.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(dir), last)))
			res, err := r.Run(context.Background())
			if err != nil || len(said) != 1 || !strings.Contains(said[0], fmt.Sprintf("those after step %d", best.Step)) {
				t.Fatalf("%v, said %q", err, said)
			}
			if got := hash(t, r); c.own != (got == want) || c.own != (res.Best != nil) {
				t.Errorf("it ends as %.12s with the best %+v, the control as %.12s", got, res.Best, want)
			}
		})
	}

	// Damage during the run is found before the weights are used.
	dir := t.TempDir()
	r := tiny(t, dir, s, script, func(r *Run) {
		r.Hooks = hooks(func(e any) {
			if e == Phase("done") {
				file := filepath.Join(bestIn(dir, best.Step), "model.safetensors")
				data, err := os.ReadFile(file)
				expect.OK(t, err)
				data[len(data)-1] ^= 1 // only the checksum reveals this
				if err := os.WriteFile(file, data, 0o666); err != nil {
					t.Error(err)
				}
			}
		})
	})
	expect.OK(t, r.startFrom(context.Background(), ""))
	if _, err := r.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "the best weights") {
		t.Errorf("damaged weights were taken: %v", err)
	}
}

// stopped runs until after a step and stops as on Ctrl-C. It passes every event to watch.
func stopped(t *testing.T, dir string, s Config, after int, watch func(e any), change ...func(*Run)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := tiny(t, dir, s, change...)
	r.Hooks = hooks(func(e any) {
		watch(e)
		if s, ok := e.(Step); ok && s.Step == after {
			cancel()
		}
	})
	expect.OK(t, r.startFrom(ctx, ""))
	if _, err := r.Run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatalf("stopped after step %d: %v", after, err)
	}
}

// TestOlderCheckpoint damages the newest checkpoint of a stopped run. The run must resume from the previous one, find
// the best weights that it refers to, and end with the same bits.
func TestOlderCheckpoint(t *testing.T) {
	s := tinySettings()
	s.EvalEvery, s.SaveEvery = 1, 6
	script := finds(bestAfter(100)) // every validation improves on the best weights
	want, _ := whole(t, t.TempDir(), s, script)
	dir, most := t.TempDir(), 0
	stopped(t, dir, s, 10, func(any) {
		best, _ := filepath.Glob(filepath.Join(CheckpointsIn(dir), "best-*"))
		most = max(most, len(best))
	}, script)
	if most > s.Keep+1 {
		t.Errorf("there were %d best weights at a time, beside %d checkpoints", most, s.Keep)
	}
	newest, older := checkpoint.Dir(CheckpointsIn(dir), 10), checkpoint.Dir(CheckpointsIn(dir), 6)
	a, err1 := ReadState(newest)
	b, err2 := ReadState(older)
	if err := errors.Join(err1, err2); err != nil || a.Best.Step == b.Best.Step {
		t.Fatalf("the best weights are %+v and %+v, which shows nothing: %v", a.Best, b.Best, err)
	}
	expect.OK(t, os.WriteFile(filepath.Join(newest, "optimizer.safetensors"), []byte("x"), 0o666))
	found, err := checkpoint.Latest(CheckpointsIn(dir))
	if err != nil || found.Dir != older {
		t.Fatal(found, err)
	}
	again := tiny(t, dir, s, script, func(r *Run) {
		r.Hooks = hooks(func(e any) {
			if n, ok := e.(notice); ok {
				t.Error(n)
			}
		})
	})
	unknown := bestIn(dir, 99) // as a kill leaves it before any checkpoint refers to it
	expect.OK(t, os.Mkdir(unknown, 0o777))
	expect.OK(t, again.startFrom(context.Background(), found.Dir))
	if _, err := os.Stat(unknown); err == nil {
		t.Error("weights of which no checkpoint tells are kept")
	}
	if _, err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := hash(t, again); got != want {
		t.Errorf("it ends as %.12s, want %.12s", got, want)
	}
}

// TestBest_OfEachCheckpoint checks after every checkpoint that the best weights of each that is kept are there, and no
// others, however many are kept and however often the best ones change.
func TestBest_OfEachCheckpoint(t *testing.T) {
	s := tinySettings()
	s.EvalEvery, s.SaveEvery = 1, 3
	for _, c := range []struct{ keep, last int }{{1, 100}, {3, 100}, {3, 5}} { // the last step that is the best so far
		s.Keep = c.keep
		dir, saved := t.TempDir(), 0
		r := tiny(t, dir, s, finds(bestAfter(c.last)))
		r.Hooks = hooks(func(e any) {
			if _, is := e.(Saved); !is {
				return
			}
			saved++
			steps, err := checkpoint.Steps(CheckpointsIn(dir))
			if err != nil || len(steps) != min(c.keep, saved) {
				t.Errorf("of %d checkpoints, %d kept: %v, %v", saved, c.keep, steps, err)
			}
			want := map[string]bool{bestIn(dir, r.State().Best.Step): true}
			for _, step := range steps {
				state, err := ReadState(checkpoint.Dir(CheckpointsIn(dir), step))
				expect.OK(t, err)
				want[bestIn(dir, state.Best.Step)] = true
			}
			there, _ := filepath.Glob(filepath.Join(CheckpointsIn(dir), "best-*"))
			if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, there) {
				t.Errorf("after step %d, %d kept: the best weights are %q, want %q", r.State().Step, c.keep, there, got)
			}
		})
		toEnd(t, r)
	}
}

// TestMetricsGone removes metrics.jsonl of a stopped run. The run must report it, and must be resumable after a kill
// soon afterwards: in a later step, or while it writes the first checkpoint that refers to the new file, with an
// evaluation still pending.
func TestMetricsGone(t *testing.T) {
	for name, c := range map[string]struct {
		evalEvery int
		killed    func(e any) bool
		said      int
	}{
		"in a step":      {4, func(e any) bool { s, ok := e.(Step); return ok && s.Step == 7 }, 1},
		"while it saves": {5, func(e any) bool { return e == Saving }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := tinySettings()
			s.SaveEvery, s.EvalEvery = 100, c.evalEvery
			dir, killed := t.TempDir(), t.TempDir()
			stopped(t, dir, s, 5, func(any) {})
			expect.OK(t, os.Remove(filepath.Join(dir, "metrics.jsonl")))
			var said []string
			resume := func(dir string, watch func(e any)) string {
				found, err := checkpoint.Latest(CheckpointsIn(dir))
				if err != nil || found.Step != 5 {
					t.Fatal(found, err)
				}
				r := tiny(t, dir, s, func(r *Run) {
					r.Hooks = hooks(func(e any) {
						if n, ok := e.(notice); ok {
							said = append(said, string(n))
						}
						watch(e)
					})
				})
				expect.OK(t, r.startFrom(context.Background(), found.Dir))
				if _, err := r.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				return hash(t, r)
			}
			copied := false
			want := resume(dir, func(e any) {
				if c.killed(e) && !copied {
					copied = true
					if err := os.CopyFS(killed, os.DirFS(dir)); err != nil { // what a kill would leave
						t.Error(err)
					}
				}
			})
			if len(said) != 1 || !strings.Contains(said[0],
				"metrics.jsonl is missing: the metrics up to step 5 are lost") {
				t.Errorf("said %q", said)
			}
			if got := resume(killed, func(any) {}); got != want || len(said) != c.said {
				t.Errorf("it ends as %.12s, want %.12s; said %q", got, want, said)
			}
		})
	}
}

// TestNaNIsNotBest checks that a loss after a NaN loss can still be the best.
func TestNaNIsNotBest(t *testing.T) {
	r := tiny(t, t.TempDir(), tinySettings())
	for _, c := range []struct {
		loss float64
		best bool
	}{{math.NaN(), false}, {math.Inf(1), false}, {3, true}, {math.NaN(), false}, {math.Inf(-1), false}, {2, true}} {
		e := Evaluation{Loss: report.Number(c.loss)}
		if err := r.updateBest(&e); err != nil || e.Best != c.best {
			t.Errorf("loss %v: best is %v, %v", c.loss, e.Best, err)
		}
	}
}

// TestSettings_RefuseMistakes checks that values that must be mistakes are refused, not computed with.
func TestSettings_RefuseMistakes(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"batch": func(s *Config) { s.Batch = 1 << 62 }, "accumulate": func(s *Config) { s.Accumulate = math.MaxInt64 },
		"epochs": func(s *Config) { s.Epochs = 2e9 }, "max-steps": func(s *Config) { s.MaxSteps = 1 << 40 },
		"seq": func(s *Config) { s.Seq = 1 << 40 }, "keep": func(s *Config) { s.Keep = 1 << 40 },
		"weight-decay": func(s *Config) { s.WeightDecay = -1 }, `freeze "["`: func(s *Config) { s.Freeze = []string{"["} },
		`train-only "["`: func(s *Config) { s.TrainOnly = []string{"["} },
	} {
		s := tinySettings()
		change(&s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, warmup := range []float64{1e18, 1e300, 23} {
		s := tinySettings()
		s.Warmup = warmup
		if _, err := NewPlan(s, learnable(41, 1), nil); err == nil || !strings.HasPrefix(err.Error(), "warmup") {
			t.Errorf("warmup %v of 22 steps: %v", warmup, err)
		}
	}
}

// TestFitGivesWhatIsTaken checks that no advice would itself be refused, and that the memory for samples follows the
// sequence length.
func TestFitGivesWhatIsTaken(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	r := tiny(t, t.TempDir(), tinySettings())
	c := r.Model.Config()
	c.Dim, c.Inner, c.Vocab, c.MaxPositions = 512, 1024, 9000, 8192
	all := func(s Config) string {
		plan := Plan{Config: s, Longest: s.Seq, MaxTokens: s.Batch * s.Seq}
		total := MemoryOf(d, d.Fused(), c, &plan).Total()
		return words(fitting{d: d, model: c, limit: total - 1}.remedies(variant{plan: plan}))
	}
	s := tinySettings()
	s.Seq, s.Samples, s.SampleTokens = 4096, 1, 100
	s.BNB = true
	if got := all(s); strings.Contains(got, "master") || !strings.Contains(got, "fused (") ||
		!strings.Contains(got, "samples 0 (") {
		t.Errorf("with bitsandbytes' optimizer: %s", got)
	}
	s = tinySettings()
	s.Seq, s.Freeze = 512, []string{"mlp"}
	if got := all(s); strings.Contains(got, "train-only") || !strings.Contains(got, "recompute") {
		t.Errorf("with a frozen MLP: %s", got)
	}
	s = tinySettings()
	s.Seq, s.Batch, s.Samples, s.SampleTokens, s.DType = 4096, 1, 1, 100, tensor.BF16
	short := s
	short.Seq = 256
	plan := &Plan{Config: short, Longest: 256}
	plan.MaxTokens = plan.passTokens()
	want := MemoryOf(d, d.Fused(), c, plan).Total()
	if got := all(s); !strings.Contains(got, "seq 256 ("+kernels.Bytes(want)+")") {
		t.Errorf("want %s for seq 256: %s", kernels.Bytes(want), got)
	}
}

// TestEstimate_Disk compares the disk space that a run is estimated to need with what it leaves.
func TestEstimate_Disk(t *testing.T) {
	s := tinySettings()
	s.Keep = 100 // so that nothing is removed
	dir := t.TempDir()
	_, r := whole(t, dir, s)
	var size int64
	steps, err := filepath.Glob(filepath.Join(CheckpointsIn(dir), "step-*", "*.safetensors"))
	expect.OK(t, err)
	for _, path := range steps {
		info, err := os.Stat(path)
		expect.OK(t, err)
		size += info.Size()
	}
	disk := func(c Config, evaluated bool, saved int) int64 {
		p := *r.Plan
		if p.Config = c; !evaluated {
			p.HeldOut = nil
		}
		return MaxDisk(r.Model.Config(), &p, saved)
	}
	weights := model.MemoryOf(r.Model.Device(), nil, r.Model.Config(), r.Plan.ModelOptions(r.Model.Config())).Weights
	// The best weights that each checkpoint may refer to, and the result.
	models := int64(min(len(steps)/2, 1+r.Plan.Left(s.EvalEvery, 0)) + 1)
	// Headers count in such small files.
	if got := disk(s, true, 0) - models*int64(weights); !(math.Abs(float64(got-size)) <= 0.1*float64(size)) {
		t.Errorf("checkpoints take %d bytes, and are said to take %d", size, got)
	}
	s.EvalEvery, s.SaveEvery = 0, 1
	// Arenas round sizes up.
	auto := *r.Plan
	auto.Config = s
	evaluations := 1 + auto.EvaluationsLeft(0)
	a, b := disk(s, true, 0), disk(s, false, 0)
	if times := float64(a-b) / float64(weights); !(math.Abs(times-float64(evaluations)) <= 0.1) {
		t.Errorf("many checkpoints, and %d evaluations: %d bytes for the best weights", evaluations, a-b)
	}
	s = tinySettings()
	s.Keep = 1
	if got, more := disk(s, true, 0), disk(s, true, 5); got != more {
		t.Errorf("with one kept: %d, and %d where there are five", got, more)
	}
	if a, b := disk(s, true, 0), disk(s, false, 0); a-b < 2*int64(weights)*9/10 || b > size/2 {
		t.Errorf("with one kept: %d, and %d without evaluations", a, b)
	}
}

// TestSame_MessageIsShort checks that a message does not fill the screen with hashes.
func TestSame_MessageIsShort(t *testing.T) {
	a, b := strings.Repeat("0123456789abcdef", 4), strings.Repeat("fedcba9876543210", 4)
	err := CheckIdentity(map[string]string{"data": a, "model": "new " + a}, map[string]string{"data": b, "model": "new " +
		b})
	if err == nil || !strings.HasSuffix(err.Error(),
		"data was 0123456789ab and is now fedcba987654; model was new 0123456789ab and is now new fedcba987654") {
		t.Error(err)
	}
	err = CheckIdentity(map[string]string{"lr": "1"}, map[string]string{"lr": "", "bnb": "true"})
	expect.Error(t, err, "it would not be the same run: bnb was nothing and is now true; lr was 1 and is now nothing")
}
