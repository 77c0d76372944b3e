package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// logits returns the logits of a batch, one row after the other.
func logits(t *testing.T, m *Model, b Batch) (all []float32) {
	t.Helper()
	expect.OK(t, m.Logits(b, func(_ int, l []float32) { all = append(all, l...) }))
	return all
}

// TestExperts_EqualAreAnMLP checks that a mixture of equal experts, whose weights add up to 1, is an ordinary MLP,
// whichever and however many experts a token goes through.
func TestExperts_EqualAreAnMLP(t *testing.T) {
	for _, experts := range []Mixture{
		{Experts: 5, PerToken: 2, Normalized: true}, {Experts: 3, PerToken: 3}, {Experts: 4, PerToken: 1, Normalized: true},
	} {
		for dtype, limit := range map[tensor.DType]float64{tensor.F32: 2e-6, tensor.BF16: 2e-2} {
			dev := device(t, kernels.Options{Fused: kernels.All()})
			cfg := shapes["mixtral"]
			dense := cfg
			dense.Family, dense.Mixture = "mistral", nil
			experts.Inner = cfg.Inner
			cfg.Mixture = &experts
			plain := open(t, dev, dense, Options{DType: dtype, MaxTokens: 32})
			mixed := open(t, dev, cfg, Options{DType: dtype, MaxTokens: 32})
			weights := map[string]tensor.Tensor{}
			for _, p := range plain.Params() {
				weights[p.Name] = p.W
			}
			own := strings.NewReplacer("w1", "gate_proj", "w3", "up_proj", "w2", "down_proj")
			for _, p := range mixed.Params() {
				name := p.Name
				if before, expert, ok := strings.Cut(p.Name, "block_sparse_moe.experts."); ok {
					name = before + "mlp." + own.Replace(expert[2:])
				}
				if from, ok := weights[name]; ok {
					dev.Copy(p.W, from)
				} else if !strings.HasSuffix(name, "gate.weight") {
					t.Fatalf("no weight %s", name)
				}
			}
			b := sequence(cfg, 3, 32)
			if e := distance(logits(t, mixed, b), logits(t, plain, b)); !(e < limit) {
				t.Errorf("%+v, %v: off by %.2g from the ordinary MLP", experts, dtype, e)
			}
		}
	}
}

// TestExpertsOfOneToken checks that a token's experts do not depend on the other tokens of the batch.
func TestExpertsOfOneToken(t *testing.T) {
	cfg := shapes["qwen3_moe, every second layer"]
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 64})
	var parts []Batch
	var alone []float32
	for i := range uint64(7) {
		parts = append(parts, sequence(cfg, i, int(3+i)))
		alone = append(alone, logits(t, m, parts[i])...)
	}
	if e := distance(logits(t, m, Join(parts...)), alone); e > 1e-6 {
		t.Errorf("together, sequences are off by %.2g", e)
	}
	slices.Reverse(parts)
	back := logits(t, m, Join(parts...))
	var forward []float32
	for ; len(parts) > 0; parts = parts[1:] { // the last sequence first
		n := len(parts[0].IDs) * cfg.Vocab
		forward = append(slices.Clone(back[:n]), forward...)
		back = back[n:]
	}
	if e := distance(forward, alone); e > 1e-6 {
		t.Errorf("in another order, sequences are off by %.2g", e)
	}
}

// TestLongPromptOfExperts checks how many tokens of a prompt are read at once, and that a GPU that reads more of them
// gives the CPU's logits.
func TestLongPromptOfExperts(t *testing.T) {
	cfg := shapes["qwen3_moe, every second layer"]
	cfg.Layers, cfg.MaxPositions = 3, 5000
	cpu, gpu := device(t, kernels.Options{}), testGPU(t, kernels.Options{Fused: kernels.All()})
	for _, c := range []struct{ positions, cpu, gpu, trains int }{{5000, 512, 2048, 512}, {700, 512, 700, 512},
		{100, 100, 100, 100}} {
		at := cfg
		at.MaxPositions = c.positions
		of := func(d *kernels.Device, train bool) int {
			return (&Model{cfg: at, dev: d, opts: Options{Train: train}}).PrefillChunk()
		}
		if of(cpu, false) != c.cpu || of(gpu, false) != c.gpu || of(gpu, true) != c.trains {
			t.Errorf("%d positions: %d, %d and %d tokens at once, want %d, %d and %d", c.positions, of(cpu, false),
				of(gpu, false), of(gpu, true), c.cpu, c.gpu, c.trains)
		}
	}
	const tokens = 520 // more than 512
	ids := sequence(cfg, 3, tokens).IDs
	var of [2][]float32
	for i, d := range []*kernels.Device{cpu, gpu} {
		m := open(t, d, cfg, Options{DType: tensor.F32, Context: tokens})
		cache, err := m.NewKVCache(tokens)
		expect.OK(t, err)
		defer cache.Close()
		of[i] = extend(t, m, cache, ids...)
	}
	if e := distance(of[1], of[0]); e > 1e-5 { // sums of F32 in another order
		t.Errorf("a GPU's logits are off by %.2g", e)
	}
}

// TestAuxiliaryLoss compares the load-balancing loss with its formula, and its gradient with differences: padding does
// not count.
func TestAuxiliaryLoss(t *testing.T) {
	cfg := shapes["qwen3_moe, every second layer"]
	dev := device(t, kernels.Options{Fused: kernels.All()})
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 48, Train: true, PadPasses: true})
	b := Join(sequence(cfg, 1, 13), sequence(cfg, 2, 8))
	n, k := cfg.Mixture.Experts, cfg.Mixture.PerToken
	counts, sums, tokens := make([]float64, n), make([]float64, n), 0
	m.OnRouting = func(_ int, logits tensor.Tensor, r kernels.Routing) {
		for row := range b.IDs {
			var all float64
			l := logits.F32()[row*n:][:n]
			for _, x := range l {
				all += math.Exp(float64(x))
			}
			for e, x := range l {
				sums[e] += math.Exp(float64(x)) / all
			}
			for _, e := range r.Experts.I32()[row*k:][:k] {
				counts[e]++
			}
			tokens++
		}
	}
	loss, err := m.Loss(b)
	expect.OK(t, err)
	m.OnRouting = nil
	want := 0.0
	for e := range n {
		want += float64(n) * counts[e] / float64(tokens) * sums[e] / float64(tokens)
	}
	if tokens != 2*len(b.IDs) || !(math.Abs(loss.Auxiliary-want) < 1e-5*want) {
		t.Errorf("the auxiliary loss of %d tokens is %g, not %g", tokens, loss.Auxiliary, want)
	}
	const factor = 0.5
	if _, err := m.Gradient(b, 0, Gradients{Overwrite: true, Balance: factor}); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Params() {
		if !strings.HasSuffix(p.Name, "mlp.gate.weight") {
			continue
		}
		g, _ := dev.Floats(p.Grad)
		w, _ := dev.Floats(p.W)
		var norm float64
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		norm = math.Sqrt(norm)
		at := func(step float64) float64 {
			x := slices.Clone(w)
			for i := range x {
				x[i] += float32(step * float64(g[i]) / norm)
			}
			dev.Upload(p.W, x)
			l, err := m.Loss(b)
			expect.OK(t, err)
			return factor * l.Auxiliary
		}
		// Steps so small that they change no choice, which would make the loss jump.
		const h = 2e-4
		numeric := (at(h) - at(-h)) / (2 * h)
		dev.Upload(p.W, w)
		if !(math.Abs(numeric-norm) <= 0.02*norm) {
			t.Errorf("%s: the auxiliary loss rises by %g, the gradient says %g", p.Name, numeric, norm)
		}
	}
}

// TestMixtureValidate checks the errors of impossible mixtures.
func TestMixtureValidate(t *testing.T) {
	for want, m := range map[string]Mixture{
		"number of experts 0":                        {PerToken: 1, Inner: 1},
		"num_experts_per_tok 4: must be 1 to 3":      {Experts: 3, PerToken: 4, Inner: 1},
		"num_experts_per_tok 0":                      {Experts: 3, Inner: 1},
		"width of an expert -1":                      {Experts: 3, PerToken: 1, Inner: -1},
		"layers with an ordinary MLP [2]: must be":   {Experts: 3, PerToken: 1, Inner: 1, Dense: []int{2}},
		"layers with an ordinary MLP [1 0]: must be": {Experts: 3, PerToken: 1, Inner: 1, Dense: []int{1, 0}},
	} {
		cfg := shapes["mixtral"]
		cfg.Mixture = &m
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", m, err, want)
		}
	}
}

// TestMixtureFLOPs counts only the experts that a token goes through.
func TestMixtureFLOPs(t *testing.T) {
	cfg := shapes["mixtral"]
	few := FLOPs(cfg, Options{}, 0)
	more := *cfg.Mixture
	more.Experts *= 3
	cfg.Mixture = &more
	router := 2.0 * float64(cfg.Layers*cfg.Dim*10) // operations of the routers' new rows
	if got := FLOPs(cfg, Options{}, 0); !(math.Abs(got-few-router) <= 1) {
		t.Errorf("three times as many experts take %g operations instead of %g", got, few)
	}
}
