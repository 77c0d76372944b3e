package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// configs are small models of each kind. Their layers have matrices of different sizes, and the last has a layer with a
// mixture between two without.
var configs = map[string]string{
	"llama": `{"model_type": "llama", "vocab_size": 64, "hidden_size": 96, "intermediate_size": 136,
		"num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
		"rms_norm_eps": 1e-5, "tie_word_embeddings": true}`,
	"gpt2": `{"model_type": "gpt2", "vocab_size": 64, "n_embd": 40, "n_layer": 2, "n_head": 4, "n_positions": 64,
		"layer_norm_epsilon": 1e-5}`,
	"qwen3_moe": `{"model_type": "qwen3_moe", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
		"moe_intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
		"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0, 2], "decoder_sparse_step": 1,
		"max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": false}`,
}

// saved saves a model with random weights and opens it.
func saved(t *testing.T, d *kernels.Device, config string) *hf.Checkpoint {
	t.Helper()
	c, err := hf.NewModel(map[string][]byte{"config.json": []byte(config)})
	expect.OK(t, err)
	m, err := model.New(d, c.Config, model.Options{})
	expect.OK(t, err)
	defer m.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range m.Params() {
		x := make([]float32, p.W.Len())
		for i := range x {
			x[i] = float32(0.3 * random.NormFloat64())
			if p.Norm {
				x[i]++
			}
		}
		d.Upload(p.W, x)
	}
	dir := t.TempDir()
	expect.OK(t, hf.Save(dir, c, d, m.Params(), hf.SaveOptions{}))
	if c, err = hf.OpenModel(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// wholeGPTQ returns the bytes of each matrix in layers that gets GPTQ, with Hessians of whole passes through a model
// that is all in memory, and a factor for each matrix.
func wholeGPTQ(t *testing.T, d *kernels.Device, c *hf.Checkpoint, text []model.Batch,
	as tensor.DType) map[string][]byte {
	t.Helper()
	m, err := model.New(d, c.Config, model.Options{DType: c.DType(), MaxTokens: maxTokens})
	expect.OK(t, err)
	defer m.Close()
	expect.OK(t, c.Load(t.Context(), d, m.Params(), nil))
	arena, err := d.NewArena("Hessians", 1<<24)
	expect.OK(t, err)
	defer arena.Close()
	type sum struct{ w, h tensor.Tensor }
	sums := map[string]sum{}
	m.OnInputs = func(w, x tensor.Tensor) {
		if _, ok := sums[w.Name]; !ok {
			sums[w.Name] = sum{w, arena.New("h", tensor.F32, x.Dim(-1), x.Dim(-1))}
			d.Zero(sums[w.Name].h)
		}
		d.LinearGradient(sums[w.Name].h, x, x, 0, true)
	}
	for _, b := range text {
		if _, err := m.Loss(b); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string][]byte{}
	for _, p := range m.Params() {
		for _, s := range sums {
			if p.W.Addr < s.w.Addr || p.W.Addr >= s.w.Addr+uintptr(s.w.Bytes()) {
				continue
			}
			w, err := d.Floats(p.W)
			expect.OK(t, err)
			f, err := quant.NewFactor(t.Context(), s.h.F32(), p.W.Dim(-1))
			expect.OK(t, err)
			all[p.Name] = make([]byte, p.W.Rows()*as.RowBytes(p.W.Dim(-1)))
			expect.OK(t, quant.RuleFor(as).GPTQ(t.Context(), all[p.Name], w, f))
		}
	}
	return all
}

// TestCalibrate compares what calibrate writes with GPTQ of whole passes, byte by byte. Experts stay as they were,
// and so do matrices that are not quantized: in Q4_0, the llama's down_proj, whose rows are no whole blocks.
func TestCalibrate(t *testing.T) {
	for _, x := range []struct {
		config string
		as     tensor.DType
	}{{"llama", tensor.INT4Z}, {"gpt2", tensor.INT4Z}, {"qwen3_moe", tensor.INT4Z}, {"llama", tensor.Q4_0},
		{"qwen3_moe", tensor.Q4_0}} {
		t.Run(x.config+"/"+x.as.String(), func(t *testing.T) {
			d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
			expect.OK(t, err)
			defer d.Close()
			c := saved(t, d, configs[x.config])
			q := model.Quantization{Layers: x.as, Weights: map[string]tensor.DType{}}
			for _, p := range c.Config.Params() {
				if x.as == tensor.Q4_0 && strings.HasSuffix(p.Name, "down_proj.weight") && p.W.Dim(-1)%32 != 0 {
					q.Weights[p.Name] = 0
				}
			}
			random := rand.New(rand.NewPCG(3, 4))
			var text []model.Batch
			for _, n := range []int{20, 1, 64, 33} {
				var b model.Batch
				for range n {
					b.IDs = append(b.IDs, int32(random.IntN(64)))
				}
				text = append(text, b)
			}
			want := wholeGPTQ(t, d, c, text, x.as)
			for name := range q.Weights {
				delete(want, name)
			}
			show := &cli.Progress{Line: cli.NewStatusLine(io.Discard)}
			after, err := nearest(t.Context(), d, c, q, show)
			expect.OK(t, err)
			defer after.Close()
			nearest := bytesOf(t, d, after)
			before, err := openOriginal(t.Context(), d, c)
			expect.OK(t, err)
			defer before.Close()
			memory := d.InUse()
			expect.OK(t, calibrate(t.Context(), before, after, text, show))
			if n := d.InUse(); n != memory {
				t.Errorf("%d bytes are in use afterwards, %d before", n, memory)
			}
			differ := 0
			for name, got := range bytesOf(t, d, after) {
				expected, ok := want[name]
				if !ok {
					expected = nearest[name]
				} else if !bytes.Equal(got, nearest[name]) {
					differ++
				}
				if !bytes.Equal(got, expected) {
					t.Errorf("%s differs", name)
				}
			}
			if differ < len(want)/2 || len(want) < 4*c.Config.Layers {
				t.Errorf("GPTQ changed %d of %d matrices", differ, len(want))
			}
		})
	}
}

// bytesOf returns the bytes of each parameter.
func bytesOf(t *testing.T, d *kernels.Device, m *model.Model) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, p := range m.Params() {
		all[p.Name] = make([]byte, p.W.Bytes())
		expect.OK(t, d.DownloadBytes(all[p.Name], p.W))
	}
	return all
}

// drawn collects what is drawn on a status line, and calls found when that contains text for the first time.
type drawn struct {
	bytes.Buffer
	text  string
	found func()
}

func (d *drawn) Write(p []byte) (int, error) {
	if d.found != nil && strings.Contains(string(p), d.text) {
		d.found()
		d.found = nil
	}
	return d.Buffer.Write(p)
}

// fewQuestions limits the perplexity to count reference answers: for all of them it takes seconds.
func fewQuestions(t *testing.T, count int) {
	all := heldOut
	heldOut = func() ([]data.Question, error) {
		questions, err := all()
		return questions[:min(count, len(questions))], err
	}
	t.Cleanup(func() { heldOut = all })
}

// TestStatusLine checks what the status line of a terminal shows.
func TestStatusLine(t *testing.T) {
	fewQuestions(t, 32)
	var lines drawn
	status := &cli.StatusLine{W: &lines, Width: func() int { return 80 }}
	o := options{weights: "int4", rounding: "gptq", text: 2}
	err := o.quantize(t.Context(), "starter", filepath.Join(t.TempDir(), "out"), io.Discard, status)
	expect.OK(t, err)
	for _, want := range []string{
		`rounding to nearest: 100%, \d+s left`,
		`GPTQ: layer 1 of 8, conversation 1 of 2, 0%`, `GPTQ: layer 1 of 8, conversation 2 of 2, \d+%`,
		`GPTQ: layer 1 of 8, matrix 1 of 7, \d+%`, `GPTQ: layer 8 of 8, matrix 7 of 7, 9\d%, \d+s left`,
		`writing `, `comparing matrices: \d+%`,
		`perplexity before: layer 1 of 8, question 1 of \d+, 0%`,
		`perplexity before: head, question \d+ of \d+, 100%, \d+s left`,
		`perplexity after: layer 8 of 8, question 32 of 32, \d+%, \d+s left`,
	} {
		if !regexp.MustCompile(want).Match(lines.Bytes()) {
			t.Errorf("no line is like %s", want)
		}
	}
}

// TestReadingShare checks the estimate for a layer of Llama-3.2-1B, half of which is reading with 7,500 tokens.
func TestReadingShare(t *testing.T) {
	var params []model.Param
	for _, shape := range [][2]int{{2048, 2048}, {512, 2048}, {512, 2048}, {2048, 2048}, {8192, 2048}, {8192, 2048},
		{2048, 8192}} {
		params = append(params, model.Param{W: tensor.Tensor{DType: tensor.INT4Z, Shape: shape[:]}})
	}
	params = append(params, model.Param{W: tensor.Tensor{DType: tensor.BF16, Shape: []int{2048}}})
	for tokens, want := range map[int]float64{1000: 0.1, 7500: 0.5, 67000: 0.9} {
		if got := readingShare(params, tokens); !(math.Abs(got-want) <= 0.02) {
			t.Errorf("%d tokens: %.3f, want %.2f", tokens, got, want)
		}
	}
}

// TestInterrupted_AtEachStage interrupts a run at each stage: before the model is written there is no directory, and
// afterwards it is complete.
func TestInterrupted_AtEachStage(t *testing.T) {
	fewQuestions(t, 32)
	for stage, written := range map[string]bool{
		"rounding to nearest": false, "layer 3 of 8, conversation 2": false, "layer 2 of 8, matrix 3": false,
		"comparing matrices": true, "perplexity before: layer 2": true,
	} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out := filepath.Join(t.TempDir(), "out")
		status := &cli.StatusLine{W: &drawn{text: stage, found: stop}, Width: func() int { return 80 }}
		err := options{weights: "int4", rounding: "gptq", text: 2}.quantize(ctx, "starter", out, io.Discard, status)
		if ctx.Err() == nil {
			t.Errorf("%s: the status line never says that", stage)
		}
		if !written {
			if _, missing := os.Stat(out); !errors.Is(err, context.Canceled) || missing == nil {
				t.Errorf("%s: %v, and the directory: %v", stage, err, missing)
			}
			continue
		}
		if !errors.As(err, new(*stopped)) {
			t.Errorf("%s: %v", stage, err)
		}
		c, err := hf.OpenModel(out)
		if err != nil {
			t.Errorf("%s: %v", stage, err)
			continue
		}
		_ = c.Close()
	}
}

// TestQuality_AsksBothModels stops after two questions: the closing table counts the answers to these.
func TestQuality_AsksBothModels(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const tiny = "../../infer/testdata/tiny/base"
	status := &cli.StatusLine{W: &drawn{text: "asking: 2 of", found: stop}, Width: func() int { return 80 }}
	var said strings.Builder
	err := options{weights: "int8", rounding: "nearest", quality: true}.quantize(ctx, tiny,
		filepath.Join(t.TempDir(), "out"), &said, status)
	if !errors.As(err, new(*stopped)) || !strings.Contains(said.String(), "\nof 2 answers, ended by the model") ||
		!strings.Contains(said.String(), "\nperplexity with INT8 activations too, ") {
		t.Errorf("%v\n%s", err, &said)
	}
}
