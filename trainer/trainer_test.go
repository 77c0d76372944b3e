package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
	"restyle/hf"
	"restyle/kernels"
	"restyle/model"
	"restyle/optim"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// tinyConfig is a model whose matrices are just large enough for state in 8 bits.
const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 64,
	"intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 2}`

// learnable are examples in which the next token follows from the last one: half of each, the prompt, is not trained.
func learnable(n int, seed uint64) (examples []dataset.Example) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		e := dataset.Example{Row: i}
		id := int32(r.IntN(300))
		for range 4 + r.IntN(28) {
			e.IDs = append(e.IDs, id)
			id = (id*7 + 3) % 300
		}
		e.Labels = slices.Clone(e.IDs)
		for j := range len(e.Labels) / 2 {
			e.Labels[j] = dataset.Ignore
		}
		examples = append(examples, e)
	}
	return examples
}

func tinySettings() Settings {
	s := Settings{Epochs: 2, Batch: 2, Accumulate: 2, Seq: 32, LR: 3e-3, Schedule: "cosine", Warmup: 0.1, Clip: 1, Optimizer: optim.Default,
		DType: tensor.BF16, Recompute: model.RecomputeNone, EvalEvery: 4, SaveEvery: 3, Keep: 2, Seed: 5}
	s.Optimizer.Seed = 5
	return s
}

// tiny is a run of the small model in a directory, not yet started.
func tiny(t testing.TB, dir string, s Settings, change ...func(*Run)) *Run {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"config.json": []byte(tinyConfig)}
	from, err := hf.NewModel(files)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(s, learnable(41, 1), learnable(7, 2))
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(d, from.Config, s.ModelOptions(from.Config, plan))
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3, 0.05)
	o, err := optim.New(d, m.Params(), s.Optimizer)
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Settings: s, Plan: plan, Model: m, Optimizer: o, Val: learnable(7, 2), Dir: dir, From: from,
		Identity: s.Recipe(), Decisions: map[string]string{"cpu": d.Level()}}
	for _, f := range change {
		f(r)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), o.Close(), m.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// hash is of everything that a run is: weights, optimiser, counters, and what metrics.jsonl says but for times.
func hash(t testing.TB, r *Run) string {
	t.Helper()
	h := sha256.New()
	for _, p := range r.Model.Params() {
		h.Write(p.W.Raw())
	}
	for _, x := range r.Optimizer.State() {
		fmt.Fprintln(h, x.Name)
		h.Write(x.Raw())
	}
	s := r.State()
	s.Seconds, s.Metrics = 0, 0
	state, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(h, "%s %d", state, r.Optimizer.Steps())
	lines, err := report.ReadMetrics[map[string]any](filepath.Join(r.Dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		delete(l, "seconds")
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// whole runs to the end and returns the hash.
func whole(t testing.TB, dir string, s Settings, change ...func(*Run)) (string, *Run) {
	t.Helper()
	r := tiny(t, dir, s, change...)
	if err := r.Start(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return hash(t, r), r
}

// TestLearns has the loss fall, the best weights be those that are there in the end, and the files be those of a run.
func TestLearns(t *testing.T) {
	s := tinySettings()
	s.Epochs, s.LR, s.SaveEvery, s.EvalEvery = 10, 1e-2, 30, 10
	dir := t.TempDir()
	var saved []int
	_, r := whole(t, dir, s, func(r *Run) {
		r.Observe = func(e any) {
			if s, ok := e.(Saved); ok {
				saved = append(saved, s.Step)
			}
		}
	})
	type line struct {
		Step    int
		Loss    *float64
		ValLoss *float64 `json:"val_loss"`
		Best    bool
	}
	lines, err := report.ReadMetrics[line](filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	best, first := math.Inf(1), 0.0
	steps := 0
	for _, l := range lines {
		switch {
		case l.Loss != nil:
			steps++
			if l.Step != steps {
				t.Errorf("line of step %d where %d belongs", l.Step, steps)
			}
		case first == 0:
			first = *l.ValLoss
			fallthrough
		default:
			if l.Best != (*l.ValLoss < best) {
				t.Errorf("after step %d: %v, best %v before it, marked %v", l.Step, *l.ValLoss, best, l.Best)
			}
			best = min(best, *l.ValLoss)
		}
	}
	if steps != r.Plan.Steps || steps != 10*11 {
		t.Errorf("%d steps, planned %d", steps, r.Plan.Steps)
	}
	if best > 0.6*first || math.Abs(first-math.Log(300)) > 0.3 {
		t.Errorf("validation loss went from %.3f to %.3f", first, best)
	}
	l, err := ValLoss(context.Background(), r.Model, r.Val, r.Plan.MaxTokens)
	if err != nil || l.Mean() != best {
		t.Errorf("the weights that are there have validation loss %v, the best is %v (%v)", l.Mean(), best, err)
	}
	if want := []int{30, 60, 90}; !slices.Equal(saved[:3], want) || saved[len(saved)-1] != steps {
		t.Errorf("checkpoints after %v", saved)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "checkpoints", "step-*"))
	if len(kept) != 2 {
		t.Errorf("%v were kept", kept)
	}
}

// TestResume stops runs after every step, as Ctrl-C does, and goes on in a new process's memory: the end has the same bits as
// that of a run that was never stopped. Every form of optimiser state and of batches is tried.
func TestResume(t *testing.T) {
	forms := map[string]func(*Settings){
		"split8": func(s *Settings) {},
		"sr":     func(s *Settings) { s.Optimizer.Master = optim.Stochastic },
		"fp32 master, 32 bits, packing": func(s *Settings) {
			s.Optimizer.Master, s.Optimizer.Bits, s.Packing, s.SaveEvery = optim.FP32, 32, true, 2
		},
		"fp32, wsd, frozen": func(s *Settings) {
			s.DType, s.Schedule, s.Freeze, s.EvalEvery = tensor.F32, "wsd", []string{"embed_tokens"}, 0
		},
		"bnb, max-steps, patience": func(s *Settings) {
			s.Optimizer.BNB, s.Optimizer.Master, s.MaxSteps, s.Patience, s.LR = true, optim.NoMaster, 9, 2, 0.1
		},
	}
	for name, change := range forms {
		t.Run(name, func(t *testing.T) {
			s := tinySettings()
			change(&s)
			want, control := whole(t, t.TempDir(), s)
			for stop := 1; stop < control.State().Step; stop++ {
				if stop%4 != 1 && (name != "split8" || testing.Short()) {
					continue
				}
				dir := t.TempDir()
				stopped(t, dir, s, stop, func(any) {})
				found, err := checkpoint.Latest(CheckpointsIn(dir))
				if err != nil || found.Step != stop {
					t.Fatalf("stopped after step %d, and the checkpoint is %+v, %v", stop, found, err)
				}
				again := tiny(t, dir, s)
				if err := again.Start(context.Background(), found.Dir); err != nil {
					t.Fatal(err)
				}
				if _, err := again.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				if got := hash(t, again); got != want {
					t.Errorf("resumed after step %d it ends as %.12s, want %.12s", stop, got, want)
				}
			}
		})
	}
}

// TestStateIsNeeded loses one part of the state at a time: the end must then differ, or TestResume proves nothing.
func TestStateIsNeeded(t *testing.T) {
	s := tinySettings()
	s.SaveEvery, s.LR, s.Schedule = 5, 0.05, "constant" // so large a rate that the best weights are not the last ones
	dir := t.TempDir()
	want, control := whole(t, dir, s)
	if best := control.State().Best.Step; best >= 20 {
		t.Fatalf("the best weights are those after step %d: this shows nothing", best)
	}
	from := checkpoint.Dir(CheckpointsIn(dir), 20)
	if err := checkpoint.Open(from); err != nil {
		t.Fatal(err)
	}
	continued := func(spoil func(r *Run)) string {
		r := tiny(t, t.TempDir(), s)
		lines, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		best, err := filepath.Glob(filepath.Join(CheckpointsIn(dir), "best-*"))
		if err != nil || len(best) != 1 {
			t.Fatal(best, err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(r.Dir, "metrics.jsonl"), lines, 0o666),
			os.CopyFS(filepath.Join(CheckpointsIn(r.Dir), filepath.Base(best[0])), os.DirFS(best[0]))); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(context.Background(), from); err != nil {
			t.Fatal(err)
		}
		spoil(r)
		if _, err := r.Run(context.Background()); err != nil {
			return err.Error()
		}
		return hash(t, r)
	}
	if got := continued(func(*Run) {}); got != want {
		t.Fatalf("with all of the state it ends as %.12s, want %.12s", got, want)
	}
	spoils := map[string]func(*Run){
		"steps of the optimiser": func(r *Run) { r.Optimizer.SetSteps(0) },
		"step":                   func(r *Run) { r.state.Step-- },
		"tokens":                 func(r *Run) { r.state.Tokens = 0 },
		"trained":                func(r *Run) { r.state.Trained = 0 },
		"examples":               func(r *Run) { r.state.Examples = 0 },
		"skipped":                func(r *Run) { r.state.Skipped = 3 },
		"best":                   func(r *Run) { r.state.Best = nil },
		"since best":             func(r *Run) { r.state.SinceBest += 5 },
		"weights":                func(r *Run) { r.Model.Device().Zero(r.Model.Params()[1].W) },
	}
	r := tiny(t, t.TempDir(), s)
	for _, x := range r.Optimizer.State() {
		// One bit of every tensor of the state: those that are all zero, such as residuals of weights that are exact, change too.
		spoils[x.Name] = func(r *Run) {
			for _, y := range r.Optimizer.State() {
				if y.Name == x.Name {
					y.Raw()[y.Bytes()-1] ^= 0x10
				}
			}
		}
	}
	for name, spoil := range spoils {
		if got := continued(spoil); got == want {
			t.Errorf("%s: lost, and the end is the same", name)
		}
	}
}

// TestResumeRefuses has a resume with another recipe, data or model name what differs.
func TestResumeRefuses(t *testing.T) {
	s := tinySettings()
	dir := t.TempDir()
	whole(t, dir, s)
	found, err := checkpoint.Latest(CheckpointsIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	other := s
	other.LR, other.Seed = 1e-3, 6
	err = tiny(t, dir, other).Start(context.Background(), found.Dir)
	if err == nil || !strings.Contains(err.Error(), "lr was 0.003 and is now 0.001") || !strings.Contains(err.Error(), "seed was 5 and is now 6") {
		t.Errorf("another recipe: %v", err)
	}
	for file, damage := range map[string]func(string) string{
		"state.json":            func(s string) string { return strings.Replace(s, `"format": 1`, `"format": 9`, 1) },
		"optimizer.safetensors": func(s string) string { return s[:len(s)-1] },
		"model.safetensors":     func(s string) string { return s[:len(s)/2] },
	} {
		copied := filepath.Join(t.TempDir(), filepath.Base(found.Dir))
		if err := os.CopyFS(copied, os.DirFS(found.Dir)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(copied, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, file), []byte(damage(string(data))), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := tiny(t, dir, s).Start(context.Background(), copied); err == nil || !strings.Contains(err.Error(), copied) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSkips has a gradient that is not finite move nothing, and end the run when it stays so.
func TestSkips(t *testing.T) {
	s := tinySettings()
	s.SaveEvery = 100
	r := tiny(t, t.TempDir(), s)
	if err := r.Start(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	var norm tensor.Tensor
	for _, p := range r.Model.Params() {
		if p.Name == "model.norm.weight" {
			norm = p.W
		}
	}
	state := func() string {
		h := sha256.New()
		for _, x := range r.Optimizer.State() {
			h.Write(x.Raw())
		}
		for _, p := range r.Model.Params() {
			h.Write(p.W.Raw())
		}
		return string(h.Sum(nil))
	}
	spoiled := func(f func() error) error {
		was := norm.Half()[3]
		norm.Half()[3] = 0x7fc0 // NaN
		before := state()
		err := f()
		if state() != before {
			t.Error("a step that was skipped moved something")
		}
		norm.Half()[3] = was
		return err
	}
	step := func() error { return r.step() }
	if err := errors.Join(step(), spoiled(step), spoiled(step), step()); err != nil {
		t.Fatal(err)
	}
	if s := r.State(); s.Skipped != 2 || s.InARow != 0 || s.Step != 4 || r.Optimizer.Steps() != 2 {
		t.Errorf("after two skipped steps of four: %+v, %d updates", s, r.Optimizer.Steps())
	}
	for i := range mostSkipped {
		err := spoiled(step)
		if last := i == mostSkipped-1; last != (err != nil) {
			t.Errorf("skipped step %d in a row: %v", i+1, err)
		}
	}
}

// TestMemory compares the table with what is allocated while a run goes on.
func TestMemory(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F32} {
		s := tinySettings()
		s.DType, s.Freeze = dtype, []string{"layers.0"}
		r := tiny(t, t.TempDir(), s)
		d := r.Model.Device()
		want := MemoryOf(d, r.Model.Config(), s, r.Plan).Total()
		if got := d.Allocated(); got != want {
			t.Errorf("%v: %d bytes are allocated, and the table says %d", dtype, got, want)
		}
		if err := r.Start(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := d.Allocated(); got != want {
			t.Errorf("%v: %d bytes are allocated after the run, and the table says %d", dtype, got, want)
		}
	}
}

// TestFit follows the advice and sees whether it is true.
func TestFit(t *testing.T) {
	s := tinySettings()
	s.Seq, s.Batch, s.Optimizer.Bits, s.Optimizer.Master = 512, 4, 32, optim.FP32
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := hf.ParseConfig([]byte(strings.NewReplacer(`"max_position_embeddings": 64`, `"max_position_embeddings": 1024`,
		`"hidden_size": 64`, `"hidden_size": 1024`, `"vocab_size": 300`, `"vocab_size": 9000`).Replace(tinyConfig)))
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{MaxTokens: 2048, Longest: 512}
	total := MemoryOf(d, c, s, plan).Total()
	alone, together := Fit(d, kernels.All(), c, s, plan, 0, total*9/10)
	if len(alone) == 0 || together != "" {
		t.Errorf("a tenth less: %q, %q", alone, together)
	}
	alone, together = Fit(d, kernels.All(), c, s, plan, 0, total/3)
	if alone != nil || !strings.Contains(together, "--recompute block --batch 1") {
		t.Errorf("a third: %q, %q", alone, together)
	}
	if alone, together = Fit(d, kernels.All(), c, s, plan, 0, 1000); alone != nil || together != "" {
		t.Errorf("nearly nothing: %q, %q", alone, together)
	}
}
