package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// shapes are small models that cover every difference between model families.
var shapes = map[string]Config{
	"llama": {Family: "llama", Vocab: 37, Dim: 24, Inner: 20, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8,
		MaxPositions: 64,
		NormEps:      1e-5, RoPETheta: 10000, RoPEScaling: &RoPEScaling{Kind: RoPELlama3,
			Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4,
			OriginalMaxPositions: 16}, Tied: true, PadID: -1},
	"biases, untied": {Family: "llama", Vocab: 29, Dim: 16, Inner: 11, Layers: 2, Heads: 3, KVHeads: 3, HeadDim: 6,
		MaxPositions: 64,
		NormEps:      1e-3, RoPETheta: 500, QKVBias: true, OutBias: true, MLPBias: true, PadID: 5},
	"qwen3, window": {Family: "qwen3", Vocab: 31, Dim: 16, Inner: 12, Layers: 3, Heads: 4, KVHeads: 1, HeadDim: 10,
		MaxPositions: 64,
		NormEps:      1e-6, RoPETheta: 10000, Tied: true, QKNorm: true, Window: 4, PadID: -1},
	"gpt2": {Family: "gpt2", Vocab: 33, Dim: 21, Inner: 26, Layers: 2, Heads: 3, KVHeads: 3, HeadDim: 7, MaxPositions: 64,
		LearnedPositions: true, LayerNorm: true, NormBias: true, GELU: GELUTanh, NormEps: 1e-5, Tied: true, QKVBias: true,
		OutBias: true, MLPBias: true, PadID: -1},
	"nanogpt, untied": {Family: "nanogpt", Vocab: 27, Dim: 16, Inner: 24, Layers: 3, Heads: 2, KVHeads: 2, HeadDim: 8,
		MaxPositions: 64, LearnedPositions: true, LayerNorm: true, GELU: GELUExact, NormEps: 1e-5, Unscaled: true,
		ByLayer: true, PadID: -1},
	"mixtral": {Family: "mixtral", Vocab: 35, Dim: 20, Inner: 9, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 10,
		MaxPositions: 64, NormEps: 1e-5, RoPETheta: 10000, PadID: -1,
		Mixture: &Mixture{Experts: 5, PerToken: 2, Inner: 9, Normalized: true}},
	"qwen3_moe, every second layer": {Family: "qwen3_moe", Vocab: 30, Dim: 16, Inner: 13, Layers: 4, Heads: 4, KVHeads: 2,
		HeadDim: 6, MaxPositions: 64, NormEps: 1e-6, RoPETheta: 10000, Tied: true, QKNorm: true, PadID: -1,
		Mixture: &Mixture{Experts: 6, PerToken: 3, Inner: 7, Dense: []int{0, 2}}},
}

func device(t testing.TB, o kernels.Options) *kernels.Device {
	t.Helper()
	dev, err := kernels.Open("cpu", o)
	expect.OK(t, err)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// open makes a model with random weights, the same for the same configuration. The weights are large, so that every
// part of the model counts.
func open(t testing.TB, dev *kernels.Device, cfg Config, opts Options) *Model {
	t.Helper()
	m, err := New(dev, cfg, opts)
	expect.OK(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(7, 7))
	for _, p := range m.Params() {
		x := make([]float32, p.W.Len())
		for i := range x {
			switch {
			case p.Decay:
				x[i] = float32(rng.NormFloat64() * 1.5 / math.Sqrt(float64(p.W.Dim(-1))))
			case p.Norm:
				x[i] = float32(1 + 0.3*rng.NormFloat64())
			default:
				x[i] = float32(0.3 * rng.NormFloat64())
			}
		}
		if !p.W.DType.Quantized() {
			dev.Upload(p.W, x)
			continue
		}
		codes := make([]byte, p.W.Bytes())
		expect.OK(t, quant.RuleFor(p.W.DType).Quantize(codes, x, p.W.Dim(-1)))
		dev.UploadBytes(p.W, codes)
	}
	return m
}

// sequence returns random tokens; the first few are not targets.
func sequence(cfg Config, seed uint64, n int) Batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b Batch
	for i := range n {
		id := int32(rng.IntN(cfg.Vocab))
		b.IDs = append(b.IDs, id)
		if i < n/3 || i == n-2 {
			id = Ignore
		}
		b.Labels = append(b.Labels, id)
	}
	return b
}

// gradients returns all of a model's gradients, one after the other.
func gradients(t testing.TB, m *Model) []float32 {
	t.Helper()
	var all []float32
	for _, p := range m.Params() {
		if p.Trainable() {
			g, err := m.dev.Floats(p.Grad)
			expect.OK(t, err)
			all = append(all, g...)
		}
	}
	return all
}

func gradient(t testing.TB, m *Model, scale float32, batches ...Batch) Loss {
	t.Helper()
	var sum Loss
	for i, b := range batches {
		there, err := m.Gradient(b, scale, Gradients{Overwrite: i == 0})
		expect.OK(t, err)
		l, err := m.Read(there)
		expect.OK(t, err)
		sum.Sum += l.Sum
		sum.Targets += l.Targets
		sum.Tokens = append(sum.Tokens, l.Tokens...)
	}
	return sum
}

func distance(got, want []float32) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += math.Pow(float64(got[i]-w), 2)
		norm += float64(w) * float64(w)
	}
	if d := math.Sqrt(diff / norm); !math.IsNaN(d) {
		return d
	}
	return math.Inf(1)
}

// TestGradient_AgainstDifferences moves the weights a small way along random directions in the space of one parameter,
// and compares the change of the loss with the gradient.
func TestGradient_AgainstDifferences(t *testing.T) {
	for name, cfg := range shapes {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			t.Run(fmt.Sprint(name, " fused ", fused), func(t *testing.T) {
				dev := device(t, kernels.Options{Fused: fused})
				if cfg.Mixture != nil { // a small step can change which experts are chosen, and the loss then jumps
					all := *cfg.Mixture
					all.PerToken = all.Experts
					cfg.Mixture = &all
				}
				m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true})
				b := Join(sequence(cfg, 1, 13), sequence(cfg, 2, 2), sequence(cfg, 3, 9))
				n := b.Targets()
				gradient(t, m, 1/float32(n), b)
				rng := rand.New(rand.NewPCG(3, 3))
				var whole float64
				for _, g := range gradients(t, m) {
					whole += float64(g) * float64(g)
				}
				for _, p := range m.Params() {
					g, err := dev.Floats(p.Grad)
					expect.OK(t, err)
					if cfg.PadID >= 0 && p.Name == "model.embed_tokens.weight" {
						continue // the padding token's row has no gradient, although the loss depends on it
					}
					w, _ := dev.Floats(p.W)
					// Half of the direction is the gradient, so that the loss changes measurably; the rest is noise.
					var norm, along float64
					direction := make([]float64, len(g))
					for _, x := range g {
						norm += float64(x) * float64(x)
					}
					for i, x := range g {
						direction[i] = float64(x)/math.Sqrt(norm+1e-30) + rng.NormFloat64()/math.Sqrt(float64(len(g)))
						along += direction[i] * float64(x)
					}
					at := func(step float64) float64 {
						x := make([]float32, len(w))
						var real float64 // the step after rounding to float32
						for i := range x {
							x[i] = float32(float64(w[i]) + step*direction[i])
							real += float64(x[i]-w[i]) / direction[i]
						}
						dev.Upload(p.W, x)
						l, err := m.Loss(b)
						expect.OK(t, err)
						return l.Mean()
					}
					const h = 4e-3
					// Five points: the error is of order h⁴.
					numeric := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
					dev.Upload(p.W, w)
					// The loss is accurate to about 3e-7, so a difference over h is accurate to 1e-4 of a gradient of norm 1.
					if !(math.Abs(numeric-along) <= 3e-4*math.Sqrt(whole)+2e-3*math.Abs(along)) {
						t.Errorf("%s: the loss falls by %.6g, the gradient says %.6g", p.Name, numeric, along)
					}
				}
			})
		}
	}
}

// TestPacked_SameAsOneByOne checks that sequences laid end to end give the same results as one by one, and in another
// order.
func TestPacked_SameAsOneByOne(t *testing.T) {
	for name, cfg := range shapes {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			t.Run(fmt.Sprint(name, " fused ", fused), func(t *testing.T) {
				m := open(t, device(t, kernels.Options{Fused: fused}), cfg, Options{DType: tensor.F32, MaxTokens: 64, Train: true})
				a, b, e := sequence(cfg, 1, 17), sequence(cfg, 2, 1), sequence(cfg, 3, 30)
				n := a.Targets() + b.Targets() + e.Targets()
				one := gradient(t, m, 1/float32(n), a, b, e)
				want := gradients(t, m)
				for _, together := range [][]Batch{{Join(a, b, e)}, {Join(e, b), a}, {Join(b, e, a)}} {
					l := gradient(t, m, 1/float32(n), together...)
					// The same sums in another order.
					if !(math.Abs(l.Sum-one.Sum) <= 1e-5*one.Sum) || l.Targets != n {
						t.Errorf("loss %v over %d, want %v over %d", l.Sum, l.Targets, one.Sum, n)
					}
					if e := distance(gradients(t, m), want); e > 3e-6 {
						t.Errorf("gradients are off by %.2g", e)
					}
				}
			})
		}
	}
}

// TestRecompute_SameBits checks that recomputing gives the same bits and takes less memory.
func TestRecompute_SameBits(t *testing.T) {
	for name, cfg := range shapes {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, fused := range []kernels.Fused{nil, kernels.All()} {
				t.Run(fmt.Sprint(name, " ", dtype, " fused ", fused), func(t *testing.T) {
					dev := device(t, kernels.Options{Fused: fused})
					b := Join(sequence(cfg, 1, 17), sequence(cfg, 3, 20))
					var first []float32
					var loss Loss
					memory := math.MaxInt
					for _, r := range []Recompute{RecomputeNone, RecomputeAttention, RecomputeLayer} {
						opts := Options{DType: dtype, MaxTokens: 37, Train: true, Recompute: r, HeadBytes: 4 * 5 * cfg.Vocab}
						m := open(t, dev, cfg, opts)
						l := gradient(t, m, 1, b)
						g := gradients(t, m)
						if first == nil {
							first, loss = g, l
						}
						if l.Sum != loss.Sum {
							t.Errorf("%s: loss %v, want %v", r, l.Sum, loss.Sum)
						}
						for i := range g {
							if math.Float32bits(g[i]) != math.Float32bits(first[i]) {
								t.Fatalf("%s: gradient %d is %v, want %v", r, i, g[i], first[i])
							}
						}
						if size := MemoryOf(dev, dev.Fused(), cfg, opts).Activations; size >= memory || size != m.actArena.Size() ||
							m.actArena.Peak() > size {
							t.Errorf("%s takes %d bytes, not less than %d; allocated %d, used %d", r, size, memory, m.actArena.Size(),
								m.actArena.Peak())
						} else {
							memory = size
						}
					}
				})
			}
		}
	}
}

// TestFrozen_SameGradients trains a part of the model and checks that its gradient has the same bits as when everything
// is trained, and that no other parameter has a gradient. The parts include each single parameter, because only those
// reveal a backward pass that stops too early or skips a branch.
func TestFrozen_SameGradients(t *testing.T) {
	for name, cfg := range shapes {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
				t.Run(fmt.Sprint(name, " ", dtype, " fused ", fused), func(t *testing.T) {
					dev := device(t, kernels.Options{Fused: fused})
					b := sequence(cfg, 4, 20)
					grads := func(trained func(string) bool) map[string][]float32 {
						m := open(t, dev, cfg, Options{DType: dtype, MaxTokens: 20, Train: true, Trainable: trained})
						gradient(t, m, 1, b)
						all := map[string][]float32{}
						for _, p := range m.Params() {
							if p.Trainable() {
								all[p.Name], _ = dev.Floats(p.Grad)
							}
						}
						return all
					}
					want := grads(nil)
					parts := map[string]func(string) bool{
						"MLPs":       func(n string) bool { return strings.Contains(n, ".mlp.") },
						"last layer": func(n string) bool { return strings.Contains(n, fmt.Sprintf(".%d.", cfg.Layers-1)) },
						"norms":      func(n string) bool { return strings.Contains(n, "norm") || strings.Contains(n, "ln_") },
						"biases":     func(n string) bool { return strings.HasSuffix(n, ".bias") },
						"nothing":    func(string) bool { return false },
					}
					for _, spec := range cfg.Params() {
						parts[spec.Name] = func(n string) bool { return n == spec.Name }
						norm := slices.Max(want[spec.Name]) - slices.Min(want[spec.Name])
						if norm == 0 && !strings.Contains(spec.Name, ".experts.") { // no token may have gone through an expert
							t.Errorf("%s: its gradient is all %v, which shows nothing", spec.Name, want[spec.Name][0])
						}
					}
					for what, trained := range parts {
						got := grads(trained)
						for _, spec := range cfg.Params() {
							g, ok := got[spec.Name]
							switch {
							case ok != trained(spec.Name):
								t.Errorf("%s: %s is trained: %v", what, spec.Name, ok)
							case ok && !slices.EqualFunc(g, want[spec.Name], sameBits):
								t.Errorf("%s: the gradient of %s is %v…, want %v…", what, spec.Name, g[:4], want[spec.Name][:4])
							}
						}
					}
				})
			}
		}
	}
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// TestHead_LogitsChunks checks the head when it processes its rows in logits chunks of as many rows as fit in
// HeadBytes. Losses and gradients must equal the results with a single chunk, apart from the order of sums, and the
// logits must take no more memory than HeadBytes.
func TestHead_LogitsChunks(t *testing.T) {
	for name, cfg := range shapes {
		for _, opts := range []Options{
			{DType: tensor.F32, MaxTokens: 40}, {DType: tensor.BF16, MaxTokens: 40},
			{DType: tensor.F32, MaxTokens: 40, Train: true}, {DType: tensor.BF16, MaxTokens: 40, Train: true},
		} {
			row := 4 * cfg.Vocab // of logits; a BF16 gradient has its own memory
			if opts.Train && opts.DType == tensor.BF16 {
				row += 2 * cfg.Vocab
			}
			b := Join(sequence(cfg, 1, 17), sequence(cfg, 2, 23))
			n := b.Targets()
			var want Loss
			var grads []float32
			logits := make([][]float32, 40)
			for _, rows := range []int{40, n, n - 1, 7, 1, 0} { // HeadBytes for less than one row gives one row
				dev := device(t, kernels.Options{Fused: kernels.All()})
				opts.HeadBytes = max(1, rows*row+row-1)
				what := fmt.Sprintf("%s, %v, train %v, %d rows at a time", name, opts.DType, opts.Train, rows)
				m := open(t, dev, cfg, opts)
				dev.Counts()
				var l Loss
				if opts.Train {
					l = gradient(t, m, 1/float32(n), b)
				} else {
					var err error
					if l, err = m.Loss(b); err != nil {
						t.Fatal(err)
					}
				}
				piece := max(1, rows)
				if got, want := dev.Counts()["crossentropy"], (n+piece-1)/piece; got != want {
					t.Errorf("%s: %d pieces, want %d", what, got, want)
				}
				if size := MemoryOf(dev, dev.Fused(), cfg, opts).Activations; size != m.actArena.Size() ||
					m.actArena.Peak() > size {
					t.Errorf("%s: %d bytes of activations, estimated %d, used %d", what, m.actArena.Size(), size, m.actArena.Peak())
				}
				whole := opts
				whole.HeadBytes = 40 * row
				// When a model is trained, the layers' gradients reuse the head's memory afterwards, so less may be saved. Each of
				// the tensors is aligned.
				saved, least := MemoryOf(dev, dev.Fused(), cfg, whole).Activations-m.actArena.Size(), (40-piece)*row-2*256
				if saved > (40-piece)*row+2*256 || saved < 0 || !opts.Train && saved < least {
					t.Errorf("%s: it saves %d bytes, want %d", what, saved, (40-piece)*row)
				}
				if want.Tokens == nil {
					want = l
				}
				e := distance(l.Tokens, want.Tokens)
				if !(e <= 1e-6) || !(math.Abs(l.Sum-want.Sum) <= 1e-6*want.Sum) || l.Targets != n {
					t.Errorf("%s: the loss is %v over %d, off by %.2g, want %v over %d", what, l.Sum, l.Targets, e, want.Sum, n)
				}
				if opts.Train {
					g := gradients(t, m)
					if grads == nil {
						grads = g
					}
					// In BF16 another order of the head's sums rounds some gradients of activations differently.
					if e := distance(g, grads); e > map[tensor.DType]float64{tensor.F32: 1e-6, tensor.BF16: 1e-3}[opts.DType] {
						t.Errorf("%s: gradients are off by %.2g", what, e)
					}
				}
				seen := 0
				if err := m.Logits(b, func(i int, l []float32) {
					if logits[i] == nil {
						logits[i] = slices.Clone(l)
					}
					if e := distance(l, logits[i]); i != seen || e > 1e-6 {
						t.Errorf("%s: the logits of position %d, which comes after %d, are off by %.2g", what, i, seen-1, e)
					}
					seen++
				}); err != nil || seen != 40 {
					t.Errorf("%s: logits of %d positions, %v", what, seen, err)
				}
			}
		}
	}
}

// TestExtend_SameAsWhole checks that a KV cache, filled in chunks of several sizes and trimmed, gives the logits of the
// whole sequence.
func TestExtend_SameAsWhole(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			m := open(t, device(t, kernels.Options{Fused: kernels.All()}), cfg, Options{DType: tensor.F32, MaxTokens: 40})
			b := sequence(cfg, 9, 40)
			want := make([][]float32, 40)
			expect.OK(t, m.Logits(b, func(i int, l []float32) { want[i] = append([]float32(nil), l...) }))
			cache, err := m.NewKVCache(45)
			expect.OK(t, err)
			defer cache.Close()
			for _, pieces := range [][]int{{40}, {1, 1, 1, 7, 30}, {39, 1}, {5, 35}} {
				cache.Trim(0)
				for _, n := range pieces {
					at := cache.Len()
					got, err := m.Extend(cache, b.IDs[at:at+n])
					expect.OK(t, err)
					if e := distance(got, want[at+n-1]); e > 3e-6 {
						t.Errorf("pieces %v: after %d tokens the logits are off by %.2g", pieces, at+n, e)
					}
				}
				// Other tokens, trimmed again.
				if _, err := m.Extend(cache, []int32{1, 2, 3}); err != nil {
					t.Fatal(err)
				}
				cache.Trim(30)
				got, err := m.Extend(cache, b.IDs[30:36])
				expect.OK(t, err)
				if e := distance(got, want[35]); e > 3e-6 {
					t.Errorf("after a trim the logits are off by %.2g", e)
				}
			}
			if _, err := m.Extend(cache, make([]int32, cache.Capacity()-cache.Len()+1)); err == nil {
				t.Errorf("%d tokens in a cache of %d, and one too many was taken", cache.Len(), cache.Capacity())
			}
			for what, ids := range map[string][]int32{"too many": make([]int32, 46), "none": nil, "unknown": {int32(cfg.Vocab)},
				"negative": {-1}} {
				cache.Trim(0)
				if _, err := m.Extend(cache, ids); err == nil {
					t.Errorf("%s: no error", what)
				}
			}
			if _, err := m.NewKVCache(cfg.MaxPositions + 1); err == nil {
				t.Error("a cache for more positions than there are")
			}
		})
	}
}

// TestFused_SameAsUnfused compares a model with every operation fused and one with none.
func TestFused_SameAsUnfused(t *testing.T) {
	cfg := shapes["llama"]
	b := sequence(cfg, 1, 10)
	run := func(f kernels.Fused) map[string]int {
		dev := device(t, kernels.Options{Fused: f})
		m := open(t, dev, cfg, Options{MaxTokens: 10, Train: true})
		dev.Counts()
		gradient(t, m, 1, b)
		return dev.Counts()
	}
	unfused, fused := run(nil), run(kernels.All())
	only := func(a, b map[string]int) (names []string) {
		for k := range a {
			if b[k] == 0 {
				names = append(names, k)
			}
		}
		slices.Sort(names)
		return names
	}
	if got, want := only(fused, unfused), []string{
		"add_rmsnorm", "add_rmsnorm_backward", "attention", "attention_backward", "crossentropy", "swiglu", "swiglu_backward",
	}; !slices.Equal(got, want) {
		t.Errorf("only fused %q ran, want %q", got, want)
	}
	if got, want := only(unfused, fused), []string{
		"add", "attention_delta", "attention_dkeys", "attention_dqueries", "attention_dscores", "attention_dvalues",
		"attention_dweights", "attention_scores", "attention_softmax", "attention_store", "attention_values",
		"attention_weights", "logsoftmax", "mul", "nll", "nll_backward", "silu", "silu_backward",
	}; !slices.Equal(got, want) {
		t.Errorf("only unfused %q ran, want %q", got, want)
	}
}

// TestStep_SameBits checks that a step gives the same bits again, and with other numbers of threads.
func TestStep_SameBits(t *testing.T) {
	cfg := shapes["biases, untied"]
	b := Join(sequence(cfg, 1, 30), sequence(cfg, 2, 9))
	var first []byte
	for _, threads := range []int{1, 1, 2, 3} {
		dev := device(t, kernels.Options{Threads: threads, Fused: kernels.All()})
		m := open(t, dev, cfg, Options{MaxTokens: 40, Train: true})
		l := gradient(t, m, 0.1, b)
		bits := fmt.Appendf(nil, "%x", math.Float64bits(l.Sum))
		for _, g := range gradients(t, m) {
			bits = fmt.Appendf(bits, " %x", math.Float32bits(g))
		}
		if first == nil {
			first = bits
		}
		if !bytes.Equal(bits, first) {
			t.Errorf("%d threads give other bits", threads)
		}
	}
}

func TestBadBatches(t *testing.T) {
	cfg := shapes["llama"]
	m := open(t, device(t, kernels.Options{}), cfg, Options{MaxTokens: 80, Train: true})
	ids := func(n int) []int32 { return make([]int32, n) }
	for what, b := range map[string]Batch{
		"no tokens":            {},
		"more than fit":        {IDs: ids(81), CuSeqlens: []int32{0, 40, 81}},
		"too long a sequence":  {IDs: ids(65)},
		"labels missing":       {IDs: ids(4), Labels: ids(3)},
		"a token too large":    {IDs: []int32{1, int32(cfg.Vocab)}},
		"a negative token":     {IDs: []int32{1, -1}},
		"a label too large":    {IDs: ids(2), Labels: []int32{0, int32(cfg.Vocab)}},
		"a negative label":     {IDs: ids(2), Labels: []int32{0, -1}},
		"starts go back":       {IDs: ids(4), CuSeqlens: []int32{0, 3, 2, 4}},
		"starts end elsewhere": {IDs: ids(4), CuSeqlens: []int32{0, 3}},
		"starts begin late":    {IDs: ids(4), CuSeqlens: []int32{1, 4}},
		"no sequence":          {IDs: ids(4), CuSeqlens: []int32{0}},
	} {
		if _, err := m.Loss(b); err == nil {
			t.Errorf("%s: no error", what)
		}
		if _, err := m.Gradient(b, 1, Gradients{}); err == nil {
			t.Errorf("%s: no error from Gradient", what)
		}
	}
	// Nothing to train is no error, because a micro-batch of a step may have no targets.
	l := gradient(t, m, 1, Batch{IDs: ids(3), Labels: []int32{4, Ignore, Ignore}})
	if l.Targets != 0 || l.Sum != 0 || !math.IsNaN(l.Mean()) {
		t.Errorf("%+v", l)
	}
	for _, g := range gradients(t, m) {
		if g != 0 {
			t.Fatal("nothing was trained, and there is a gradient")
		}
	}
}

// TestNew_TooLargeIsAnError checks that a model of 33 TiB is an error, not a crash, even if the system promises more
// memory than it has.
func TestNew_TooLargeIsAnError(t *testing.T) {
	cfg := shapes["llama"]
	cfg.Vocab, cfg.Dim = 1<<27, 1<<16
	_, err := New(device(t, kernels.Options{}), cfg, Options{DType: tensor.F32})
	if err == nil || !strings.Contains(err.Error(), "memory for weights: 3") || !strings.Contains(err.Error(), " TiB") ||
		!strings.Contains(err.Error(), "a smaller model") {
		t.Error(err)
	}
}

// TestMemoryIsWhatIsEstimated runs everything that a model is opened for, over sequences of awkward lengths, and
// compares every arena with its estimate. After New only the KV cache may be allocated.
func TestMemoryIsWhatIsEstimated(t *testing.T) {
	for name, cfg := range shapes {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
				t.Run(fmt.Sprint(name, " ", dtype, " fused ", fused), func(t *testing.T) {
					dev := device(t, kernels.Options{Fused: fused, Threads: 3})
					opts := Options{DType: dtype, MaxTokens: 90, Longest: 40, Context: 30, Train: true}
					size := MemoryOf(dev, dev.Fused(), cfg, opts)
					m := open(t, dev, cfg, opts)
					gradient(t, m, 1, Join(sequence(cfg, 1, 40), sequence(cfg, 2, 40), sequence(cfg, 3, 10)))
					gradient(t, m, 1, Join(sequence(cfg, 4, 30), sequence(cfg, 5, 30), sequence(cfg, 6, 30)))
					if _, err := m.Loss(sequence(cfg, 7, 1)); err != nil {
						t.Fatal(err)
					}
					cache, err := m.NewKVCache(30)
					expect.OK(t, err)
					defer cache.Close()
					for _, n := range []int{20, 1, 9} {
						if _, err := m.Extend(cache, sequence(cfg, 8, n).IDs); err != nil {
							t.Fatal(err)
						}
					}
					checkMemory(t, m, cache, size)
					params := m.Params()
					for i, p := range ParamsOf(cfg, opts) {
						if q := params[i]; p.Name != q.Name || p.W.Len() != q.W.Len() || p.Trainable() != q.Trainable() ||
							p.Decay != q.Decay {
							t.Errorf("parameter %d is %v, estimated %v", i, q, p)
						}
					}
				})
			}
		}
	}
}

// checkMemory compares a model's arenas with their estimate.
func checkMemory(t *testing.T, m *Model, cache *KVCache, size Memory) {
	t.Helper()
	for _, x := range []struct {
		what      string
		got, want int
	}{
		{"weights", m.weightArena.Size(), size.Weights},
		{"gradients", m.gradArena.Size(), size.Gradients},
		{"activations", m.actArena.Size(), size.Activations},
		{"angles", m.rope.arena.Size(), size.Angles},
		{"cache", cache.arena.Size() + m.extendArena.Size(), size.KVCache},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d bytes, estimated %d", x.what, x.got, x.want)
		}
	}
	if got := m.dev.ScratchPeak(); got > size.Scratch {
		t.Errorf("operations needed %d bytes of scratch memory, estimated %d", got, size.Scratch)
	}
}

// TestMemoryOfInference checks that the memory of a model for inference, which has only KV caches, includes what its
// operations need.
func TestMemoryOfInference(t *testing.T) {
	for name, cfg := range shapes {
		for _, fused := range []kernels.Fused{nil, kernels.All()} {
			dev := device(t, kernels.Options{Fused: fused, Threads: 3})
			opts := Options{Context: 60}
			size := MemoryOf(dev, dev.Fused(), cfg, opts)
			m := open(t, dev, cfg, opts)
			cache, err := m.NewKVCache(60)
			expect.OK(t, err)
			defer cache.Close()
			for _, n := range []int{50, 1, 9} {
				if _, err := m.Extend(cache, sequence(cfg, 8, n).IDs); err != nil {
					t.Fatal(err)
				}
			}
			if got := dev.ScratchPeak(); got > size.Scratch {
				t.Errorf("%s, fused %v: operations needed %d bytes of scratch memory, estimated %d", name, fused, got, size.Scratch)
			}
			if size.Gradients != 0 || size.Activations != 0 || cache.arena.Size()+m.extendArena.Size() != size.KVCache {
				t.Errorf("%s, fused %v: estimated %+v", name, fused, size)
			}
		}
	}
}

// TestNormEps_Counts checks that the norms add what the configuration says.
func TestNormEps_Counts(t *testing.T) {
	for name, cfg := range shapes {
		losses := map[float64]bool{}
		for _, eps := range []float64{1e-5, 1e-3} {
			cfg.NormEps = float32(eps)
			m := open(t, device(t, kernels.Options{}), cfg, Options{DType: tensor.F32, MaxTokens: 20})
			m.Init(7, 0.02)
			l, err := m.Loss(sequence(cfg, 1, 20))
			expect.OK(t, err)
			losses[l.Sum] = true
		}
		if len(losses) != 2 {
			t.Errorf("%s: the loss is %v with any", name, losses)
		}
	}
}

func TestWidestBias(t *testing.T) {
	base := Config{Dim: 8, Inner: 20, Heads: 4, KVHeads: 2, HeadDim: 3} // q, k and v have 12 + 6 + 6 rows
	for _, c := range []struct {
		qkv, out, mlp, gelu bool
		want                int
	}{
		{false, false, false, false, 0}, {true, false, false, false, 24}, {false, true, false, false, 8},
		{true, true, false, false, 24}, {false, false, true, false, 40}, {false, false, true, true, 20},
		{true, true, true, true, 24},
	} {
		cfg := base
		cfg.QKVBias, cfg.OutBias, cfg.MLPBias = c.qkv, c.out, c.mlp
		if c.gelu {
			cfg.GELU = GELUTanh
		}
		if got := cfg.widestBias(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestInit checks the initial weights of a model: their spread, norms of 1 and biases of 0, that no two matrices are
// alike, and that the weights depend only on the seed.
func TestInit(t *testing.T) {
	for name, cfg := range shapes {
		dev := device(t, kernels.Options{})
		var first []float32
		for _, o := range []struct {
			seed uint64
			std  float64
		}{{7, 0.02}, {7, 0.02}, {8, 0.02}, {7, 0.5}} {
			m := open(t, dev, cfg, Options{DType: tensor.F32})
			m.Init(o.seed, o.std)
			var all []float32
			begins := map[[4]float32]string{}
			for _, p := range m.Params() {
				x, err := dev.Floats(p.W)
				expect.OK(t, err)
				all = append(all, x...)
				mean, squares := 0.0, 0.0
				for _, x := range x {
					mean += float64(x) / float64(p.W.Len())
					squares += float64(x) * float64(x) / float64(p.W.Len())
				}
				norm, bias := p.Norm, strings.HasSuffix(p.Name, ".bias")
				if p.Decay == (norm || bias) {
					t.Errorf("%s, %s: it decays: %v", name, p.Name, p.Decay)
				}
				if norm || bias {
					want := float32(0)
					if norm {
						want = 1
					}
					if slices.Min(x) != want || slices.Max(x) != want {
						t.Errorf("%s, %s: it begins at %v to %v, want %v", name, p.Name, slices.Min(x), slices.Max(x), want)
					}
					continue
				}
				if other, ok := begins[[4]float32(x)]; ok {
					t.Errorf("%s: %s and %s begin with the same weights", name, p.Name, other)
				}
				begins[[4]float32(x)] = p.Name
				// The deviation of a sample of n is itself off by 1/√2n; the limit is five times that.
				n := float64(p.W.Len())
				if dev := math.Sqrt(squares); !(math.Abs(dev-o.std) <= o.std*5/math.Sqrt(2*n)) ||
					!(math.Abs(mean) <= o.std*5/math.Sqrt(n)) {
					t.Errorf("%s, %s: mean %g, deviation %g, want %g", name, p.Name, mean, dev, o.std)
				}
			}
			switch {
			case first == nil:
				first = all
			case slices.Equal(first, all) != (o.seed == 7 && o.std == 0.02):
				t.Errorf("%s, seed %d, deviation %v: the same weights as with 7 and 0.02: %v", name, o.seed, o.std,
					slices.Equal(first, all))
			}
		}
	}
}

// TestPadding_GetsNoGradient checks that the embedding row of the padding token gets no gradient from reading the
// token, as in PyTorch.
func TestPadding_GetsNoGradient(t *testing.T) {
	cfg := shapes["biases, untied"]
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 8, Train: true})
	gradient(t, m, 1, Batch{IDs: []int32{1, int32(cfg.PadID), 2, 3}, Labels: []int32{Ignore, 4, 6, 7}})
	for _, p := range m.Params() {
		if p.Name != "model.embed_tokens.weight" {
			continue
		}
		g, err := dev.Floats(p.Grad)
		expect.OK(t, err)
		for id := range cfg.Vocab {
			row := g[id*cfg.Dim:][:cfg.Dim]
			read := id == 1 || id == 2 // the last token predicts nothing
			if got := slices.Min(row) != 0 || slices.Max(row) != 0; got != read {
				t.Errorf("token %d has a gradient: %v", id, got)
			}
		}
	}
}
