package parity

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"restyle/gguf"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/lora"
	"restyle/model"
	"restyle/tensor"
)

// A trap is a mistake that others have made. If a test makes it on purpose, the error of a comparison must be at least
// least.
type trap struct {
	name    string
	mistake mistake
	figure  string  // beginning of the comparison's name
	least   float64 // minimum error
	applies func(c model.Config) bool
}

// always and the following functions report whether a trap applies to a model.
func always(model.Config) bool       { return true }
func scaled(c model.Config) bool     { return c.RoPEScaling != nil }
func grouped(c model.Config) bool    { return c.KVHeads > 1 && c.KVHeads < c.Heads }
func padded(c model.Config) bool     { return c.PadID >= 0 }
func narrowed(c model.Config) bool   { return c.Window > 0 }
func unwindowed(c model.Config) bool { return c.Window == 0 }
func plainHeads(c model.Config) bool { return c.HeadDim*c.Heads != c.Dim && !c.QKNorm }

var traps = []trap{
	{"interleaved rotation", mistake{weights: interleave}, "logits", 5e-2, func(c model.Config) bool { return !c.QKNorm }},
	{"no RoPE scaling", mistake{config: func(c *model.Config) { c.RoPEScaling = nil }}, "logits", 1e-3, scaled},
	{"another factor of RoPE scaling", mistake{config: scaling(func(s *model.RoPEScaling) { s.Factor *= 2 })},
		"inv_freq", 0.1, scaled},
	{"another low factor", mistake{config: scaling(func(s *model.RoPEScaling) { s.LowFreqFactor *= 1.5 })}, "inv_freq",
		1e-3, scaled},
	{"another high factor", mistake{config: scaling(func(s *model.RoPEScaling) { s.HighFreqFactor *= 1.5 })}, "inv_freq",
		1e-3, scaled},
	{"another original length", mistake{config: scaling(func(s *model.RoPEScaling) { s.OriginalMaxPositions *= 2 })},
		"inv_freq", 1e-3, scaled},
	{"scaled frequencies 0.1 % off", mistake{config: scaling(func(s *model.RoPEScaling) { s.Factor *= 1.001 })},
		"inv_freq", 9e-4, scaled},
	{"another base of RoPE", mistake{config: func(c *model.Config) { c.RoPETheta *= 1.1 }}, "logits", 1e-3, always},
	{"query head h reads key head h mod kvHeads", mistake{weights: wrongKeyHead}, "logits", 5e-2, grouped},
	{"scores scaled by hidden / heads", mistake{weights: scaleScores}, "logits", 5e-3, plainHeads},
	{"eps ten times as large", mistake{config: func(c *model.Config) { c.NormEps *= 10 }}, "logits", 1e-5, always},
	{"gate and up exchanged", mistake{weights: exchangeGateUp}, "logits", 5e-2, always},
	{"labels not shifted", mistake{batch: shiftLabels(1)}, "loss", 1e-3, always},
	{"labels shifted twice", mistake{batch: shiftLabels(-1)}, "loss", 1e-3, always},
	{"every token trained", mistake{batch: trainAll}, "gradient", 1e-3, always},
	{"the first label of a row counted too", mistake{scale: func(b model.Batch, s float32) float32 {
		n := float32(b.Targets())
		return s * n / (n + float32(len(b.CuSeqlens)-1))
	}}, "gradient", 1e-2, always},
	{"sequences that see each other", mistake{batch: oneSequence}, "logits", 1e-2,
		func(c model.Config) bool { return c.Window == 0 }},
	{"no window", mistake{config: func(c *model.Config) { c.Window = 0 }}, "logits", 5e-2, narrowed},
	{"a window one too wide", mistake{config: func(c *model.Config) { c.Window++ }}, "logits", 1e-2, narrowed},
	{"a window where it is switched off", mistake{config: func(c *model.Config) { c.Window = 8 }}, "logits", 1e-3,
		unwindowed},
	{"the padding's row of the embedding trained", mistake{config: func(c *model.Config) { c.PadID = -1 }}, "gradient",
		1e-2, padded},
	{"biases left out", mistake{weights: zeroed(".bias")}, "logits", 1e-2, func(c model.Config) bool { return c.QKVBias }},
	{"no norm of q and k", mistake{weights: flattenQKNorm}, "logits", 1e-2, func(c model.Config) bool { return c.QKNorm }},
}

// TestMistakes_AreFound checks each mistake with each of the repository's models.
func TestMistakes_AreFound(t *testing.T) { checkTraps(t, "testdata/llama", "testdata/qwen2") }

// TestReferenceMistakes checks each mistake with the models of the reference directory.
func TestReferenceMistakes(t *testing.T) {
	var folders []string
	for _, name := range []string{"llama_gqa_tied_rope3", "llama_headdim24_rope3", "llama_pad_in_text", "mistral_window8",
		"qwen2", "qwen3"} {
		folders = append(folders, expect.Reference(t, "golden", "model", name))
	}
	checkTraps(t, folders...)
}

func checkTraps(t *testing.T, folders ...string) {
	made := map[string]bool{}
	for _, folder := range folders {
		c := configOf(t, folder)
		for _, trap := range traps {
			if !trap.applies(c) {
				continue
			}
			made[trap.name] = true
			t.Run(folder+"/"+trap.name, func(t *testing.T) { trap.check(t, folder) })
		}
	}
	for _, trap := range traps {
		if !made[trap.name] {
			t.Logf("no model here can show: %s", trap.name)
		}
	}
}

func (tr trap) check(t *testing.T, folder string) {
	r, err := Run(context.Background(), []string{folder}, Options{Fused: []kernels.Fused{kernels.All()},
		mistake: tr.mistake})
	expect.OK(t, err)
	if r.OK {
		t.Fatal("it does not show")
	}
	if got := r.worst("fp32", tr.figure); !(got >= tr.least) {
		t.Errorf("error %.2g in %s, want %.2g or more", got, tr.figure, tr.least)
	}
}

// worst returns the largest error of the comparisons whose name starts with figure and whose run starts with run, or is
// empty.
func (r *Report) worst(run, figure string) (worst float64) {
	for _, row := range r.Rows {
		if strings.HasPrefix(row.Figure, figure) && (strings.HasPrefix(row.Run, run) || row.Run == "") && row.Note == "" {
			worst = max(worst, float64(row.Error))
		}
	}
	return worst
}

func configOf(t *testing.T, folder string) (c model.Config) {
	t.Helper()
	_, err := Run(context.Background(), []string{folder}, Options{Quick: true, Fused: []kernels.Fused{},
		mistake: mistake{config: func(have *model.Config) { c = *have }}})
	expect.OK(t, err)
	return c
}

// TestMistakes_OfLargeModel checks mistakes with a model whose weights follow from a seed. With an untied head, half of
// the embedding's gradient is missing.
func TestMistakes_OfLargeModel(t *testing.T) {
	for _, trap := range []trap{
		{"no RoPE scaling", mistake{config: func(c *model.Config) { c.RoPEScaling = nil }}, "hidden states", 1e-3, nil},
		{"interleaved rotation", mistake{weights: interleave}, "hidden states", 1e-3, nil},
		{"query head h reads key head h mod kvHeads", mistake{weights: wrongKeyHead}, "hidden states", 1e-3, nil},
		{"eps 1e-6", mistake{config: func(c *model.Config) { c.NormEps = 1e-6 }}, "hidden states", 1e-3, nil},
		{"gate and up exchanged", mistake{weights: exchangeGateUp}, "hidden states", 1e-3, nil},
		{"labels not shifted", mistake{batch: shiftLabels(1)}, "loss", 1e-5, nil},
		{"labels shifted twice", mistake{batch: shiftLabels(-1)}, "loss", 1e-5, nil},
		{"every token trained", mistake{batch: trainAll}, "gradient norm", 1e-3, nil},
		{"mean of the rows' means", mistake{scale: func(b model.Batch,
			s float32) float32 {
			return 1 / float32(2*b.Targets())
		}}, "gradient norm", 1e-3, nil},
		{"a head of its own", mistake{config: untie}, "logits", 0.5, nil},
		{"the head's part of the embedding's gradient dropped", mistake{config: untie, weights: copyHead},
			"gradient norm, each", 1e-2, nil},
	} {
		t.Run(trap.name, func(t *testing.T) { trap.check(t, "testdata/large") })
	}
}

// TestMistakes_OfAdapters checks mistakes with a model that has an adapter.
func TestMistakes_OfAdapters(t *testing.T) {
	changed := func(suffix string, f func(x []float32) []float32) mistake {
		return mistake{adapter: func(name string, x []float32) []float32 {
			if strings.HasSuffix(name, suffix) {
				return f(x)
			}
			return x
		}}
	}
	times := func(factor float32) func(x []float32) []float32 {
		return func(x []float32) []float32 {
			for i := range x {
				x[i] *= factor
			}
			return x
		}
	}
	for _, trap := range []trap{
		{"rsLoRA's scale ignored", mistake{spec: func(s *lora.Spec) { s.RSLoRA = false }}, "scaling", 0.2, nil},
		{"alpha_pattern ignored", mistake{spec: func(s *lora.Spec) { s.Alphas = nil }}, "logits", 1e-2, nil},
		{"alpha_pattern not from a dot on", mistake{spec: func(s *lora.Spec) {
			s.Alphas = []lora.Pattern{{Key: ".*" + s.Alphas[0].Key, Value: 6}, {Key: ".*_proj", Value: 5}}
		}}, "scaling", 0.1, nil},
		{"no scale", mistake{spec: func(s *lora.Spec) { s.Alpha, s.Alphas = math.Sqrt2, nil }}, "gradient", 1e-2, nil},
		{"an adapter in BF16", changed("", func(x []float32) []float32 {
			for i := range x {
				x[i] = tensor.RoundBF16(x[i])
			}
			return x
		}), "logits, trained", 1e-4, nil},
		{"A of ±2/√in", changed(endA, times(2)), "bounds of our first A", 0.5, nil},
		{"A of ±0.5/√in", changed(endA, times(0.5)), "rms of our first A", 0.4, nil},
		{"A of another seed", changed(endA, func(x []float32) []float32 {
			slices.Reverse(x)
			return x
		}), "first gradient norm", 1e-2, nil},
		{"B of zeros loaded", changed(endB, times(0)), "logits, trained", 1e-2, nil},
		{"modules_to_save not loaded", changed("lm_head.weight", func([]float32) []float32 { return nil }),
			"logits, trained", 1e-3, nil},
		{"a safe merge for the plain one", mistake{merged: func(_, other []float32) []float32 { return other }},
			"merged BF16", 0.1, nil},
	} {
		t.Run(trap.name, func(t *testing.T) { trap.check(t, "testdata/lora") })
	}
}

// TestReferenceMistakes_OfGGUF checks mistakes in blocks, in the types of tensors, and in the order of rows.
func TestReferenceMistakes_OfGGUF(t *testing.T) {
	packed := func(of gguf.Type, change func(block []byte)) mistake {
		return mistake{packed: func(t gguf.Type, blocks []byte) {
			if t == of {
				_, size := t.Block()
				for block := range slices.Chunk(blocks, size) {
					change(block)
				}
			}
		}}
	}
	for folder, traps := range map[string][]trap{
		"blocks": {
			{"nibbles exchanged", packed(gguf.Q4_0, func(b []byte) {
				for i := range b[2:] {
					b[2+i] = b[2+i]<<4 | b[2+i]>>4
				}
			}), "blocks", 1000, nil},
			{"no minimum of sub-blocks", packed(gguf.Q4_K, func(b []byte) { b[2], b[3] = 0, 0 }), "blocks", 10, nil},
			{"the scale in front of Q6_K's codes", packed(gguf.Q6_K, func(b []byte) {
				copy(b, append(slices.Clone(b[208:]), b[:208]...))
			}), "blocks", 1000, nil},
		},
		"llama_k": {
			{"rows of q and k not put back", mistake{weights: interleave}, "logits", 5e-2, nil},
			{"no divisors of RoPE", mistake{config: func(c *model.Config) { c.RoPEScaling = nil }}, "logits", 1e-3, nil},
			{"a tied head's type", mistake{mix: func(m *gguf.Model) { m.Tied = false }}, "types by the preset", 1, nil},
			{"another number of layers", mistake{mix: func(m *gguf.Model) { m.Layers = 3 }}, "types by the preset", 1, nil},
		},
	} {
		for _, trap := range traps {
			t.Run(trap.name, func(t *testing.T) { trap.check(t, expect.Reference(t, "golden-next", "gguf", folder)) })
		}
	}
}

// TestReferenceFullMistakes checks that mistakes at full size cause about the errors that the recording has.
func TestReferenceFullMistakes(t *testing.T) {
	long(t)
	needMemory(t, 8)
	folder := expect.Reference(t, "golden", "full")
	for _, c := range []struct {
		name    string
		mistake mistake
		block0  [2]float64 // the recorded error in block.0, per row
	}{
		{"no RoPE scaling", mistake{config: func(c *model.Config) { c.RoPEScaling = nil }}, [2]float64{0.010, 0.073}},
		{"interleaved rotation", mistake{weights: interleave}, [2]float64{0.77, 0.85}},
		{"query head h reads key head h mod 8", mistake{weights: wrongKeyHead}, [2]float64{1.39, 1.40}},
		{"eps 1e-6", mistake{config: func(c *model.Config) { c.NormEps = 1e-6 }}, [2]float64{0.021, 0.022}},
		{"gate and up exchanged", mistake{weights: exchangeGateUp}, [2]float64{0.71, 0.73}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Run(context.Background(), []string{folder}, Options{Quick: true, Fused: []kernels.Fused{kernels.All()},
				mistake: c.mistake})
			expect.OK(t, err)
			for row, want := range c.block0 {
				at := fmt.Sprintf("golden.json forward.rows.%d.hidden.block.0.values", row)
				i := slices.IndexFunc(r.Rows, func(x Row) bool { return x.At == at && strings.HasPrefix(x.Run, "bf16") })
				// Only 96 values of the state are compared by norm, and BF16 adds its own 0.01.
				if got := float64(r.Rows[i].Error); r.OK || got < 0.5*want || got > 2*math.Hypot(want, 0.01) {
					t.Errorf("row %d: error %.3g, want about %.3g", row, got, want)
				}
			}
		})
	}
}

func scaling(f func(*model.RoPEScaling)) func(*model.Config) {
	return func(c *model.Config) {
		s := *c.RoPEScaling
		f(&s)
		c.RoPEScaling = &s
	}
}

func untie(c *model.Config) { c.Tied = false }

// edit changes the weights of every parameter whose name ends with suffix.
func edit(d *kernels.Device, l *model.Model, suffix string, f func(w []float32, row int) []float32) {
	for _, p := range l.Params() {
		if strings.HasSuffix(p.Name, suffix) {
			w, err := d.Floats(p.W)
			if err != nil {
				panic(err)
			}
			d.Upload(p.W, f(w, p.W.Len()/p.W.Dim(0)))
		}
	}
}

// move returns an edit that puts row i of a matrix, or element i of a vector, at place(i).
func move(place func(i int) int) func(w []float32, row int) []float32 {
	return func(w []float32, row int) []float32 {
		out := make([]float32, len(w))
		for i := range len(w) / row {
			copy(out[place(i)*row:], w[i*row:][:row])
		}
		return out
	}
}

// interleave reorders q and k so that the half-split rotation rotates the pairs of an interleaved one.
func interleave(d *kernels.Device, l *model.Model) {
	n := l.Config().HeadDim
	place := func(i int) int {
		head, e := i/n*n, i%n
		return head + e/2 + e%2*(n/2)
	}
	for _, name := range []string{"q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias"} {
		edit(d, l, name, move(place))
	}
}

// wrongKeyHead moves query head h to where it uses key head h mod kvHeads, and takes its result from there.
func wrongKeyHead(d *kernels.Device, l *model.Model) {
	c := l.Config()
	place := func(i int) int {
		head, e := i/c.HeadDim, i%c.HeadDim
		return (head%c.KVHeads*(c.Heads/c.KVHeads)+head/c.KVHeads)*c.HeadDim + e
	}
	for _, name := range []string{"q_proj.weight", "q_proj.bias"} {
		edit(d, l, name, move(place))
	}
	edit(d, l, "o_proj.weight", func(w []float32, row int) []float32 {
		out := make([]float32, len(w))
		for i := range w {
			out[i/row*row+place(i%row)] = w[i]
		}
		return out
	})
}

// scaleScores makes scores as large as if they were divided by the square root of hidden / heads.
func scaleScores(d *kernels.Device, l *model.Model) {
	c := l.Config()
	s := float32(math.Sqrt(float64(c.HeadDim*c.Heads) / float64(c.Dim)))
	for _, name := range []string{"q_proj.weight", "q_proj.bias"} {
		edit(d, l, name, func(w []float32, _ int) []float32 {
			for i := range w {
				w[i] *= s
			}
			return w
		})
	}
}

func exchangeGateUp(d *kernels.Device, l *model.Model) {
	params := map[string]model.Param{}
	for _, p := range l.Params() {
		params[p.Name] = p
	}
	for name, gate := range params {
		up, ok := params[strings.Replace(name, "gate_proj", "up_proj", 1)]
		if !ok || !strings.Contains(name, "gate_proj") {
			continue
		}
		a, _ := d.Floats(gate.W)
		b, _ := d.Floats(up.W)
		d.Upload(gate.W, b)
		d.Upload(up.W, a)
	}
}

func zeroed(suffix string) func(*kernels.Device, *model.Model) {
	return func(d *kernels.Device, l *model.Model) {
		edit(d, l, suffix, func(w []float32, _ int) []float32 { return make([]float32, len(w)) })
	}
}

// flattenQKNorm sets the weights of the norms of q and k to 1.
func flattenQKNorm(d *kernels.Device, l *model.Model) {
	for _, name := range []string{"q_norm.weight", "k_norm.weight"} {
		edit(d, l, name, func(w []float32, _ int) []float32 { return slices.Repeat([]float32{1}, len(w)) })
	}
}

// copyHead copies the embedding's weights to an untied head: everything but the gradient is right.
func copyHead(d *kernels.Device, l *model.Model) {
	for _, p := range l.Params() {
		if p.Name == "lm_head.weight" {
			d.Copy(p.W, l.Params()[0].W)
		}
	}
}

// shiftLabels returns a mistake that moves the labels of each sequence to the right by this many positions.
func shiftLabels(by int) func(model.Batch) model.Batch {
	return func(b model.Batch) model.Batch {
		labels := slices.Repeat([]int32{model.Ignore}, len(b.Labels))
		for i, l := range b.Labels {
			if at := i + by; at >= 0 && at < len(labels) {
				labels[at] = l
			}
		}
		b.Labels = labels
		return b
	}
}

func trainAll(b model.Batch) model.Batch {
	b.Labels = b.IDs
	return b
}

// oneSequence joins several sequences into one.
func oneSequence(b model.Batch) model.Batch {
	b.CuSeqlens = []int32{0, int32(len(b.IDs))}
	return b
}
