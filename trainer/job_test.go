package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/internal/models"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/trainer/checkpoint"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// TestOpenRefuses checks that a pattern that matches nothing is an error before anything is allocated. Otherwise the
// run would train all parameters.
func TestOpenRefuses(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	expect.OK(t, err)
	s := tinySettings()
	s.Freeze = []string{"layer.0"}
	plan, err := NewPlan(s, learnable(4, 1), nil)
	expect.OK(t, err)
	_, err = NewJob(d, base, plan, JobOptions{Scratch: true}).Open(t.Context(), t.TempDir(), "")
	if err == nil || !strings.HasPrefix(err.Error(), `freeze "layer.0": matches no parameter`) || d.Allocated() > 0 {
		t.Errorf("%v, with %d bytes allocated", err, d.Allocated())
	}
}

// TestOpenDirectory opens runs in directories that are missing, taken, finished and unfinished. Nothing that is in one
// is ever lost, and what Save writes names its base model, as chat needs.
func TestOpenDirectory(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	expect.OK(t, err)
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	expect.OK(t, err)
	s := tinySettings()
	s.Epochs, s.MaxSteps = 0, 2
	plan, err := NewPlan(s, learnable(9, 1), nil)
	expect.OK(t, err)
	root, err := filepath.EvalSymlinks(t.TempDir())
	expect.OK(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	var notices []string
	// train starts a run, and ends it unless stop is true.
	train := func(base *hf.Checkpoint, name, from string, stop bool) error {
		r, err := NewJob(d, base, plan, JobOptions{Scratch: base.Name != at("a/model")}).Open(t.Context(), at(name), from)
		if err != nil {
			return err
		}
		_, err = NewJob(d, base, plan, JobOptions{}).Open(t.Context(), at(name), from)
		if !errors.Is(err, disk.ErrLocked) {
			t.Errorf("%s is opened twice: %v", name, err)
		}
		r.Hooks.Notice = func(s string) { notices = append(notices, s) }
		ctx, cancel := context.WithCancel(t.Context())
		r.Hooks.Step = func(Step) {
			if stop {
				cancel()
			}
		}
		if err = r.Start(ctx); err == nil {
			_, err = r.Run(ctx)
		}
		cancel()
		return errors.Join(err, r.Save(nil), r.Close())
	}
	if err := train(base, "a/model", "", false); err != nil { // of a directory that is made
		t.Fatal(err)
	}
	tuned, err := hf.OpenModel(at("a/model"))
	expect.OK(t, err)
	defer tuned.Close()
	os.WriteFile(at("file"), []byte("mine"), 0o666)
	os.Mkdir(at("mine"), 0o777)
	os.WriteFile(at("mine/thesis"), nil, 0o666)
	for _, c := range []struct {
		name, from string
		stop       bool
		err        string
	}{
		{"file", "", false, "cannot create " + at("file")},
		{"mine", "", false, "is not empty and holds no training run (it has thesis)"},
		{"a/model", "", false, "contains the model to train"},
		{"out", "", true, ErrStopped.Error()},
		{"out", "", false, "there is an unfinished run in " + at("out")},
		{"out", checkpoint.Dir(CheckpointsIn(at("out")), 1), false, ""},
		{"out", "", false, ""},
	} {
		if err := train(tuned, c.name, c.from, c.stop); (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	want := "the run that was in " + at("out") + " is kept as " + at("out.bak")
	if !slices.Equal(notices, []string{want}) {
		t.Errorf("%q, want %q", notices, want)
	}
	for _, name := range []string{"out", "out.bak"} {
		var f RunFile
		text, _ := os.ReadFile(at(name + "/" + RunName))
		if err := json.Unmarshal(text, &f); err != nil || !f.Finished || f.Base != at("a/model") ||
			f.Settings["keep"] != "2" {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}

// TestBaseName finds models from any directory: only a model in one has an absolute name.
func TestBaseName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	expect.OK(t, err)
	t.Chdir(dir)
	for _, name := range []string{"starter", "owner/model"} {
		expect.OK(t, os.MkdirAll(name, 0o777))
	}
	for _, c := range []struct {
		model hf.Checkpoint
		want  string
	}{
		{hf.Checkpoint{Name: "starter", Embedded: true}, "starter"},
		{hf.Checkpoint{Name: "owner/model"}, dir + "/owner/model"},
		{hf.Checkpoint{Name: "owner/other"}, "owner/other"},
		{hf.Checkpoint{Name: dir}, dir},
	} {
		if got := BaseName(&c.model); got != c.want {
			t.Errorf("%s: %s, want %s", c.model.Name, got, c.want)
		}
	}
}

// smallConfig is the shape of SmolLM2-135M, which has 30 layers.
const smallConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152,
	"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": LAYERS, "num_attention_heads": 9,
	"num_key_value_heads": 3, "max_position_embeddings": 8192, "tie_word_embeddings": true}`

// TestConfigFor checks that a program gets the settings that the command takes.
func TestConfigFor(t *testing.T) {
	starter, err := models.Open(t.Context(), nil, data.StarterName)
	if err != nil {
		t.Skip(err) // a build without the weights
	}
	defer starter.Close()
	tiny, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	expect.OK(t, err)
	// sized returns a SmolLM2 with this many layers of 3,540,096 parameters each, in addition to 28,312,128 others.
	sized := func(layers int) *hf.Checkpoint {
		config := strings.Replace(smallConfig, "LAYERS", fmt.Sprint(layers), 1)
		c, err := hf.NewModel(map[string][]byte{"config.json": []byte(config)})
		expect.OK(t, err)
		return c
	}
	for _, c := range []struct {
		base    *hf.Checkpoint
		scratch bool
		want    func(*Config)
	}{
		{starter, false, func(c *Config) { c.LR, c.Epochs, c.Batch, c.Accumulate = 1.5e-4, 1, 8, 1 }},
		{starter, true, func(c *Config) { c.LR, c.Epochs, c.WeightDecay = 1e-3, 6, 0.1 }},
		{tiny, false, func(c *Config) { c.Seq = 64 }},
		{sized(6), false, func(c *Config) {}},
		{sized(7), false, func(c *Config) { c.LR = 1e-4 }},
		{sized(30), false, func(c *Config) { c.LR = 1e-4 }},
		{sized(30), true, func(c *Config) { c.LR, c.Epochs, c.WeightDecay = 6e-4, 6, 0.1 }},
		{sized(48), false, func(c *Config) { c.LR = 1e-4 }},
		{sized(49), false, func(c *Config) {}},
	} {
		want := DefaultConfig()
		c.want(&want)
		if got, err := ConfigFor(c.base, c.scratch); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, from scratch %v: %+v, %v", c.base.Name, c.scratch, got, err)
		}
	}
	for _, c := range []struct {
		params int64
		lr     string
	}{{1000, "3e-3"}, {5_000_000, "3e-3"}, {5_000_001, "1e-3"}, {50_000_000, "1e-3"}, {500_000_000, "6e-4"},
		{500_000_001, "3e-4"}} {
		if got := fromScratch(c.params)["lr"]; got != c.lr {
			t.Errorf("%d parameters: lr %s, want %s", c.params, got, c.lr)
		}
	}
}

// TestContextCountsOnce checks that the memory of the driver's context, which a GPU no longer has free once it is open,
// counts once: a run that fits to the byte is accepted, and one byte more is too large. Nor may a run take more than
// the whole GPU.
func TestContextCountsOnce(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc", "libcublasLt")
	cudatest.Set(t, "IDLE=1 MEMORY=8589934592")
	d, err := kernels.Open("cuda", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	base, err := hf.NewModel(map[string][]byte{"config.json": []byte(tinyConfig)})
	expect.OK(t, err)
	plan, err := NewPlan(tinySettings(), learnable(4, 1), nil)
	expect.OK(t, err)
	j := NewJob(d, base, plan, JobOptions{Scratch: true})
	const capacity = 8 << 30
	total, context := j.Memory.Total(), d.Context()
	if context < 100<<20 || total < context || total > capacity || d.Allocated() == 0 {
		t.Fatalf("the context takes %d bytes of %d, and products have %d", context, total, d.Allocated())
	}
	cudatest.Set(t, fmt.Sprintf("USED=%d", capacity-(total-context)))
	if err := j.CheckMemory(); err != nil {
		t.Error(err)
	}
	cudatest.Set(t, fmt.Sprintf("USED=%d", capacity-(total-context)+1))
	if e := new(TooLargeError); !errors.As(j.CheckMemory(), &e) || !e.Busy {
		t.Errorf("with a byte less: %v", e)
	}
	cudatest.Set(t, "USED=0")
	j.Memory.Parts = append(j.Memory.Parts, Part{"more", capacity - total + 1})
	if err := j.CheckMemory(); err == nil {
		t.Errorf("%d bytes are accepted on a GPU of %d", j.Memory.Total(), capacity)
	}
}
