package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/trainer"
)

// TestGPUThatCannotBeUsed checks that train says what is wrong and what to do, exits with the right code, and changes
// nothing.
func TestGPUThatCannotBeUsed(t *testing.T) {
	all := []string{"libcuda", "libnvrtc"}
	for name, test := range map[string]struct {
		libraries []string
		settings  string
		code      int
		says      string
	}{
		"no driver":   {nil, "", cli.Failed, `device "cuda": no NVIDIA driver: `},
		"no compiler": {all[:1], "DRIVER=12080", cli.Failed, "install it with pip install nvidia-cuda-nvrtc-cu12, "},
		"too old":     {all, "DRIVER=11070", cli.Failed, "NVIDIA's driver is too old"},
		"not ready":   {all, "INIT=802", cli.Failed, "nvidia-fabricmanager"},
		"exclusive":   {all, "MODE=3", cli.Retry, "another process uses the GPU exclusively"},
		"before Ampere": {all, "CAPABILITY=75", cli.Failed,
			"bfloat16 needs 8.0 (Ampere) or newer: use --dtype fp16 or fp32, or the CPU"},
		"filled": {all, "MEMORY=17179869184 USED=17178820608", cli.Retry,
			"and can have only 436.0 MiB of the 16.0 GiB of cuda:0, as other processes use the rest"},
		"small": {all, "", cli.Failed, "more than what it can have of cuda:0, 1.0 MiB: "},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Use(t, test.libraries...)
			cudatest.Set(t, test.settings)
			out := filepath.Join(t.TempDir(), "out")
			o := must(t, test.code, small(t, out, "--device", "cuda")...)
			if !strings.Contains(o.stderr, test.says) {
				t.Errorf("%q is missing: %v", test.says, o)
			}
			if files, _ := filepath.Glob(filepath.Join(out, "*")); files != nil {
				t.Errorf("it left %v", files)
			}
		})
	}
}

// TestDeviceAuto_SaysWhy checks that a line says which device a run uses and why.
func TestDeviceAuto_SaysWhy(t *testing.T) {
	cudatest.Use(t)
	o := must(t, cli.Done, small(t, filepath.Join(t.TempDir(), "out"), "--dry-run")...)
	if strings.Count(o.stderr, "device auto: using the CPU: ") != 1 {
		t.Error(o)
	}
	if o := must(t, cli.Done, small(t, filepath.Join(t.TempDir(), "out"), "--dry-run", "--device",
		"cpu")...); strings.Contains(o.stderr, "--device") {
		t.Error(o)
	}
}

// TestGPUFailures checks the exit code if a GPU fails or is in use by others, and that train says how to continue.
func TestGPUFailures(t *testing.T) {
	fault := fmt.Errorf("step 7: %w", &cuda.Error{Op: "wait, at or before kernel gemm", Code: 700,
		Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Text: "an illegal memory access was encountered"})
	closing := &cuda.Error{Op: "free memory", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS",
		Text: "an illegal memory access was encountered"}
	const said = "train: step 7: wait, at or before kernel gemm: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access " +
		"was encountered\nthe GPU failed: "
	for name, test := range map[string]struct {
		resume bool
		err    error
		code   int
		want   string
	}{
		"before it began": {false, fault, cli.Retry, said + "run the same command again\n"},
		"on the way": {false, errors.Join(&begun{errors.Join(nil, fault)}, closing), cli.Retry, said +
			"continue from the last checkpoint with the same command and --resume\n"},
		"resumed": {true, fault, cli.Retry, said +
			"continue from the last checkpoint with the same command and --resume\n"},
		"another's": {false, &tooLarge{errors.New("full"), true}, cli.Retry,
			"train: full\nrun the same command again later\n"},
		"out of memory": {false, &kernels.OutOfMemory{Device: "cuda:0", For: "gradients"}, cli.Failed,
			"train: memory for gradients"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			tr := &train{options: &options{resume: test.resume}, stderr: &stderr}
			if code := tr.exit(context.Background(), test.err); code != test.code ||
				!strings.HasPrefix(stderr.String(), test.want) {
				t.Errorf("exit %d: %s\nnot %d: %s", code, stderr.String(), test.code, test.want)
			}
		})
	}
}

// TestGPUThatFails makes a GPU fail in the middle of a run with each of the results that may be transient. It checks
// that the exit code says that a retry may help, that train says how to continue, and that the run can be resumed.
func TestGPUThatFails(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc", "libnvidia-ml")
	cudatest.Set(t, "IDLE=1 MEMORY=17179869184 HELD=4")
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	for code, name := range map[string]string{"700": "ILLEGAL_ADDRESS", "702": "LAUNCH_TIMEOUT",
		"214": "ECC_UNCORRECTABLE", "999": "UNKNOWN"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STANDIN_FAULT", code)
			t.Setenv("STANDIN_BROKEN", "0")
			out := filepath.Join(t.TempDir(), "out")
			args := small(t, out, "--device", "cuda", "--samples", "0", "--val", "0", "--max-steps", "4", "--save-every", "2")
			var stdout, stderr bytes.Buffer
			exit := run(context.Background(), args, &stdout, &stderr, func(p trainer.Phase) {
				if p == "step 4" {
					os.Setenv("STANDIN_BROKEN", "1")
				}
			})
			said := stderr.String()
			if exit != cli.Retry || !strings.Contains(said, "train: step 4: ") ||
				!strings.Contains(said, "CUDA_ERROR_"+name+": ") ||
				!strings.HasSuffix(said, "\nthe GPU failed: continue from the last checkpoint with the same command and "+
					"--resume\n") {
				t.Fatalf("exit %d: %s", exit, said)
			}
			os.Setenv("STANDIN_BROKEN", "0")
			o := must(t, cli.Done, append(args, "--resume")...)
			if f := summaryOf(t, o); f.Steps != 4 || !strings.Contains(o.stderr, "continuing after step 2 of 4") {
				t.Errorf("%v", o)
			}
			if !strings.Contains(o.stderr, "the GPU's clocks were held back: by power at ") {
				t.Errorf("nothing is said of the power limit: %v", o)
			}
		})
	}
}

// standIns gives this machine stand-in GPUs with the given settings, which compute nothing, and an empty cache of
// compiled kernels.
func standIns(t *testing.T, settings string) {
	t.Helper()
	cudatest.Use(t, "libcuda", "libnvrtc")
	cudatest.Set(t, settings)
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
}

// TestGPUOutOfMemory checks for a table of who uses the memory, and for flags that reduce it.
func TestGPUOutOfMemory(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184 LARGEST=1000000")
	o := must(t, cli.Failed, small(t, filepath.Join(t.TempDir(), "out"), "--device", "cuda")...)
	for _, want := range []string{"train: memory for ", "CUDA_ERROR_OUT_OF_MEMORY", "\n  other processes, the driver",
		"\n  in all                              16.0 GiB\nany of these would fit: "} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
	}
}

// TestGPUMemory checks that the plan includes the driver's own memory, and that the result has the memory of the GPU,
// not of the process.
func TestGPUMemory(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184 USED=5000000000")
	args := small(t, filepath.Join(t.TempDir(), "out"), "--device", "cuda", "--samples", "0", "--val", "0", "--max-steps",
		"2")
	o := must(t, cli.Done, args...)
	if !strings.Contains(o.stdout, "the driver and its code  595.2 MiB") {
		t.Error(o)
	}
	if f := summaryOf(t, o); f.PlannedMemory < 595<<20 || f.PeakMemory < 5e9 || f.PeakMemory > 6e9 {
		t.Errorf("%d bytes of memory, %d planned", f.PeakMemory, f.PlannedMemory)
	}
}

// TestGPUProfile checks that --sync prints how long each kernel took.
func TestGPUProfile(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184")
	args := small(t, filepath.Join(t.TempDir(), "out"), "--device", "cuda", "--samples", "0", "--val", "0", "--max-steps",
		"2", "--sync")
	o := must(t, cli.Done, args...)
	for _, want := range []string{" kernel  times a step", " gather_rows ", " adamw ", " together "} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
	}
}

// TestAnotherDevice checks that train reports that a run was started on another device, the CPU or another GPU, and
// refuses it if it must have the same bits.
func TestAnotherDevice(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184,17179869184")
	out := filepath.Join(t.TempDir(), "out")
	args := small(t, out, "--samples", "0", "--val", "0", "--max-steps", "2")
	must(t, cli.Done, append(args, "--device", "cpu")...)
	for _, step := range []struct{ device, before, now string }{
		{"cuda", "the CPU", "Stand-in 0"},
		{"cuda:1", "Stand-in 0", "Stand-in 1"},
		{"cpu", "Stand-in 1", "the CPU"},
	} {
		change(t, out, func(r map[string]any) { r["finished"] = false })
		resume := append(args, "--resume", "--device", step.device)
		o := must(t, cli.Failed, append(resume, "--same-bits")...)
		if want := "--same-bits: the run began on " + step.before + ", and this is " + step.now +
			": "; !strings.Contains(o.stderr, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
		o = must(t, cli.Done, resume...)
		if want := "the run began on " + step.before + ", and this is " + step.now +
			": continuing, but not with the same bits\n"; !strings.Contains(o.stderr, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
		change(t, out, func(r map[string]any) { r["finished"] = false })
		// run.json has the device on which the run continued.
		if o = must(t, cli.Done, append(resume, "--same-bits")...); strings.Contains(o.stderr, "same bits") {
			t.Error(o)
		}
	}
}

// TestResume_KeepsSizesAndTypes checks that a resumed run keeps the size of a pass on a GPU, the size of a logits
// chunk, and the type of gradients, whatever memory it may use and whichever device it is on.
func TestResume_KeepsSizesAndTypes(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184,34359738368")
	out := filepath.Join(t.TempDir(), "out")
	args := small(t, out, "--samples", "0", "--val", "0", "--max-steps", "2")
	decided := func() (d struct {
		Decisions map[string]string
		Identity  map[string]string
	}) {
		expect.OK(t, json.Unmarshal(readFile(t, filepath.Join(out, trainer.RunName)), &d))
		return d
	}
	must(t, cli.Done, append(args, "--device", "cuda")...)
	want := decided()
	if want.Decisions["passes"] == "" || want.Decisions["logits"] != "in 536870912 bytes" ||
		want.Identity["grad-dtype"] != "BF16" {
		t.Fatal(want)
	}
	for _, how := range [][]string{{"--device", "cuda", "--max-memory", "1GiB"}, {"--device", "cuda:1"},
		{"--device", "cpu"}} {
		change(t, out, func(r map[string]any) { r["finished"] = false })
		must(t, cli.Done, append(append(args, "--resume"), how...)...)
		got := decided()
		for _, what := range []string{"passes", "logits"} {
			if got.Decisions[what] != want.Decisions[what] {
				t.Errorf("%v: %s %s, before %s", how, what, got.Decisions[what], want.Decisions[what])
			}
		}
		if !maps.Equal(got.Identity, want.Identity) {
			t.Errorf("%v: %v, before %v", how, got.Identity, want.Identity)
		}
	}
}

// TestSettings_NameBF16Gradients checks that the settings say which gradients are BF16.
func TestSettings_NameBF16Gradients(t *testing.T) {
	untied := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, untied, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300,
	"hidden_size": 32,
		"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
		"max_position_embeddings": 64,
		"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false}`)
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"default":       {nil, ""},
		"untied":        {[]string{"--grad-dtype", "bf16"}, "gradients  BF16 of layers' matrices and of lm_head.weight\n"},
		"a frozen head": {[]string{"--grad-dtype", "bf16", "--freeze", "lm_head"}, "gradients  BF16 of layers' matrices\n"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--from-scratch", untied, "--data", rows(t, 40), "--seq", "64", "--out",
				filepath.Join(t.TempDir(), "out"), "--device", "cpu", "--dry-run"}
			o := must(t, cli.Done, append(args, c.more...)...)
			if !strings.Contains(o.stdout, c.want) || c.want == "" && strings.Contains(o.stdout, "\ngradients  BF16") {
				t.Error(o)
			}
		})
	}
}

// TestGPURanges checks that a profiler sees what a run is doing, with each range nested in its parent and closed, even
// if the GPU fails.
func TestGPURanges(t *testing.T) {
	standIns(t, "IDLE=1 MEMORY=17179869184")
	for name, test := range map[string]struct {
		more  []string
		ends  int
		fault string
		want  []string
	}{
		"all": {nil, cli.Done, "", []string{"evaluation", "evaluation/forward/layer 1", "evaluation/checkpoint",
			"evaluation/prompt/forward", "step", "step/forward",
			"step/forward/layer 0", "step/forward/layer 1", "step/backward", "step/backward/layer 0", "step/optimizer",
			"checkpoint"}},
		"a layer's gradients": {[]string{"--gradients", "layer", "--batch", "1", "--accumulate", "1"}, cli.Done, "",
			[]string{"step/backward/optimizer", "step/forward/layer 0"}},
		"a GPU that fails": {nil, cli.Retry, "700", []string{"step"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STANDIN_FAULT", cmp.Or(test.fault, "0"))
			t.Setenv("STANDIN_BROKEN", "0")
			ranges := cudatest.UseRanges(t)
			args := small(t, filepath.Join(t.TempDir(), "out"),
				append([]string{"--device", "cuda", "--max-steps", "2", "--eval-every", "2"}, test.more...)...)
			var stdout, stderr bytes.Buffer
			if exit := run(context.Background(), args, &stdout, &stderr, func(p trainer.Phase) {
				if p == "step 2" && test.fault != "" {
					os.Setenv("STANDIN_BROKEN", "1")
				}
			}); exit != test.ends {
				t.Fatalf("%d: %s", exit, stderr.String())
			}
			all := ranges()
			for _, want := range test.want {
				if !slices.Contains(all, want) {
					t.Errorf("no %q in %q", want, all)
				}
			}
			if test.fault == "" && test.more == nil && strings.Count(strings.Join(all, "\n")+"\n", "step\n") != 2 {
				t.Errorf("not two steps: %q", all)
			}
		})
	}
}

// TestGPUAdvice has other processes fill a GPU except for the memory of a run with one micro-batch per pass, including
// 435 MiB for the driver's context. The flags that train names must fit, including --max-memory, which makes passes
// smaller.
func TestGPUAdvice(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	out := filepath.Join(t.TempDir(), "out")
	args := small(t, out, "--samples", "0", "--val", "0", "--max-steps", "2", "--device", "cuda", "--accumulate", "400",
		"--data", rows(t, 400))
	const memory, free = 8 << 30, (603 - 435) << 20
	cudatest.Set(t, fmt.Sprintf("IDLE=1 MEMORY=%d USED=%d", memory, memory-free))
	o := must(t, cli.Retry, args...)
	_, advice, found := strings.Cut(o.stderr, "any of these would fit: ")
	if !found || !strings.HasPrefix(advice, "--max-memory 603MiB (") {
		t.Fatal(o)
	}
	advice, _, _ = strings.Cut(advice, "\n")
	for one := range strings.SplitSeq(strings.ReplaceAll(advice, " or ", ", "), ", ") {
		flags, _, _ := strings.Cut(one, " (")
		must(t, cli.Done, append(append(args, "--restart"), strings.Fields(flags)...)...)
		expect.OK(t, os.RemoveAll(out))
	}
}

// TestResume_KeepsProductAlgorithms checks that a run chooses the algorithms of its matrix products by time, once per
// machine, and keeps them when it is resumed, even if others have become faster. With another cuBLASLt it cannot keep
// them, and says so.
func TestResume_KeepsProductAlgorithms(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc", "libcublasLt")
	cudatest.Set(t, "IDLE=1 MEMORY=17179869184")
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	dir := t.TempDir()
	args := func(name string, more ...string) []string {
		return small(t, filepath.Join(dir, name), append([]string{"--samples", "0", "--val", "0", "--device", "cuda",
			"--max-steps"}, more...)...)
	}
	decided := func(name, step string) (with string, products map[string]string) {
		t.Helper()
		var r, s struct{ Decisions map[string]string }
		for path, into := range map[string]any{"run.json": &r, "checkpoints/step-00000" + step + "/state.json": &s} {
			text, err := os.ReadFile(filepath.Join(dir, name, path))
			if err == nil {
				err = json.Unmarshal(text, into)
			}
			expect.OK(t, err)
		}
		if !maps.Equal(r.Decisions, s.Decisions) {
			t.Errorf("run.json has %d decisions, the checkpoint other %d", len(r.Decisions), len(s.Decisions))
		}
		return r.Decisions["products"], productsOf(r.Decisions)
	}
	shows := func(o outcome, want string) {
		t.Helper()
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q is missing: %v", want, o)
		}
	}
	shows(must(t, cli.Done, args("a", "2")...), ": its first algorithm for each, or one that is 3% faster\n")
	with, first := decided("a", "2")
	if !strings.Contains(with, "Stand-in 0 (") || !strings.Contains(with, " with cuBLASLt 130001 (") || len(first) == 0 {
		t.Fatal(with, first)
	}
	shows(must(t, cli.Done, args("b", "2", "--deterministic")...), ": its first algorithm for each\n")
	if _, none := decided("b", "2"); len(none) != 0 {
		t.Errorf("deterministic: %v", none)
	}
	cudatest.Set(t, "SECOND=200")
	must(t, cli.Done, args("c", "2")...)
	if _, again := decided("c", "2"); !maps.Equal(again, first) {
		t.Errorf("timed again: %v, not %v", again, first)
	}
	t.Setenv("RESTYLE_CACHE", cudatest.Cache(t))
	must(t, cli.Done, args("d", "2")...)
	if _, slower := decided("d", "2"); len(slower) != 0 {
		t.Errorf("slower ones: %v", slower)
	}
	shows(must(t, cli.Done, args("a", "3", "--resume", "--same-bits", "--deterministic")...),
		": the algorithms that the run began with\n")
	if _, kept := decided("a", "3"); !maps.Equal(kept, first) {
		t.Errorf("going on: %d, not %d", len(kept), len(first))
	}
	cudatest.Set(t, "BLAS=130002")
	o := must(t, cli.Failed, args("a", "4", "--resume", "--same-bits")...)
	if !strings.Contains(o.stderr, "--same-bits: the run began on Stand-in 0 (") ||
		!strings.Contains(o.stderr, " with cuBLASLt 130002 (") {
		t.Error(o)
	}
	if o := must(t, cli.Done, args("a", "4", "--resume")...); !strings.Contains(o.stderr, "but not with the same bits\n") {
		t.Error(o)
	}
	if with, anew := decided("a", "4"); !strings.Contains(with, "130002") || len(anew) != 0 {
		t.Errorf("with another cuBLASLt: %v, %d", with, len(anew))
	}
}

// productsOf returns the decisions about single matrix products.
func productsOf(decisions map[string]string) map[string]string {
	products := maps.Clone(decisions)
	maps.DeleteFunc(products, func(name, _ string) bool { return !strings.HasPrefix(name, "product ") })
	return products
}
