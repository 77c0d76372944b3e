package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/model"
)

func TestLayer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"layer", "--config", tinyModel(t), "--tokens", "16,100", "--iterations", "2", "--ablation",
		"--device",
		"cpu", "--out", dir}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	f, err := results.Load(dir)
	expect.OK(t, err)
	s, err := shapeOf("--config", args[2])
	expect.OK(t, err)
	none := map[string]float64{} // memory by pass
	var sets []string
	for _, r := range f.Table("layer").Rows {
		if r["tokens"] == 100.0 {
			if !strings.Contains(r.Text("why"), "64 positions") {
				t.Errorf("%v", r)
			}
			continue
		}
		if r["pass"] == "forward" {
			sets = append(sets, r.Text("fused"))
		}
		for _, name := range []string{"time", "noise", "timings", "rate", "tflops", "of_product", "memory"} {
			if !(r.Number(name) >= 0) {
				t.Errorf("%v: %s", r, name)
			}
		}
		l := &layerRun{shape: s, tokens: 16, training: r["pass"] == "training"}
		if ms := r.Number("time"); !near(r.Number("rate")*ms, 16e3) || !near(r.Number("tflops")*ms*1e9, l.flops()) ||
			r["timings"] != 2.0 {
			t.Errorf("%v", r)
		}
		plain := r["fused"] == "none"
		if plain {
			none[r.Text("pass")] = r.Number("memory")
		}
		if plain != (r["speedup"] == nil) || plain != (r["speedup_noise"] == nil) || plain != (r["saved"] == nil) ||
			!plain && math.Abs(r.Number("saved")-1+r.Number("memory")/none[r.Text("pass")]) > 1e-12 {
			t.Errorf("%v", r)
		}
	}
	want := "none, all, all but rmsnorm, all but attention, all but swiglu, only rmsnorm, only attention, only swiglu"
	if got := strings.Join(sets, ", "); got != want {
		t.Errorf("%s\n%s", got, stdout)
	}
	var shares float64
	var parts []string
	for _, r := range f.Table("layer-parts").Rows {
		if r["pass"] == "training" && r["fused"] == "all" {
			shares += r.Number("share")
			parts = append(parts, r.Text("part"))
			if r["part"] == "linear" && (r["count"] != 5.0 || !(r.Number("tflops") > 0)) { // also the head's
				t.Errorf("%v", r)
			}
		}
	}
	for _, part := range []string{"add_rmsnorm", "rope", "attention", "swiglu", "linear", "attention_backward",
		"linear_dw"} {
		if !slices.Contains(parts, part) {
			t.Errorf("no %s among %v", part, parts)
		}
	}
	if shares < 0.999 || shares > 1.001 {
		t.Errorf("all parts together are %v", shares)
	}
}

// TestLayerFLOPs compares what the products of a pass count with model.FLOPs, which also counts the head.
func TestLayerFLOPs(t *testing.T) {
	s, err := shapeOf("--config", "llama-2-7b")
	expect.OK(t, err)
	l := &layerRun{shape: s, tokens: 64, training: true}
	c := l.config()
	head := 6 * float64(c.Vocab*c.Dim)
	attention := 3 * 4 * float64(c.Heads*c.HeadDim) * 65 / 2 // two products per pair, and twice that backward
	if got, want := l.flops()/64-attention, model.FLOPs(c, model.Options{Train: true},
		0)-head; !(math.Abs(got/want-1) <= 1e-12) {
		t.Errorf("%g, want %g", got, want)
	}
}

func TestLayerOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("a few seconds on the emulated GPU")
	}
	code, stdout, stderr := bench(t, "layer", "--config", tinyModel(t), "--tokens", "8", "--iterations", "1", "--seconds",
		"0.01", "--device", "emulated")
	if strings.Contains(stderr, cuda.ErrNoCompiler.Error()) {
		t.Skip(stderr)
	}
	if code != cli.Done || strings.Count(stdout, " TFLOP/s") != 4 {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}

// TestLayerSets checks that an ablation leaves out the operations that a model lacks.
func TestLayerSets(t *testing.T) {
	for name, ops := range map[string][]string{"llama-2-7b": {"rmsnorm", "attention", "swiglu"},
		"../../data/scratch/gpt.json": {"layernorm", "attention", "linear_activation"}} {
		s, err := shapeOf("--config", name)
		expect.OK(t, err)
		want := []string{"none", "all"}
		for _, kind := range []string{"all but ", "only "} {
			for _, op := range ops {
				want = append(want, kind+op)
			}
		}
		var got []string
		for _, f := range (&layerOptions{ablation: true}).sets(s.config) {
			got = append(got, setName(f))
		}
		if !slices.Equal(got, want) || len((&layerOptions{}).sets(s.config)) != 2 {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestMaxTime checks that what takes longer is left out, and that the rows say so.
func TestMaxTime(t *testing.T) {
	for args, want := range map[string]string{
		"layer --tokens 16": "a pass takes ", "infer --lengths 16": "reading the context takes ",
		"kernels --op swiglu": "a run takes ",
	} {
		dir := t.TempDir()
		all := append(strings.Fields(args), "--device", "cpu", "--max-time", "1ns", "--out", dir)
		if !strings.HasPrefix(args, "kernels") {
			all = append(all, "--config", tinyModel(t))
		}
		if code, _, stderr := bench(t, all...); code != cli.Done {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
		f, err := results.Load(dir)
		if err != nil || len(f.Tables[0].Rows) < 2 {
			t.Fatal(err, f)
		}
		for _, r := range f.Tables[0].Rows {
			if why := r.Text("why"); r["time"] != nil || !strings.HasPrefix(why, want) ||
				!strings.HasSuffix(why, " s or more, longer than --max-time 1ns") {
				t.Errorf("%s: %v", args, r)
			}
		}
	}
}

func TestLayerRefuses(t *testing.T) {
	refuses(t, "layer", cli.Usage, map[string]string{
		"--passes backward": `--passes "backward"`,
		"--tokens 0":        `--tokens "0"`,
		"--config nowhere":  "--config nowhere",
		"--iterations 0":    "--iterations 0",
		"--dtype f16":       "--dtype",
	})
}
