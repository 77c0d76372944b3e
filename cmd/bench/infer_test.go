package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
)

func TestInfer(t *testing.T) {
	dir, config := filepath.Join(t.TempDir(), "out"), tinyModel(t)
	args := []string{"infer", "--config", config, "--lengths", "5,20,100", "--tokens", "3", "--warmup", "1", "--device",
		"cpu", "--quantize", "int8,int8x8,int4", "--out", dir}
	code, stdout, stderr := bench(t, args...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	f, err := results.Load(dir)
	expect.OK(t, err)
	table := f.Table("infer")
	for _, r := range table.Rows {
		if r["context"] == 100.0 {
			if r.Text("why") != "104 tokens with the timed ones: the model has 64 positions" || r["time"] != nil {
				t.Errorf("%v", r)
			}
			continue
		}
		for _, name := range []string{"time", "rate", "noise", "timings", "planned"} {
			if r.Text("why") != "" {
				t.Fatalf("%s: %s", table.ID(r), r["why"])
			}
			if !(r.Number(name) >= 0) {
				t.Errorf("%s: %s %v", table.ID(r), name, r[name])
			}
		}
		if r["planned"] != r["allocated"] { // on the CPU the plan is exact
			t.Errorf("%s: planned %v, allocated %v", table.ID(r), r["planned"], r["allocated"])
		}
		count := map[string]float64{cached: 1, uncached: 1, prefill: r.Number("context")}[r.Text("mode")]
		if got := r.Number("rate") * r.Number("time") / 1e3; got < 0.999*count || got > 1.001*count {
			t.Errorf("%s: %v tokens in the time, want %v", table.ID(r), got, count)
		}
	}
	if len(table.Rows) != 4*2*3*3 ||
		!strings.Contains(stdout, ", BF16, fused, 100 tokens: 104 tokens with the timed ones") {
		t.Errorf("%d rows\n%s", len(table.Rows), stdout)
	}
	page := calm(t, dir)
	for _, want := range []string{"after 20 tokens: with the cache a token is ",
		", int8, fused, after 20 tokens: compared with BF16 weights, a token is ",
		", int8x8, standard, after 20 tokens: compared with BF16 weights, a token is ", "% of the memory."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, name := range []string{"infer-quantized.svg", "infer-cache.svg", "infer-prefill.svg", "infer-memory.svg",
		"infer.csv"} {
		if files, err := filepath.Glob(filepath.Join(dir, name)); err != nil || len(files) != 1 {
			t.Errorf("%s is not there", name)
		}
	}
	if code, stdout, _ = bench(t, args...); code != cli.Done || strings.Contains(stdout, "tokens/s ±") ||
		strings.Contains(stdout, "too noisy, ±") {
		t.Errorf("exit %d: measured again:\n%s", code, stdout)
	}
}

// TestInferQuantizations checks that other names of quantizations are usage errors.
func TestInferQuantizations(t *testing.T) {
	for _, list := range []string{"int2", "int8,", ",int4", "INT8", "int8,int8"} {
		if code, _, stderr := bench(t, "infer", "--config", tinyModel(t), "--quantize", list); code != cli.Usage ||
			!strings.Contains(stderr, "--quantize") {
			t.Errorf("%q: exit %d, %s", list, code, stderr)
		}
	}
}

// TestWeightsRead checks the bytes of a token: 32 of the embedding, 64·32 of the head,
// 2·(3·32·32 + 3·48·32 + 2·32) of the layers, and 32 of the last norm.
func TestWeightsRead(t *testing.T) {
	s, err := shapeOf("--config", tinyModel(t))
	expect.OK(t, err)
	m := newTiny(t, s.config)
	if got, want := weightsRead(m), 2*(32+64*32+2*(3*32*32+3*48*32+2*32)+32); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// TestWeightsReadOfExperts checks that a token of a mixture reads what a token of its dense counterpart reads, and
// also the routers: [8, 32] in each of two layers.
func TestWeightsReadOfExperts(t *testing.T) {
	s, err := shapeOf("--config", tinyModel(t))
	expect.OK(t, err)
	experts, err := s.counterpart()
	expect.OK(t, err)
	dense := weightsRead(newTiny(t, s.config))
	if got, want := weightsRead(newTiny(t, experts.config)), dense+2*2*8*32; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	back, err := experts.counterpart()
	if err != nil || back.config.Mixture != nil || back.config.Inner != s.config.Inner || weightsRead(newTiny(t,
		back.config)) != dense {
		t.Errorf("the counterpart of the counterpart: %+v, %v", back, err)
	}
}

// TestInferMoE times a dense model and its mixture of experts.
func TestInferMoE(t *testing.T) {
	out := t.TempDir()
	code, stdout, stderr := bench(t, "infer", "--config", tinyModel(t), "--moe", "--lengths", "5", "--tokens", "2",
		"--warmup", "0", "--fused", "all", "--device", "cpu", "--out", out)
	if code != cli.Done {
		t.Fatalf("%d: %s", code, stderr)
	}
	for _, want := range []string{"config.json, BF16, fused, 5 tokens, with the cache",
		"config.json, 2 of 8 experts, BF16, fused, 5 tokens, with the cache"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	if page := calm(t, out); !strings.Contains(page, ", which takes the same multiplications, a token is ") {
		t.Error(page)
	}
}

func TestInferRefuses(t *testing.T) {
	refuses(t, "infer", cli.Usage, map[string]string{
		"--fused some": "--fused: ", "--tokens 0": "--tokens 0", "--lengths 5,-1": `--lengths "5,-1"`,
		"--moe --config ../../data/scratch/gpt.json": "which has no mixture of experts of the same active size",
		"--max-time -1s": "--max-time -1s: must be more than 0", "--out infer.go": "--out infer.go: not a directory",
		"--dtype f16": `--dtype "f16"`, "--config nowhere": "--config nowhere: ", "--lengths many": `"many": must be numbers`,
	})
}

// TestInferProfile checks that a profile tells products apart by their sizes and has every kernel of a token, and that
// a profiler can see the tokens.
func TestInferProfile(t *testing.T) {
	ranges := cudatest.UseRanges(t)
	code, stdout, stderr := bench(t, "infer", "--config", tinyModel(t), "--lengths", "2", "--tokens", "2", "--warmup", "0",
		"--device", "emulated", "--sync", "--fused", "all")
	if strings.Contains(stderr, cuda.ErrNoCompiler.Error()) {
		t.Skip(stderr)
	}
	if code != cli.Done {
		t.Fatalf("%d: %s", code, stderr)
	}
	for _, want := range []string{
		"matvec 1x64x32 ", "matvec 1x96x32 ", "matvec 1x32x32 ", "matvec 1x32x48 ", "attention_next ", "choose_next ",
	} {
		if !strings.Contains(stdout, " "+want) {
			t.Errorf("no %s:\n%s", want, stdout)
		}
	}
	if all := ranges(); !slices.Contains(all, "token") {
		t.Errorf("a profiler sees %q", all)
	}
}

// TestInferPage_QuantizedWeights checks what a page says about quantized weights, and that only groups of several
// lengths are drawn as lines.
func TestInferPage_QuantizedWeights(t *testing.T) {
	table := &results.Table{Name: "infer", Columns: inferColumns}
	for _, r := range []struct {
		kind    string
		context float64
		time    float64
		memory  float64
	}{{"BF16", 64, 8, 200}, {"BF16", 128, 10, 200}, {"int8", 128, 5, 120}, {"int4", 128, 4, 80}} {
		for _, mode := range []string{cached, uncached, prefill} {
			table.Rows = append(table.Rows, results.Row{"model": "m", "type": r.kind, "form": "fused", "mode": mode,
				"context": r.context, "time": r.time, "noise": 0.03, "rate": 1e3 / r.time, "allocated": r.memory,
				"planned": r.memory})
		}
	}
	s := inferSection(table)
	words := strings.Join(s.Words, "\n")
	for _, want := range []string{
		"m, int8, fused, after 128 tokens: compared with BF16 weights, a token is 2 times as fast, ±4%, with 60% of ",
		"m, int4, fused, after 128 tokens: compared with BF16 weights, a token is 2.5 times as fast, ±4%, with 40% of ",
	} {
		if strings.Count(words, want) != 1 {
			t.Errorf("the page lacks %q:\n%s", want, words)
		}
	}
	if strings.Contains(words, "m, BF16, fused, after 128 tokens: compared") {
		t.Errorf("a comparison of weights with themselves:\n%s", words)
	}
	for _, p := range s.Pictures {
		if has := strings.Contains(string(p.SVG), "m, int8"); has != (p.Name == "infer-quantized") {
			t.Errorf("%s: has int8: %v", p.Name, has)
		}
	}
	if len(s.Pictures) != 4 {
		t.Errorf("%d pictures", len(s.Pictures))
	}
}
