package trainer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/tensor"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// testGPU is a GPU for a run: the one that RESTYLE_TEST_DEVICE names, or the one that the CPU plays.
func testGPU(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	d, err := kernels.Open(cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated"), o)
	if errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// gpuConfig is a model of a quarter of a million parameters.
const gpuConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 96,
	"intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 2}`

// finish starts a run, anew or from a checkpoint, and takes it to its end.
func finish(t *testing.T, r *Run, from string) *Run {
	t.Helper()
	if err := r.Start(context.Background(), from); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGPULearns has a run on a GPU, its steps, validations and checkpoints, learn what the same run on the CPU learns.
func TestGPULearns(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute on the GPU that the CPU plays")
	}
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.DType, s.EvalEvery, s.SaveEvery = 0, 20, tensor.F32, 20, 20
	steps := func(r *Run) []Step {
		list, err := report.ReadMetrics[Step](filepath.Join(finish(t, r, "").Dir, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := steps(tinyOf(t, gpuConfig, t.TempDir(), s))
	for _, fused := range []kernels.Fused{kernels.All(), nil} {
		got := steps(tinyOn(t, testGPU(t, kernels.Options{Fused: fused, OwnProducts: true}), gpuConfig, t.TempDir(), s))
		for i := range want {
			if want[i].Tokens == 0 {
				continue // an evaluation
			}
			// Sums have other orders, and what AdamW codes in 8 bits may fall on the other side of a half.
			if e := math.Abs(float64(got[i].Loss/want[i].Loss) - 1); !(e < 1e-3) {
				t.Errorf("fused %v: step %d has the loss %v, on the CPU %v", fused, want[i].Step, got[i].Loss, want[i].Loss)
			}
		}
	}
}

// TestGPUResumes has a run on a GPU end with the same bits twice, and resumed, and one that was begun on the CPU go on there.
func TestGPUResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute on the GPU that the CPU plays")
	}
	s := tinySettings()
	s.Epochs, s.MaxSteps, s.EvalEvery, s.SaveEvery, s.Keep = 0, 4, 4, 2, 9
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
		if err != nil {
			t.Fatal(err)
		}
		return finish(t, gpu(dir), checkpoint.Dir(CheckpointsIn(from.Dir), 2))
	}
	if got := hash(t, resumed(first)); got != want {
		t.Errorf("resumed it ends as %.12s, whole as %.12s", got, want)
	}
	cpu := finish(t, tiny(t, t.TempDir(), s), "")
	if a, b := cpu.State().Loss, resumed(cpu).State().Loss; math.Abs(float64(b/a)-1) > 2e-2 { // BF16
		t.Errorf("begun on the CPU it ends with the loss %v, there with %v", b, a)
	}
}
