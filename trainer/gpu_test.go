package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/hf"
	"restyle/infer"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/model"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// testGPU returns a GPU for a run: the one that RESTYLE_TEST_DEVICE names, or the emulated one.
func testGPU(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	return openGPU(t, cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated"), o)
}

func openGPU(t *testing.T, name string, o kernels.Options) *kernels.Device {
	t.Helper()
	if name == "emulated" {
		cudatest.Once(t)
	}
	d, err := kernels.Open(name, o)
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	expect.OK(t, err)
	return d
}

// gpuConfig is the configuration of a model with a quarter of a million parameters.
const gpuConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 96,
	"intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true,
	"eos_token_id": 2}`

// finish starts a new run, or resumes one from a checkpoint, and runs it to its end.
func finish(t *testing.T, r *Run, from string) *Run {
	t.Helper()
	expect.OK(t, r.startFrom(context.Background(), from))
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGPULearns checks that a run on a GPU, with its steps, validations and checkpoints, learns what the same run on
// the CPU learns. TestEmulated of opcheck compares the unfused operations.
func TestGPULearns(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds on the emulated GPU")
	}
	cudatest.Set(t, "LATE=1") // the emulated GPU runs nothing until something waits for it
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.DType, s.EvalEvery, s.SaveEvery = 0, 3, tensor.F32, 3, 3
	steps := func(r *Run) []Step {
		list, err := report.ReadMetrics[Step](filepath.Join(finish(t, r, "").Dir, "metrics.jsonl"))
		expect.OK(t, err)
		return list
	}
	want := steps(tinyOf(t, gpuConfig, t.TempDir(), s))
	d := testGPU(t, kernels.Options{Fused: kernels.All(), OwnProducts: true})
	got := steps(tinyOn(t, d, gpuConfig, t.TempDir(), s))
	for i := range want {
		if want[i].Tokens == 0 {
			continue // an evaluation
		}
		// The order of sums differs, and a value that AdamW codes in 8 bits may fall on the other side of a midpoint.
		if e := math.Abs(float64(got[i].Loss/want[i].Loss) - 1); !(e < 1e-3) {
			t.Errorf("step %d has the loss %v, on the CPU %v", want[i].Step, got[i].Loss, want[i].Loss)
		}
	}
}

// TestGPUResumes checks that a run on a GPU ends with the same bits twice and when it is resumed, and that a run
// started on the CPU can continue on a GPU.
func TestGPUResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds on the emulated GPU")
	}
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.EvalEvery, s.SaveEvery, s.Keep = 0, 3, 3, 2, 9
	gpu := func(dir string) *Run {
		return tinyOn(t, testGPU(t, kernels.Options{Fused: kernels.All()}), tinyConfig, dir, s)
	}
	first := finish(t, gpu(t.TempDir()), "")
	want := hash(t, first)
	if got := hash(t, finish(t, gpu(t.TempDir()), "")); got != want {
		t.Errorf("a second run ends as %.12s, the first as %.12s", got, want)
	}
	resumed := func(from *Run) *Run {
		dir := t.TempDir()
		lines, err := os.ReadFile(filepath.Join(from.Dir, "metrics.jsonl"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "metrics.jsonl"), lines, 0o666)
		}
		expect.OK(t, err)
		return finish(t, gpu(dir), checkpoint.Dir(CheckpointsIn(from.Dir), 2))
	}
	if got := hash(t, resumed(first)); got != want {
		t.Errorf("resumed it ends as %.12s, whole as %.12s", got, want)
	}
	cpu := finish(t, tiny(t, t.TempDir(), s), "")
	if a, b := cpu.State().Loss, resumed(cpu).State().Loss; !(math.Abs(float64(b/a)-1) <= 2e-2) { // BF16
		t.Errorf("begun on the CPU it ends with the loss %v, there with %v", b, a)
	}
}

// TestGPUMemory compares the memory table with what a run on a GPU has allocated at its end. The GPU is emulated: for
// a real one the table also counts what its driver takes. Launches do no work, so the test is quick.
func TestGPUMemory(t *testing.T) {
	cudatest.Set(t, "IDLE=1")
	for name, change := range map[string]func(*Config){
		"step": func(*Config) {},
		"layer": func(s *Config) {
			s.Gradients, s.GradDType, s.Recompute = LayerGradients, BF16Grad, model.RecomputeLayer
		},
		"F32": func(s *Config) { s.DType, s.Optimizer = tensor.F32, AdamW },
	} {
		s := tinySettings()
		s.Epochs, s.MaxSteps, s.EvalEvery, s.SaveEvery = 0, 2, 1, 1
		change(&s)
		r := finish(t, tinyOn(t, openGPU(t, "emulated", kernels.Options{Fused: kernels.All(), OwnProducts: name == "step"}),
			tinyConfig, t.TempDir(), s), "")
		d := r.Model.Device()
		want := MemoryOf(d, d.Fused(), r.Model.Config(), r.Plan).Total() + d.Overhead(r.Plan.Ranks)
		if got := d.Allocated(); got != want {
			t.Errorf("%s: %d bytes are allocated, and the table says %d", name, got, want)
		}
	}
}

// TestGPUMemoryStays has a run take steps, validate, generate samples and save. After the first step, the memory that
// the driver counts must stay constant, and nothing more may be allocated or loaded. On the emulated GPU launches do no
// work, so the test is quick.
func TestGPUMemoryStays(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"step": func(*Config) {},
		"layer": func(s *Config) {
			s.Gradients, s.GradDType, s.Recompute = LayerGradients, BF16Grad, model.RecomputeLayer
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "calls")
			cudatest.Set(t, "IDLE=1 CALLS="+file)
			calls := func() []string {
				text, err := os.ReadFile(file)
				if err != nil && os.Getenv("RESTYLE_TEST_DEVICE") == "" { // no other driver writes it
					t.Fatal(err)
				}
				return strings.Fields(string(text))
			}
			s := tinySettings()
			s.Epochs, s.MaxSteps, s.EvalEvery, s.SampleEvery, s.SaveEvery = 0, 4, 2, 1, 2
			change(&s)
			r := tinyOn(t, testGPU(t, kernels.Options{Fused: kernels.All()}), gpuConfig, t.TempDir(), s)
			d := r.Model.Device()
			used := func() int {
				free, _, known := d.Free()
				if !known {
					t.Fatal(d.Err())
				}
				return d.Capacity() - free
			}
			answers := answerer(t, r)
			seen, first, steps, before := map[string]int{}, 0, 0, 0
			r.Hooks = hooks(func(event any) {
				seen[fmt.Sprintf("%T", event)]++
				if _, is := event.(Step); is {
					if steps++; steps == 1 {
						first, before = used(), len(calls())
					}
				}
				if now := used(); steps > 0 && now != first {
					t.Errorf("after %d steps, %T: %d bytes are in use, and after the first it were %d", steps, event, now, first)
				}
			})
			finish(t, r, "")
			if now := used(); now != first || first == 0 {
				t.Errorf("in the end %d bytes are in use, and after the first step it were %d", now, first)
			}
			if steps != 4 || *answers < 4 || seen["trainer.Saved"] < 2 || seen["trainer.Evaluation"] < 3 {
				t.Errorf("%d steps, %d answers, %v", steps, *answers, seen)
			}
			for _, call := range calls()[before:] {
				if call == "cuMemAlloc_v2" || call == "cuModuleLoadData" || call == "cuMemHostAlloc" {
					t.Errorf("%s after the first step", call)
				}
			}
		})
	}
}

// answerer makes a run generate samples of four tokens, and counts how often it does.
func answerer(t *testing.T, r *Run) *int {
	t.Helper()
	e, err := infer.New(r.Model, 16, nil)
	expect.OK(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	n := new(int)
	r.GenerateSamples = func(ctx context.Context) ([]Sample, error) {
		*n++
		return answerOf(ctx, e)
	}
	return n
}

// TestFitOnGPU checks that max-memory is among the remedies, with the memory that the run then takes: with narrower
// passes and, because a step then has several of them, with F32 gradients. A run that keeps its passes gets only the
// other remedies, for passes of the same width. If a step becomes one pass, passes become as wide as BF16 gradients
// leave room for.
func TestFitOnGPU(t *testing.T) {
	c, err := hf.ParseConfig([]byte(strings.NewReplacer(`"max_position_embeddings": 64`, `"max_position_embeddings": 1024`,
		`"hidden_size": 64`, `"hidden_size": 512`, `"vocab_size": 300`, `"vocab_size": 9000`).Replace(tinyConfig)))
	expect.OK(t, err)
	s := tinySettings()
	s.Seq, s.Batch, s.Accumulate = 512, 1, 16
	short, err := NewPlan(s, learnable(41, 1), nil)
	expect.OK(t, err)
	short.Longest, short.MaxTokens, short.HeadBytes = 512, 512, 32<<20
	const process = 3 << 20
	var b kernels.Builds
	expect.OK(t, b.Rehearse(cuda.Properties{Major: 9, SMs: 2, Memory: 1 << 30}, kernels.Options{},
		func(d *kernels.Device) error {
			total := func(p Plan) int { return MemoryOf(d, kernels.All(), c, &p).Total() }
			apply := func(p Plan, within int) Plan {
				widening{within, true}.apply(d, kernels.All(), c, &p)
				return p
			}
			half := apply(*short, 1<<30)
			if !half.OnePass() || half.GradType != tensor.BF16 {
				t.Fatalf("passes of up to %d tokens, gradients %v", half.MaxTokens, half.GradType)
			}
			if least := apply(*short, total(half)); least.GradType != tensor.BF16 || !least.OnePass() {
				t.Errorf("with just the room for it: passes of up to %d tokens, gradients %v", least.MaxTokens, least.GradType)
			}
			limit := total(half) * 3 / 4 >> 20 << 20
			narrow := *short
			narrow.HeadBytes = min(short.HeadBytes, model.HeadBytes(limit))
			narrow = apply(narrow, limit-process)
			if narrow.OnePass() || narrow.MaxTokens == short.MaxTokens || narrow.GradType != 0 {
				t.Fatalf("passes of up to %d tokens, gradients %v", narrow.MaxTokens, narrow.GradType)
			}
			f := fitting{d: d, model: c, process: process, limit: limit}
			want := Remedy{[]Change{{"max-memory", fmt.Sprintf("%dMiB", limit>>20)}}, total(narrow) + process}
			if list := f.remedies(variant{half, kernels.All(), widening{1 << 30, true}}); len(list) == 0 ||
				!reflect.DeepEqual(list[0], want) {
				t.Errorf("%v, and not %v", list, want)
			}
			less := half
			less.Config.Seq, less.Longest, less.MaxTokens = 256, 256, 16*256
			want = Remedy{[]Change{{"seq", "256"}}, total(less) + process}
			list := f.remedies(variant{half, kernels.All(), widening{}})
			if !slices.ContainsFunc(list, func(r Remedy) bool { return reflect.DeepEqual(r, want) }) ||
				list[0].Changes[0].Setting == "max-memory" {
				t.Errorf("%v, and not %v", list, want)
			}
			return nil
		}))
}
