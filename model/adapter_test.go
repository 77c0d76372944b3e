package model

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// adaptersOf gives the linear layers of attention and of MLPs adapters of different ranks and scales, and v none.
func adaptersOf(module string) (rank int, scale float64, ok bool) {
	for i, name := range []string{"q_proj", "k_proj", "o_proj", "c_attn", "c_proj", "c_fc", "gate_proj", "up_proj",
		"down_proj"} {
		if strings.HasSuffix(module, name) && !strings.Contains(module, "experts") {
			return 1 + i%4*3, []float64{2, 0.5, 1.5}[i%3], true
		}
	}
	return 0, 0, false
}

// values returns all parameters of a model.
func values(t *testing.T, m *Model) map[string][]float32 {
	t.Helper()
	all := map[string][]float32{}
	for _, p := range m.Params() {
		x, err := m.dev.Floats(p.W)
		expect.OK(t, err)
		all[p.Name] = x
	}
	return all
}

// setValues sets the parameters that all has.
func setValues(m *Model, all map[string][]float32) {
	for _, p := range m.Params() {
		if x := all[p.Name]; x != nil {
			m.dev.Upload(p.W, x)
		}
	}
}

// product multiplies [rows, inner] by [inner, columns]; with trans, the first is stored transposed.
func product(a, b []float32, rows, inner, columns int, trans bool) []float32 {
	c := make([]float32, rows*columns)
	for i := range rows {
		for j := range columns {
			sum := 0.0
			for k := range inner {
				at := i*inner + k
				if trans {
					at = k*rows + i
				}
				sum += float64(a[at]) * float64(b[k*columns+j])
			}
			c[i*columns+j] = float32(sum)
		}
	}
	return c
}

// TestAdapters_AreOfMergedWeights compares a model with adapters to one with the weights W + s·B·A. Both have the same
// losses, hidden states and next tokens, and the gradients of A and B follow from the gradient of the merged weight:
// dA = s·Bᵀ·dW and dB = s·dW·Aᵀ.
func TestAdapters_AreOfMergedWeights(t *testing.T) {
	for name, cfg := range shapes {
		for _, recompute := range []Recompute{RecomputeNone, RecomputeAttention, RecomputeLayer} {
			t.Run(fmt.Sprint(name, " ", recompute), func(t *testing.T) {
				dev := device(t, kernels.Options{Fused: kernels.All()})
				opts := Options{DType: tensor.F32, MaxTokens: 40, Train: true, Recompute: recompute}
				merged := open(t, dev, cfg, opts)
				opts.Adapter, opts.Trainable = adaptersOf, func(string) bool { return false }
				adapted := open(t, dev, cfg, opts)
				base := values(t, merged)
				setValues(adapted, base)
				factors := values(t, adapted)
				sizes := map[string]int{} // inputs of a layer
				for _, p := range adapted.Params() {
					if p.Adapter && p.factorA() {
						sizes[strings.TrimSuffix(p.Name, factorA)] = p.W.Dim(1)
					}
				}
				for module, in := range sizes {
					rank, scale, _ := adaptersOf(module)
					b, w := factors[module+factorB], base[module+".weight"]
					for i, d := range product(b, factors[module+factorA], len(b)/rank, rank, in, false) {
						w[i] += float32(scale) * d
					}
				}
				setValues(merged, base)

				batch := Join(sequence(cfg, 1, 13), sequence(cfg, 2, 9))
				got, want := gradient(t, adapted, 1, batch), gradient(t, merged, 1, batch)
				if math.Abs(got.Sum-want.Sum) > 1e-4*want.Sum { // the rounding of W + s·B·A, multiplied by what follows
					t.Errorf("loss %v, want %v", got.Sum, want.Sum)
				}
				grads, whole := byName(t, adapted), byName(t, merged)
				if len(grads) != 2*len(sizes) {
					t.Errorf("%d gradients of %d adapters", len(grads), len(sizes))
				}
				for module, in := range sizes {
					rank, scale, _ := adaptersOf(module)
					a, b, dw := factors[module+factorA], factors[module+factorB], whole[module+".weight"]
					out := len(b) / rank
					aT := make([]float32, len(a))
					for i, x := range a {
						aT[i%in*rank+i/in] = x
					}
					for suffix, d := range map[string][]float32{factorA: product(b, dw, rank, out, in, true),
						factorB: product(dw, aT, out, in, rank, false)} {
						for i := range d {
							d[i] *= float32(scale)
						}
						// These models multiply the rounding of W + s·B·A, up to 1e-4. A fault is tenths.
						if e := distance(grads[module+suffix], d); e > 1e-3 {
							t.Errorf("gradient of %s%s is off by %.2g", module, suffix, e)
						}
					}
				}
				if e := distance(extend(t, adapted, newCache(t, adapted, 20), batch.IDs[:13]...),
					extend(t, merged, newCache(t, merged, 20), batch.IDs[:13]...)); e > 1e-3 {
					t.Errorf("next logits are off by %.2g", e)
				}
			})
		}
	}
}

// TestAdapters_AtFirstChangeNoBit checks that a model whose adapters are as InitAdapters makes them has the bits of the
// one without.
func TestAdapters_AtFirstChangeNoBit(t *testing.T) {
	for name, cfg := range shapes {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				dev := device(t, kernels.Options{Fused: kernels.All()})
				opts := Options{DType: dtype, MaxTokens: 40}
				plain := open(t, dev, cfg, opts)
				opts.Adapter = adaptersOf
				adapted := open(t, dev, cfg, opts)
				setValues(adapted, values(t, plain))
				adapted.InitAdapters(3)
				zero := true
				for _, p := range adapted.Params() {
					x, err := dev.Floats(p.W)
					expect.OK(t, err)
					zero = zero && (!p.Adapter || p.factorA() || slices.Max(x) == 0 && slices.Min(x) == 0)
				}
				b := sequence(cfg, 1, 30)
				if got, want := logits(t, adapted, b), logits(t, plain, b); !zero || !slices.EqualFunc(got, want, sameBits) {
					t.Errorf("off by %.2g, all b are 0: %t", distance(got, want), zero)
				}
			})
		}
	}
}

// TestCheckOptions_NamesWhatCannotBe has adapters of modules that cannot have one, and trains quantized weights.
func TestCheckOptions_NamesWhatCannotBe(t *testing.T) {
	of := func(part string) Options {
		return Options{Train: true, Adapter: func(module string) (int, float64, bool) {
			return 2, 1, strings.Contains(module, part)
		}}
	}
	for _, c := range []struct {
		shape string
		opts  Options
		want  string
	}{
		{"mixtral", of("experts.1."), "block_sparse_moe.experts.1.w1"},
		{"mixtral", of("gate"), "block_sparse_moe.gate"},
		{"llama", of("embed_tokens"), "model.embed_tokens"},
		{"llama", of("lm_head"), "lm_head"},
		{"llama", of("none of them"), "none of the model's linear layers"},
		{"biases, untied", of("lm_head"), ""},
		{"mixtral", Options{Train: true, Adapter: of("q_proj").Adapter, Trainable: func(string) bool { return false },
			Quantization: Quantization{Layers: tensor.INT8}}, "experts have no backward pass"},
		{"llama", Options{Train: true, Quantization: Quantization{Layers: tensor.INT8}}, "self_attn.q_proj.weight"},
	} {
		err := CheckOptions(shapes[c.shape], c.opts)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.shape, err, c.want)
		}
	}
}

// TestAdapters_Dropout compares the gradients of adapters whose inputs are dropped with differences of the loss, in a
// random direction. The same key repeats them bit for bit, with and without recomputation; another gives others.
func TestAdapters_Dropout(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			dev := device(t, kernels.Options{Fused: kernels.All()})
			opts := Options{DType: tensor.F32, MaxTokens: 40, Train: true, Adapter: adaptersOf, AdapterDropout: 0.3,
				Trainable: func(string) bool { return false }}
			m := open(t, dev, cfg, opts)
			batch := Join(sequence(cfg, 1, 13), sequence(cfg, 2, 9))
			loss := func(m *Model, key uint64) float64 {
				l, err := m.Gradient(batch, 1, Gradients{Overwrite: true, Key: key})
				expect.OK(t, err)
				read, err := m.Read(l)
				expect.OK(t, err)
				return read.Sum
			}
			loss(m, 7)
			grads := byName(t, m)
			opts.Recompute = RecomputeLayer
			again := open(t, dev, cfg, opts)
			loss(again, 7)
			for name, g := range byName(t, again) {
				if !slices.EqualFunc(g, grads[name], sameBits) {
					t.Errorf("%s: recomputed, it is off by %.2g", name, distance(g, grads[name]))
				}
			}
			start, rng, slope := values(t, m), rand.New(rand.NewPCG(1, 2)), 0.0
			at := func(step float64, direction map[string][]float32) float64 {
				moved := map[string][]float32{}
				for name, d := range direction {
					for i, x := range start[name] {
						moved[name] = append(moved[name], x+float32(step)*d[i])
					}
				}
				setValues(m, moved)
				return loss(m, 7)
			}
			direction := map[string][]float32{}
			for _, name := range slices.Sorted(maps.Keys(grads)) {
				for _, x := range grads[name] {
					d := float32(rng.NormFloat64())
					direction[name] = append(direction[name], d)
					slope += float64(x) * float64(d)
				}
			}
			const step = 5e-5 // these models bend much within 1e-3; rounding of the losses moves the slope by about 0.2
			got := (at(step, direction) - at(-step, direction)) / (2 * step)
			if math.Abs(got-slope) > 0.02*math.Abs(slope)+1 {
				t.Errorf("the loss changes by %v, and the gradients say %v", got, slope)
			}
			setValues(m, start)
			if loss(m, 7) == loss(m, 8) {
				t.Error("another key drops the same")
			}
			if l, err := m.Loss(batch); err != nil || l.Sum == loss(m, 7) {
				t.Errorf("without training, elements are dropped: %v, %v", l.Sum, err)
			}
			if name == "llama" { // a GPU drops the same
				gpu := open(t, testGPU(t, kernels.Options{Fused: kernels.All()}), cfg, opts)
				loss(gpu, 7)
				for name, g := range byName(t, gpu) {
					if e := distance(g, grads[name]); e > 1e-3 { // sums in another order, multiplied by what follows
						t.Errorf("%s: on a GPU, it is off by %.2g", name, e)
					}
				}
			}
		})
	}
}

// TestAdapters_DropoutOfEachTarget checks that each target drops elements of its own, and the same ones each time.
func TestAdapters_DropoutOfEachTarget(t *testing.T) {
	dev, cfg := device(t, kernels.Options{}), shapes["llama"]
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true, Adapter: adaptersOf, AdapterDropout: 0.5,
		Trainable: func(string) bool { return false }})
	p, err := m.newPass(sequence(cfg, 1, 13))
	expect.OK(t, err)
	p.lowRank.rate, p.lowRank.key = 0.5, 7
	targets := 0
	var masks [][]float32
	for range 2 {
		for _, a := range m.adapters {
			x := p.branch
			if a.a.Dim(1) != x.Dim(1) {
				continue // of another width
			}
			targets += len(a.parts)
			dev.Upload(x, slices.Repeat([]float32{1}, x.Len()))
			a.inputs(p, x, func(_, _ int, x tensor.Tensor) {
				mask, err := dev.Floats(x)
				expect.OK(t, err)
				masks = append(masks, mask)
			})
		}
	}
	if len(masks) != targets || targets < 8 {
		t.Fatalf("%d masks of %d targets", len(masks), targets)
	}
	for i, a := range masks {
		for j, b := range masks[:i] {
			if same := i-j == targets/2; slices.Equal(a, b) != same {
				t.Errorf("masks %d and %d are the same: %t", j, i, !same)
			}
		}
	}
}
