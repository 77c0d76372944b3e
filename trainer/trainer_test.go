package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/dataset/training"
	"restyle/hf"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/optim"
	"restyle/quant"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// tinyConfig is a model whose matrices are just large enough for 8-bit state.
const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 64,
	"intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true,
	"eos_token_id": 2}`

// learnable returns examples in which each token determines the next one. The first half of each, the prompt, is not
// trained.
func learnable(n int, seed uint64) (examples []training.Example) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		e := training.Example{Row: i}
		id := int32(r.IntN(300))
		for range 4 + r.IntN(28) {
			e.IDs = append(e.IDs, id)
			id = (id*7 + 3) % 300
		}
		e.Labels = slices.Clone(e.IDs)
		for j := range len(e.Labels) / 2 {
			e.Labels[j] = training.Ignore
		}
		examples = append(examples, e)
	}
	return examples
}

func tinySettings() Config {
	s := DefaultConfig()
	s.Epochs, s.Batch, s.Accumulate, s.Seq, s.LR, s.Warmup, s.EvalEvery, s.SaveEvery, s.Seed = 2, 2, 2, 32, 3e-3, 0.1, 4,
		3, 5
	s.Samples = 0
	return s
}

// startFrom starts a run from a checkpoint's directory, or a new one if from is empty.
func (r *Run) startFrom(ctx context.Context, from string) error {
	r.From = from
	return r.Start(ctx)
}

// A notice is the argument of the hook of that name.
type notice string

// hooks returns hooks that all call f.
func hooks(f func(event any)) Hooks {
	return Hooks{
		Step: func(e Step) { f(e) }, Evaluation: func(e Evaluation) { f(e) }, Saved: func(e Saved) { f(e) },
		Phase: func(e Phase) { f(e) }, Notice: func(e string) { f(notice(e)) },
	}
}

// tiny returns a run of the small model in a directory, not yet started.
func tiny(t testing.TB, dir string, s Config, change ...func(*Run)) *Run {
	t.Helper()
	return tinyOf(t, tinyConfig, dir, s, change...)
}

// tinyOf is like tiny, for another small model.
func tinyOf(t testing.TB, config, dir string, s Config, change ...func(*Run)) *Run {
	t.Helper()
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All(), Threads: 2})
	expect.OK(t, err)
	return tinyOn(t, d, config, dir, s, change...)
}

// tinyOn is like tinyOf, on a given device.
func tinyOn(t testing.TB, d *kernels.Device, config, dir string, s Config, change ...func(*Run)) *Run {
	t.Helper()
	plan, err := NewPlan(s, learnable(41, 1), learnable(7, 2))
	expect.OK(t, err)
	return tinyPlanned(t, d, config, dir, plan, change...)
}

// tinyPlanned is like tinyOn, for a given plan.
func tinyPlanned(t testing.TB, d *kernels.Device, config, dir string, plan *Plan, change ...func(*Run)) *Run {
	t.Helper()
	files := map[string][]byte{"config.json": []byte(config)}
	from, err := hf.NewModel(files)
	expect.OK(t, err)
	m, err := model.New(d, from.Config, plan.ModelOptions(from.Config))
	expect.OK(t, err)
	initialize(t, m)
	o, err := optim.New(d, m.Params(), plan.Config.AdamW())
	expect.OK(t, err)
	r := &Run{Plan: plan, Model: m, Optimizer: o, Dir: dir, Base: from,
		Identity: plan.Recipe(), Decisions: map[string]string{"cpu": d.Level()}}
	for _, f := range change {
		f(r)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// initialize sets the first weights of a model, adapters and quantized ones included.
func initialize(t testing.TB, m *model.Model) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 0))
	for _, p := range m.Params() {
		rule := quant.RuleFor(p.W.DType)
		if rule == "" {
			continue
		}
		x, codes := make([]float32, p.W.Len()), make([]byte, p.W.Bytes())
		for i := range x {
			x[i] = float32(0.05 * r.NormFloat64())
		}
		expect.OK(t, rule.Quantize(codes, x, p.W.Dim(-1)))
		m.Device().UploadBytes(p.W, codes)
	}
	m.Init(3, 0.05)
	m.InitAdapters(3)
}

// hash returns a hash of the whole run: weights, optimizer, counters, and metrics.jsonl except times.
func hash(t testing.TB, r *Run) string {
	t.Helper()
	h := sha256.New()
	for _, p := range r.Model.Params() {
		h.Write(contents(t, r, p.W))
	}
	for _, x := range r.Optimizer.State() {
		fmt.Fprintln(h, x.Name)
		h.Write(contents(t, r, x))
	}
	s := r.State()
	s.Seconds, s.Metrics = 0, 0
	state, err := json.Marshal(s)
	expect.OK(t, err)
	fmt.Fprintf(h, "%s %d", state, r.Optimizer.Steps())
	lines, err := report.ReadMetrics[map[string]any](filepath.Join(r.Dir, "metrics.jsonl"))
	expect.OK(t, err)
	for _, l := range lines {
		delete(l, "seconds")
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// contents returns a tensor's bytes.
func contents(t testing.TB, r *Run, x tensor.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Bytes())
	expect.OK(t, r.Model.Device().DownloadBytes(b, x))
	return b
}

// whole takes a run to its end and returns its hash.
func whole(t testing.TB, dir string, s Config, change ...func(*Run)) (string, *Run) {
	t.Helper()
	r := tiny(t, dir, s, change...)
	toEnd(t, r)
	return hash(t, r), r
}

// toEnd starts a new run and takes all its steps.
func toEnd(t testing.TB, r *Run) {
	t.Helper()
	expect.OK(t, r.startFrom(context.Background(), ""))
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestLearns checks that the loss falls, that the final weights are the best ones, and that the run leaves all its
// files.
func TestLearns(t *testing.T) {
	s := tinySettings()
	s.Epochs, s.LR, s.SaveEvery, s.EvalEvery = 10, 1e-2, 30, 10
	dir := t.TempDir()
	var saved []int
	_, r := whole(t, dir, s, func(r *Run) {
		r.Hooks = hooks(func(e any) {
			if s, ok := e.(Saved); ok {
				saved = append(saved, s.Step)
			}
		})
	})
	type line struct {
		Step    int
		Loss    *float64
		ValLoss *float64 `json:"val_loss"`
		Best    bool
	}
	lines, err := report.ReadMetrics[line](filepath.Join(dir, "metrics.jsonl"))
	expect.OK(t, err)
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
	if best > 0.6*first || !(math.Abs(first-math.Log(300)) <= 0.3) {
		t.Errorf("validation loss went from %.3f to %.3f", first, best)
	}
	l, err := ValLoss(context.Background(), r.Model, r.Plan.HeldOut, r.Plan.MaxTokens)
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

// finds replaces the losses that validations find by the given ones, by step. The choice of the best weights and the
// end of the patience are then the same on every machine.
func finds(loss func(step int) float64) func(*Run) {
	return func(r *Run) {
		r.validation = func(context.Context) (float64, error) { return loss(r.state.Step), nil }
	}
}

// bestAfter returns losses that fall until a step and rise afterwards.
func bestAfter(best int) func(step int) float64 {
	return func(step int) float64 { return 1 + math.Abs(float64(step-best)) }
}

// TestResume stops runs between steps, as Ctrl-C does, and resumes them as a new process would. The result must have
// the same bits as an uninterrupted run's. It covers every form of optimizer state and of batches, and in one of them
// the moments around every validation, checkpoint and end of an epoch. With RESTYLE_LONG it stops after every step of
// every form.
func TestResume(t *testing.T) {
	forms := map[string]struct {
		settings func(*Config)
		run      func(*Run)
		stops    []int
	}{
		"split8": {func(s *Config) {}, func(*Run) {}, []int{1, 2, 3, 4, 11, 12, 21}},
		"sr":     {func(s *Config) { s.Master = optim.Stochastic }, func(*Run) {}, []int{1, 10, 19}},
		"fp32 master, 32 bits, packing": {func(s *Config) {
			s.Master, s.Optimizer, s.Packing, s.SaveEvery = optim.FP32, 32, true, 2
		}, func(*Run) {}, []int{1, 5, 8}},
		"fp32, wsd, frozen": {func(s *Config) {
			s.DType, s.Schedule, s.Freeze, s.EvalEvery = tensor.F32, "wsd", []string{"embed_tokens"}, 0
		}, func(*Run) {}, []int{1, 12, 19}},
		"fp16, with a scale that grows and overflows": {func(s *Config) {
			s.DType = tensor.F16
		}, growing, []int{1, 5, 10, 17}},
		"adapters, a norm whole": {func(s *Config) {
			s.LoRA, s.LoRAAlso, s.Gradients = lora.Default(), []string{"norm"}, LayerGradients
			s.LoRA.RSLoRA, s.Accumulate = true, 1
		}, func(*Run) {}, []int{1, 4, 12}},
		"adapters, a tied embedding whole": {func(s *Config) {
			s.LoRA, s.LoRAAlso = lora.Default(), []string{"embed_tokens"}
		}, func(*Run) {}, []int{9}},
		"adapters beside 4 bits": {func(s *Config) {
			s.LoRA, s.QuantizeBase = lora.Default(), "int4"
			s.LoRA.Dropout = 0.1
		}, func(*Run) {}, []int{1, 11}},
		"bnb, max-steps, patience": {func(s *Config) {
			s.BNB, s.Master, s.MaxSteps, s.EvalEvery, s.Patience, s.LR = true, optim.NoMaster, 20, 2, 3, 0.1
		}, finds(bestAfter(4)), []int{3, 5, 8, 9}}, // the run ends after step 10
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			s := tinySettings()
			form.settings(&s)
			want, control := whole(t, t.TempDir(), s, form.run)
			last := control.State().Step
			stops := form.stops
			if os.Getenv("RESTYLE_LONG") != "" {
				stops = nil
				for stop := 1; stop < last; stop++ {
					stops = append(stops, stop)
				}
			}
			if s.Patience > 0 && last != 10 {
				t.Errorf("the patience ended it after step %d", last)
			}
			for _, stop := range stops {
				if stop >= last {
					t.Fatalf("a stop after step %d of %d", stop, last)
				}
				dir := t.TempDir()
				stopped(t, dir, s, stop, func(any) {}, form.run)
				found, err := checkpoint.Latest(CheckpointsIn(dir))
				if err != nil || found.Step != stop {
					t.Fatalf("stopped after step %d, and the checkpoint is %+v, %v", stop, found, err)
				}
				again := tiny(t, dir, s, form.run)
				expect.OK(t, again.startFrom(context.Background(), found.Dir))
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

// TestStateIsNeeded drops one part of the state at a time and checks that the result differs. Otherwise TestResume
// would prove nothing.
func TestStateIsNeeded(t *testing.T) {
	s := tinySettings()
	s.SaveEvery = 5
	script := finds(bestAfter(8))
	dir := t.TempDir()
	want, control := whole(t, dir, s, script)
	if best := control.State().Best.Step; best != 8 {
		t.Fatalf("the best weights are those after step %d", best)
	}
	from := checkpoint.Dir(CheckpointsIn(dir), 20)
	expect.OK(t, checkpoint.Open(from))
	continued := func(t *testing.T, spoil func(r *Run)) string {
		r := tiny(t, t.TempDir(), s, script)
		lines, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		expect.OK(t, err)
		best := bestIn(dir, 8)
		expect.OK(t, errors.Join(os.WriteFile(filepath.Join(r.Dir, "metrics.jsonl"), lines, 0o666),
			os.CopyFS(filepath.Join(CheckpointsIn(r.Dir), filepath.Base(best)), os.DirFS(best))))
		expect.OK(t, r.startFrom(context.Background(), from))
		spoil(r)
		if _, err := r.Run(context.Background()); err != nil {
			return err.Error()
		}
		return hash(t, r)
	}
	if got := continued(t, func(*Run) {}); got != want {
		t.Fatalf("with all of the state it ends as %.12s, want %.12s", got, want)
	}
	spoils := map[string]func(*Run){
		"steps of the optimizer": func(r *Run) { r.Optimizer.SetSteps(0) },
		"step":                   func(r *Run) { r.state.Step-- },
		"tokens":                 func(r *Run) { r.state.Tokens = 0 },
		"trained":                func(r *Run) { r.state.Targets = 0 },
		"examples":               func(r *Run) { r.state.Examples = 0 },
		"skipped":                func(r *Run) { r.state.Skipped = 3 },
		"best":                   func(r *Run) { r.state.Best = nil },
		"since best":             func(r *Run) { r.state.SinceBest += 5 },
	}
	// Tensors are lost completely. A single lost bit might make no difference, because two steps later it may be rounded
	// away.
	lose := func(r *Run, x tensor.Tensor) {
		if !slices.ContainsFunc(x.Raw(), func(b byte) bool { return b != 0 }) {
			t.Errorf("%s is all zero: to lose it shows nothing", x.Name)
		}
		r.Model.Device().Zero(x)
	}
	r := tiny(t, t.TempDir(), s)
	for i, p := range r.Model.Params() {
		spoils[p.Name] = func(r *Run) { lose(r, r.Model.Params()[i].W) }
	}
	for i, x := range r.Optimizer.State() {
		spoils[x.Name] = func(r *Run) { lose(r, r.Optimizer.State()[i]) }
	}
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			if got := continued(t, spoil); got == want {
				t.Error("it is lost, and the end is the same")
			}
		})
	}
}

// TestPatience gives validations chosen losses and checks which one is the best and after which one the run ends.
func TestPatience(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		patience  int
		losses    []float64 // of the validations, every second step from step 0
		best, end int       // steps
	}{
		{1, []float64{3, 4}, 0, 2},
		{2, []float64{3, 4, 5}, 0, 4},
		{2, []float64{3, 3, 3}, 0, 4},           // an equal loss is no improvement
		{2, []float64{3, 4, 2, 4, 5}, 4, 8},     // an improvement resets the patience
		{2, []float64{3, 4, 2, 4, 1, 2}, 8, 12}, // and so does the next one
		{2, []float64{3, nan, inf}, 0, 4},
		{2, []float64{nan, 3, nan, 3}, 2, 6},
		{12, []float64{3, 4}, 0, 22}, // all of them are after step 22, the last
		{0, []float64{3, 4}, 0, 22},
	} {
		s := tinySettings()
		s.EvalEvery, s.SaveEvery, s.Patience = 2, 100, c.patience
		r := tiny(t, t.TempDir(), s, finds(func(step int) float64 { return c.losses[min(step/2, len(c.losses)-1)] }))
		expect.OK(t, r.startFrom(context.Background(), ""))
		res, err := r.Run(context.Background())
		expect.OK(t, err)
		if res.Best == nil || res.Best.Step != c.best || res.Step != c.end || (res.Stopped == "") != (c.end == 22) {
			t.Errorf("patience %d of %v: the best is %+v, the end after step %d (%q), want %d and %d",
				c.patience, c.losses, res.Best, res.Step, res.Stopped, c.best, c.end)
		}
	}
}

// TestResumeRefuses checks that resuming with another recipe, data or model is an error that names what differs.
func TestResumeRefuses(t *testing.T) {
	s := tinySettings()
	dir := t.TempDir()
	whole(t, dir, s)
	found, err := checkpoint.Latest(CheckpointsIn(dir))
	expect.OK(t, err)
	other := s
	other.LR, other.Seed = 1e-3, 6
	err = tiny(t, dir, other).startFrom(context.Background(), found.Dir)
	if err == nil || !strings.Contains(err.Error(), "lr was 0.003 and is now 0.001") ||
		!strings.Contains(err.Error(), "seed was 5 and is now 6") {
		t.Errorf("another recipe: %v", err)
	}
	older, err := os.ReadFile(filepath.Join(checkpoint.Dir(CheckpointsIn(dir), 21), stateName))
	expect.OK(t, err)
	for _, c := range []struct {
		file   string
		damage func(string) string
		want   string
	}{
		{stateName, func(s string) string { return strings.Replace(s, `"format": 1`, `"format": 9`, 1) }, "has format 9"},
		{stateName, func(string) string { return string(older) }, "belongs to step-000021"},
		{stateName, func(s string) string { return strings.Replace(s, `"step": 22`, `"pending": "lunch", "step": 22`, 1) },
			`"lunch" pending`},
		{stateName, func(s string) string { return strings.Replace(s, `"updates": 22`, `"updates": 23`, 1) }, "23 updates"},
		{stateName, func(s string) string { return strings.Replace(s, `"updates": 22`, `"updates": -1`, 1) }, "-1 updates"},
		{stateName, func(s string) string { return strings.Replace(s, `"step": 22`, `"step": -22`, 1) }, "damaged: step -22"},
		{stateName, func(s string) string { return strings.Replace(s, `"metrics_bytes": `, `"metrics_bytes": -`, 1) },
			"damaged: step 22"},
		{optimizerName, func(s string) string { return s[:len(s)-1] }, optimizerName},
		{"model.safetensors", func(s string) string { return s[:len(s)/2] }, "model.safetensors"},
	} {
		copied := filepath.Join(t.TempDir(), filepath.Base(found.Dir))
		expect.OK(t, os.CopyFS(copied, os.DirFS(found.Dir)))
		data, err := os.ReadFile(filepath.Join(copied, c.file))
		expect.OK(t, err)
		damaged := c.damage(string(data))
		if damaged == string(data) {
			t.Fatalf("%s: nothing is damaged", c.want)
		}
		expect.OK(t, os.WriteFile(filepath.Join(copied, c.file), []byte(damaged), 0o666))
		err = tiny(t, dir, s).startFrom(context.Background(), copied)
		if err == nil || !strings.Contains(err.Error(), copied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

// TestResume_RefusesOtherState checks that resuming refuses the state of another optimizer: with an extra tensor, or
// with a tensor of another size or type.
func TestResume_RefusesOtherState(t *testing.T) {
	s := tinySettings()
	r := tiny(t, t.TempDir(), s)
	path := filepath.Join(t.TempDir(), optimizerName)
	for _, c := range []struct {
		what   string
		change func(list []hf.TensorData) []hf.TensorData
		want   string
	}{
		{"the same", func(list []hf.TensorData) []hf.TensorData { return list }, ""},
		{"one more", func(list []hf.TensorData) []hf.TensorData {
			more := list[0]
			more.Name = "another"
			return append(list, more)
		}, "tensors, but this optimizer's state has"},
		{"a longer one", func(list []hf.TensorData) []hf.TensorData {
			list[0].Shape = []int{list[0].Shape[0] + 256}
			return list
		}, "missing or has another size"},
		{"another type", func(list []hf.TensorData) []hf.TensorData {
			list[0].DType, list[0].Shape = tensor.BF16, []int{list[0].Shape[0] / 2}
			return list
		}, "missing or has another size"},
		{"another name", func(list []hf.TensorData) []hf.TensorData {
			list[0].Name = "another"
			return list
		}, "missing or has another size"},
	} {
		var list []hf.TensorData
		for _, x := range r.Optimizer.State() {
			list = append(list, hf.TensorData{Name: x.Name, DType: x.DType, Shape: []int{x.Len()}})
		}
		list = c.change(list)
		for i, x := range list {
			size := x.Shape[0] * x.DType.Size()
			list[i].Write = func(w io.Writer) error { _, err := w.Write(make([]byte, size)); return err }
		}
		expect.OK(t, hf.WriteSafetensors(path, nil, list))
		err := r.checkOptimizer(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestConfig_EveryField changes each field of a Config in turn. Each must be in the table once, with a default that it
// accepts, and in the recipe exactly if it affects results.
func TestConfig_EveryField(t *testing.T) {
	c := tinySettings()
	// The plan determines the meaning of AutoGrad.
	was, inRecipe := c.recipe(), map[string]bool{"GradDType": false, "Gradients": true}
	names := map[string]bool{}
	for _, f := range c.Fields() {
		if names[f.Name] {
			t.Errorf("two fields are called %s", f.Name)
		}
		names[f.Name] = true
		if f.Help == "" != (f.Group == "") {
			t.Errorf("%s has a group without help, or help without a group", f.Name)
		}
	}
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		var of []Field
		for _, f := range c.Fields() {
			if f.get().Addr().Pointer() == field.Addr().Pointer() && f.get().Type() == field.Type() {
				of = append(of, f)
			}
		}
		if len(of) != 1 {
			t.Errorf("%s is in the table %d times", name, len(of))
			continue
		}
		before := reflect.ValueOf(field.Interface())
		switch {
		case field.Kind() == reflect.Bool:
			field.SetBool(!field.Bool())
		case field.Kind() == reflect.String:
			field.SetString("another")
		case field.Type() == reflect.TypeFor[lora.Spec]():
			field.Set(reflect.ValueOf(lora.Default()))
		case field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf([]string{"another"}))
		case field.CanFloat():
			field.SetFloat(0.123)
		case field.CanUint():
			field.SetUint(field.Uint() + 1)
		default:
			field.SetInt(field.Int() + 1)
		}
		want, known := inRecipe[name]
		if !known {
			want = !of[0].Free
		}
		if changed := !maps.Equal(was, c.recipe()); changed != want {
			t.Errorf("another %s: another recipe is %v", name, changed)
		}
		if of[0].Reset(); of[0].Check() != nil {
			t.Errorf("the default of %s is refused: %v", name, of[0].Check())
		}
		field.Set(before)
	}
	for _, f := range c.Fields() { // a run with less memory may change these without becoming a different run
		if want := slices.Contains([]string{"recompute", "shard", "save-every", "keep", "samples", "sample-tokens",
			"sample-every"}, f.Name); f.Free != want {
			t.Errorf("%s decides bits: %v", f.Name, !f.Free)
		}
	}
}

// TestRecipe_ExactWords checks for the exact words that records have, so that runs can be resumed.
func TestRecipe_ExactWords(t *testing.T) {
	c := DefaultConfig()
	c.Freeze, c.BNB = []string{"mlp", "layers.0"}, true
	plan := &Plan{Config: c}
	want := map[string]string{
		"epochs": "3", "max-steps": "0", "batch": "1", "accumulate": "4", "seq": "512", "packing": "false", "lr": "2e-05",
		"schedule": "cosine", "warmup": "0.03", "clip": "1", "weight-decay": "0.01", "beta1": "0.9", "beta2": "0.999",
		"eps": "1e-08", "optimizer": "8", "master": "none", "bnb": "true", "dtype": "BF16", "freeze": "[mlp layers.0]",
		"train-only": "[]", "eval-every": "0", "patience": "0", "seed": "0", "gradients": "step", "balance-loss": "0",
	}
	if got := plan.Recipe(); !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	plan.Config.Gradients, plan.GradType, plan.Config.BNB = LayerGradients, tensor.BF16, false
	want["gradients"], want["grad-dtype"], want["master"], want["bnb"] = "layer", "BF16", "split8", "false"
	if got := plan.Recipe(); !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestStep_NotFiniteMovesNothing checks that a step moves no weights if only its loss is not finite, and if only its
// gradient is not. The first element of the last token's hidden state is multiplied with a column of the head. That
// column has one sign for the target token, and the other sign or 0 for all others.
func TestStep_NotFiniteMovesNothing(t *testing.T) {
	config := strings.Replace(tinyConfig, `"tie_word_embeddings": true`, `"tie_word_embeddings": false`, 1)
	for _, c := range []struct {
		what           string
		trained        string
		norm           float32 // factor of the hidden state
		others         float32 // weight of the other tokens, relative to the target's
		loss, gradient bool    // whether they are finite
	}{
		{"the token has the logit -∞", "lm_head", 1e10, 0, false, true},
		{"the gradient is beyond F32", "model.norm.weight", 1e-37, -1, true, false},
	} {
		s := tinySettings()
		s.DType, s.TrainOnly = tensor.F32, []string{c.trained}
		r := tinyOf(t, config, t.TempDir(), s)
		var head, norm tensor.Tensor
		for _, p := range r.Model.Params() {
			switch p.Name {
			case "lm_head.weight":
				head = p.W
			case "model.norm.weight":
				norm = p.W
			}
		}
		example := training.Example{IDs: []int32{5, 7}, Labels: []int32{training.Ignore, 7}}
		var err error
		if r.Plan, err = NewPlan(s, []training.Example{example}, nil); err != nil {
			t.Fatal(err)
		}
		var last Step
		r.Hooks = hooks(func(e any) {
			if s, ok := e.(Step); ok {
				last = s
			}
		})
		expect.OK(t, r.startFrom(context.Background(), ""))
		finite := func(n report.Number) bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }
		shown := false
		for _, huge := range []float32{-3e38, 3e38} { // one of them has the sign that makes the token improbable
			for row := range 300 {
				head.F32()[row*64] = c.others * huge
			}
			head.F32()[7*64] = huge
			norm.F32()[0] = c.norm
			before := append(slices.Clone(head.F32()), norm.F32()...)
			expect.OK(t, r.step())
			moved := !slices.Equal(before, append(slices.Clone(head.F32()), norm.F32()...))
			if ok := finite(last.Loss) && finite(last.GradNorm); last.Skipped == ok || moved && !ok {
				t.Errorf("%s: a step with the loss %v and the norm %v was skipped: %v, and moved: %v", c.what, last.Loss,
					last.GradNorm, last.Skipped, moved)
			}
			shown = shown || finite(last.Loss) == c.loss && finite(last.GradNorm) == c.gradient
		}
		if !shown {
			t.Errorf("%s: this shows nothing", c.what)
		}
	}
}

// TestSamples_AreNoValidation checks that samples that are due between validations do not count as a validation.
func TestSamples_AreNoValidation(t *testing.T) {
	s := tinySettings()
	s.EvalEvery, s.SampleEvery, s.SaveEvery, s.MaxSteps = 4, 3, 100, 10
	var measured, answered []int
	whole(t, t.TempDir(), s, func(r *Run) {
		r.validation = func(context.Context) (float64, error) {
			measured = append(measured, r.state.Step)
			return 1, nil
		}
		r.GenerateSamples = func(context.Context) ([]Sample, error) {
			answered = append(answered, r.state.Step)
			return []Sample{{Question: "q", Answer: "a"}}, nil
		}
	})
	if !slices.Equal(measured, []int{0, 4, 8, 10}) || !slices.Equal(answered, []int{0, 3, 4, 6, 8, 9, 10}) {
		t.Errorf("validations after steps %v, answers after %v", measured, answered)
	}
}

// TestSkippedAreKept stops a run between skipped steps. The resumed run must end with the same bits, and count
// consecutive skipped steps from the first one on.
func TestSkippedAreKept(t *testing.T) {
	s := tinySettings()
	s.SaveEvery = 100
	// spoiling makes the gradients of steps first to last NaN, by setting a weight to NaN while they are computed.
	spoiling := func(first, last int) (of func(*Run), watch func(any)) {
		var weight *uint16
		var was uint16
		of = func(r *Run) {
			for _, p := range r.Model.Params() {
				if p.Name == "model.norm.weight" {
					weight, was = &p.W.Half()[3], 0
				}
			}
		}
		watch = func(e any) {
			var step int
			if p, ok := e.(Phase); ok {
				if _, err := fmt.Sscanf(string(p), "step %d", &step); err == nil && step >= first && step <= last {
					was, *weight = *weight, 0x7fc0 // NaN
				}
			}
			if s, ok := e.(Step); ok && s.Step >= first && s.Step <= last {
				*weight = was
			}
		}
		return of, watch
	}
	for _, last := range []int{5, 7} {
		of, watch := spoiling(3, last)
		r := tiny(t, t.TempDir(), s, of)
		r.Hooks = hooks(watch)
		expect.OK(t, r.startFrom(context.Background(), ""))
		_, want := r.Run(context.Background())
		if (want == nil) != (last-3+1 < maxSkipped) {
			t.Errorf("steps 3 to %d were skipped: %v", last, want)
		}

		dir := t.TempDir()
		of, watch = spoiling(3, last)
		stopped(t, dir, s, 4, watch, of)
		of, watch = spoiling(3, last)
		again := tiny(t, dir, s, of)
		again.Hooks = hooks(watch)
		expect.OK(t, again.startFrom(context.Background(), checkpoint.Dir(CheckpointsIn(dir), 4)))
		if _, err := again.Run(context.Background()); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("resumed: %v, want %v", err, want)
		}
		if a, b := hash(t, again), hash(t, r); want == nil && a != b {
			t.Errorf("with steps 3 to %d skipped it ends as %.12s, want %.12s", last, a, b)
		}
	}
}

// TestMetrics_SyncedBeforeCheckpoint checks that no checkpoint refers to metrics that could not be synced to disk.
func TestMetrics_SyncedBeforeCheckpoint(t *testing.T) {
	r := tiny(t, t.TempDir(), tinySettings())
	expect.OK(t, r.startFrom(context.Background(), ""))
	if err := r.metrics.Close(); err != nil { // no file can be synced after this
		t.Fatal(err)
	}
	if err := r.save(); err == nil {
		t.Error("a checkpoint was written")
	}
	if steps, err := checkpoint.Steps(CheckpointsIn(r.Dir)); err != nil || len(steps) > 0 {
		t.Errorf("there are checkpoints of steps %v, %v", steps, err)
	}
	r.metrics = nil
}

// TestStep_SkipsNotFinite checks that a gradient that is not finite moves no weights, and ends the run if it persists.
func TestStep_SkipsNotFinite(t *testing.T) {
	s := tinySettings()
	s.SaveEvery = 100
	r := tiny(t, t.TempDir(), s)
	expect.OK(t, r.startFrom(context.Background(), ""))
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
	expect.OK(t, errors.Join(step(), spoiled(step), spoiled(step), step()))
	if s := r.State(); s.Skipped != 2 || s.InARow != 0 || s.Step != 4 || r.Optimizer.Steps() != 2 {
		t.Errorf("after two skipped steps of four: %+v, %d updates", s, r.Optimizer.Steps())
	}
	for i := range maxSkipped {
		err := spoiled(step)
		if last := i == maxSkipped-1; last != (err != nil) {
			t.Errorf("skipped step %d in a row: %v", i+1, err)
		}
	}
}

// TestMemory_AsAllocated compares the memory table with what is allocated during a run.
func TestMemory_AsAllocated(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"bf16": func(*Config) {},
		"fp32": func(s *Config) { s.DType = tensor.F32 },
		"adapters": func(s *Config) {
			s.LoRA, s.LoRAAlso = lora.Default(), []string{"norm"}
		},
		"adapters beside 8 bits": func(s *Config) {
			s.LoRA, s.QuantizeBase = lora.Default(), "int8"
		},
	} {
		s := tinySettings()
		s.Freeze = []string{"layers.0"}
		change(&s)
		r := tiny(t, t.TempDir(), s)
		d := r.Model.Device()
		want := MemoryOf(d, d.Fused(), r.Model.Config(), r.Plan).Total()
		if got := d.Allocated(); got != want {
			t.Errorf("%s: %d bytes are allocated, and the table says %d", name, got, want)
		}
		expect.OK(t, r.startFrom(context.Background(), ""))
		if _, err := r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := d.Allocated(); got != want {
			t.Errorf("%s: %d bytes are allocated after the run, and the table says %d", name, got, want)
		}
	}
}

// TestFit_AdviceIsTrue follows each piece of advice and checks that it is true.
func TestFit_AdviceIsTrue(t *testing.T) {
	s := tinySettings()
	s.Seq, s.Batch, s.Optimizer, s.Master = 512, 4, 32, optim.FP32
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	expect.OK(t, err)
	defer d.Close()
	c, err := hf.ParseConfig([]byte(strings.NewReplacer(`"max_position_embeddings": 64`, `"max_position_embeddings": 1024`,
		`"hidden_size": 64`, `"hidden_size": 1024`, `"vocab_size": 300`, `"vocab_size": 9000`).Replace(tinyConfig)))
	expect.OK(t, err)
	plan := Plan{Config: s, MaxTokens: 2048, Longest: 512}
	total := MemoryOf(d, d.Fused(), c, &plan).Total()
	fit := func(limit int) string {
		return words(fitting{d: d, model: c, limit: limit}.remedies(variant{plan: plan, fused: kernels.All()}))
	}
	if got := fit(total * 9 / 10); got == "" || strings.Contains(strings.Split(got, "\n")[0], " and ") {
		t.Errorf("a tenth less: %s", got)
	}
	if got := fit(total / 3); strings.Contains(got, "\n") || !strings.HasPrefix(got, "recompute layer and batch 1") {
		t.Errorf("a third: %s", got)
	}
	if got := fit(1000); got != "" {
		t.Errorf("nearly nothing: %s", got)
	}
	plan.Ranks, c.Layers = 2, 12 // which may divide the weights, but then have no adapters
	total = MemoryOf(d, d.Fused(), c, &plan).Total()
	if got := fit(total / 6); !strings.HasPrefix(got, "shard gradients and ") || !strings.Contains(got, " and lora") {
		t.Errorf("a sixth, on two ranks: %s", got)
	}
}

// words returns remedies, one per line.
func words(list []Remedy) string {
	_, text, _ := strings.Cut((&TooLargeError{Remedies: list}).Error(), ": set ")
	return strings.ReplaceAll(text, ", or ", "\n")
}
