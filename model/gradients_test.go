package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// byName returns a model's gradients by name.
func byName(t *testing.T, m *Model) map[string][]float32 {
	t.Helper()
	all := map[string][]float32{}
	for _, p := range m.Params() {
		if p.Trainable() {
			g, err := m.dev.Floats(p.Grad)
			expect.OK(t, err)
			all[p.Name] = g
		}
	}
	return all
}

// TestGradients_OfOneKind trains one kind of parameter at a time and checks that it gets the same gradient as when all
// are trained, from products of its own size, and that no other parameter gets any.
func TestGradients_OfOneKind(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			dev := device(t, kernels.Options{Fused: kernels.All()})
			b := Join(sequence(cfg, 1, 13), sequence(cfg, 2, 9))
			whole := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true})
			gradient(t, whole, 1, b)
			want := byName(t, whole)
			kinds := map[string]bool{}
			for _, p := range whole.Params() {
				kind := strings.TrimPrefix(p.Name, fmt.Sprintf(cfg.names().layer, p.Layer))
				if p.Layer == Outside || kinds[kind] {
					continue
				}
				kinds[kind] = true
				layers := 0
				for name := range want {
					if strings.HasSuffix(name, "."+kind) {
						layers++
					}
				}
				alone := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true,
					Trainable: func(n string) bool { return strings.HasSuffix(n, "."+kind) }})
				gradient(t, alone, 1, b)
				got := byName(t, alone)
				if len(got) != layers {
					t.Errorf("%s: %d gradients for %d layers", kind, len(got), layers)
				}
				bytes := 0
				for name, g := range got {
					bytes += 4 * len(g)
					// The products of a part may be split differently from the products of the whole.
					if e := distance(g, want[name]); e > 1e-6 {
						t.Errorf("%s alone is off by %.2g", name, e)
					}
				}
				// Each size is rounded up to the alignment of tensors.
				if size := alone.gradArena.Size(); size < bytes || size > bytes+256*layers {
					t.Errorf("%s: gradients of %d bytes take %d", kind, bytes, size)
				}
			}
		})
	}
}

// TestGradients_Overwrite checks that a step's first batch leaves nothing of the step before, even if a batch has
// nothing to train.
func TestGradients_Overwrite(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			m := open(t, device(t, kernels.Options{}), cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true})
			one, other := sequence(cfg, 1, 13), sequence(cfg, 2, 20)
			gradient(t, m, 1, one)
			want := gradients(t, m)
			gradient(t, m, 1, other, other)
			gradient(t, m, 1, one)
			if got := gradients(t, m); !slices.Equal(got, want) {
				t.Errorf("off by %.2g", distance(got, want))
			}
			none := one
			none.Labels = nil
			gradient(t, m, 1, none, one)
			if got := gradients(t, m); !slices.Equal(got, want) {
				t.Errorf("after a batch without labels off by %.2g", distance(got, want))
			}
		})
	}
}

// TestGradients_AfterEachLayer takes each layer's gradients as they become final, in models whose layers share gradient
// memory and in models whose layers do not.
func TestGradients_AfterEachLayer(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			dev := device(t, kernels.Options{Fused: kernels.All()})
			b := sequence(cfg, 1, 30)
			kept := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true})
			gradient(t, kept, 1, b)
			want := byName(t, kept)
			for _, reuse := range []int{0, 1, 2} {
				m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 40, Train: true, ReuseGradients: reuse,
					ReuseWeights: reuse})
				got := map[string][]float32{}
				var order, began []int
				m.Before = func(layer int) {
					began = append(began, layer)
					for i, p := range m.Params() {
						// With memory for two layers, the weights of the next one, up or down, may come meanwhile.
						if p.Layer == layer || reuse == 2 && (p.Layer == layer+1 || p.Layer == layer-1 && layer > 0) {
							dev.Copy(p.W, kept.Params()[i].W)
						}
					}
				}
				for pass := range 2 { // the second pass finds what the first one left
					order, began = nil, nil
					overwrite := reuse == 0 || pass == 0
					if _, err := m.Gradient(b, 1, Gradients{Overwrite: overwrite, After: func(layer int) {
						order = append(order, layer)
						for _, p := range m.Params() {
							if p.Layer == layer {
								g, err := dev.Floats(p.Grad)
								expect.OK(t, err)
								got[p.Name] = g
							}
						}
					}}); err != nil {
						t.Fatal(err)
					}
				}
				wanted := []int{Outside}
				for i := range cfg.Layers {
					wanted = append([]int{i}, wanted...)
				}
				forward := slices.Clone(wanted)
				slices.Reverse(forward)
				both := slices.Concat(forward, wanted[:cfg.Layers])
				if !slices.Equal(order, wanted) || !slices.Equal(began, both) {
					t.Errorf("reuse %d: layers came in the order %v, and began in that of %v, want %v and %v", reuse, order,
						began, wanted, both)
				}
				for _, p := range m.Params() {
					g := slices.Clone(want[p.Name])
					if reuse > 0 && p.Layer == Outside { // what both passes add, in another order than twice one of them
						for i := range g {
							g[i] *= 2
						}
						if e := distance(got[p.Name], g); e > 1e-6 {
							t.Errorf("reuse %d: %s is off by %.2g", reuse, p.Name, e)
						}
					} else if !slices.Equal(got[p.Name], g) {
						t.Errorf("reuse %d: %s is another", reuse, p.Name)
					}
				}
				if less := m.gradArena.Size() < kept.gradArena.Size(); less != (reuse > 0 && reuse < cfg.Layers) {
					t.Errorf("reuse %d: gradients take %d bytes, kept %d", reuse, m.gradArena.Size(), kept.gradArena.Size())
				}
			}
		})
	}
}

// TestGradients_BF16 checks that BF16 gradients of the layers' matrices, and of an untied head, are the F32 gradients
// rounded once, and that the other gradients stay F32.
func TestGradients_BF16(t *testing.T) {
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			dev := device(t, kernels.Options{})
			b := sequence(cfg, 1, 30)
			full := open(t, dev, cfg, Options{DType: tensor.BF16, MaxTokens: 40, Train: true})
			half := open(t, dev, cfg, Options{DType: tensor.BF16, MaxTokens: 40, Train: true, GradType: tensor.BF16})
			gradient(t, full, 1, b)
			gradient(t, half, 1, b)
			want := byName(t, full)
			got := byName(t, half)
			rounded := 0
			for _, p := range half.Params() {
				matrix := (p.Layer != Outside || p.Name == "lm_head.weight") && p.Decay
				if matrix != (p.Grad.DType == tensor.BF16) {
					t.Errorf("the gradient of %s is %v", p.Name, p.Grad.DType)
				}
				for i, g := range want[p.Name] {
					if matrix {
						g = tensor.BF16ToF32(tensor.BF16FromF32(g))
					}
					if got[p.Name][i] != g {
						t.Fatalf("%s[%d] is %v, want %v", p.Name, i, got[p.Name][i], g)
					}
				}
				if matrix {
					rounded++
				}
			}
			if rounded == 0 {
				t.Error("no gradient is BF16")
			}
		})
	}
	t.Run("a head in pieces", func(t *testing.T) {
		cfg := shapes["biases, untied"]
		dev := device(t, kernels.Options{})
		row := cfg.Vocab * (tensor.F32.Size() + tensor.BF16.Size())
		for rows, want := range map[int]tensor.DType{40: tensor.BF16, 39: tensor.F32, 7: tensor.F32} {
			opts := Options{DType: tensor.BF16, MaxTokens: 40, Train: true, GradType: tensor.BF16, HeadBytes: rows * row}
			m := open(t, dev, cfg, opts)
			head := m.params[len(m.params)-1]
			if head.Name != "lm_head.weight" || head.Grad.DType != want {
				t.Errorf("in pieces of %d rows of 40 the gradient of %s is %v", rows, head.Name, head.Grad.DType)
			}
			if size := MemoryOf(dev, nil, cfg, opts).Gradients; size != m.gradArena.Size() {
				t.Errorf("gradients of %d bytes are estimated, and take %d", size, m.gradArena.Size())
			}
		}
	})
	if _, err := (Options{GradType: tensor.I32}).withDefaults(Config{}); err == nil ||
		!strings.Contains(err.Error(), "GradType I32") {
		t.Error(err)
	}
}
