package model

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// recorded runs f and returns what OnInputs and OnRouting get in each layer, by the weight's name or the layer, in the
// order of the batches.
func recorded(t *testing.T, m *Model, f func()) map[string][]float32 {
	all := map[string][]float32{}
	add := func(name string, x tensor.Tensor) {
		numbers, err := m.dev.Floats(x)
		expect.OK(t, err)
		all[name] = append(all[name], numbers...)
	}
	m.OnInputs = func(w, x tensor.Tensor) { add(w.Name, x) }
	m.OnRouting = func(layer int, logits tensor.Tensor, _ kernels.Routing) { add(fmt.Sprint("router ", layer), logits) }
	defer func() { m.OnInputs, m.OnRouting = nil, nil }()
	f()
	return all
}

// TestLossByLayer compares batches that go through a model layer by layer, with the weights of only one layer in
// memory, with whole passes, bit by bit: the inputs of every linear layer, the logits of routers, and the losses.
func TestLossByLayer(t *testing.T) {
	for name, cfg := range shapes {
		for _, opts := range []Options{{DType: tensor.F32}, {DType: tensor.BF16}, {DType: tensor.F32, PadPasses: true}} {
			t.Run(fmt.Sprint(name, " ", opts.DType, " ", opts.PadPasses), func(t *testing.T) {
				dev := device(t, kernels.Options{Fused: kernels.All()})
				opts.MaxTokens = 40
				whole := open(t, dev, cfg, opts)
				opts.ReuseWeights = 1
				m := open(t, dev, cfg, opts)
				load := func(layer int) {
					for i, p := range m.Params() {
						if p.Layer == layer {
							dev.Copy(p.W, whole.Params()[i].W)
						}
					}
				}
				load(Outside)
				batches := []Batch{sequence(cfg, 1, 13), Join(sequence(cfg, 2, 21), sequence(cfg, 3, 9)),
					OneSequence(sequence(cfg, 4, 3).IDs)}
				var want []Loss
				wantInputs := recorded(t, whole, func() {
					for _, b := range batches {
						l, err := whole.Loss(b)
						expect.OK(t, err)
						want = append(want, l)
					}
				})
				var got []Loss
				n := 0
				inputs := recorded(t, m, func() {
					var err error
					got, err = m.LossByLayer(batches, func(layer, batch int) error {
						if layer != n/len(batches) || batch != n%len(batches) {
							t.Errorf("step %d is batch %d in layer %d", n, batch, layer)
						}
						n++
						if batch == 0 && layer < cfg.Layers {
							load(layer)
						}
						return nil
					})
					expect.OK(t, err)
				})
				if n != (cfg.Layers+1)*len(batches) || len(got) != len(want) || len(inputs) != len(wantInputs) {
					t.Fatalf("%d steps, %d losses, %d inputs", n, len(got), len(inputs))
				}
				for i, l := range want {
					if got[i].Sum != l.Sum || got[i].Targets != l.Targets || !slices.EqualFunc(got[i].Tokens, l.Tokens, sameBits) {
						t.Errorf("batch %d: %+v, want %+v", i, got[i], l)
					}
				}
				for name, x := range wantInputs {
					if !slices.EqualFunc(inputs[name], x, sameBits) {
						t.Errorf("the inputs of %s differ", name)
					}
				}
			})
		}
	}
}

// TestLossByLayerErrors checks that LossByLayer returns the error of step and of a batch, and that other passes refuse
// a model that has not all weights.
func TestLossByLayerErrors(t *testing.T) {
	cfg := shapes["llama"]
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{MaxTokens: 40, ReuseWeights: 1})
	stop := errors.New("stop")
	b := []Batch{sequence(cfg, 1, 13)}
	before := dev.InUse()
	for at := range cfg.Layers + 1 {
		_, err := m.LossByLayer(b, func(layer, _ int) error {
			if layer == at {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("stopped in layer %d: %v", at, err)
		}
	}
	for _, bad := range []Batch{{}, sequence(cfg, 1, 41), {IDs: []int32{int32(cfg.Vocab)}}} {
		if _, err := m.LossByLayer(append(b, bad), func(int, int) error { return nil }); err == nil {
			t.Errorf("a batch of %d tokens that the model cannot read is no error", len(bad.IDs))
		}
	}
	if n := dev.InUse(); n != before {
		t.Errorf("%d bytes are in use after errors, %d before", n, before)
	}
	if _, err := New(dev, cfg, Options{ReuseWeights: 1, ReuseGradients: 2, Train: true}); err == nil {
		t.Error("ReuseWeights unlike ReuseGradients is no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("Loss with ReuseWeights does not panic")
		}
	}()
	_, _ = m.Loss(b[0])
}

// TestReuseWeights checks that layers share the memory of the largest.
func TestReuseWeights(t *testing.T) {
	for name, cfg := range shapes {
		dev := device(t, kernels.Options{})
		largest := 0
		for i := range cfg.Layers {
			largest = max(largest, kernels.SizeOf(func(a *kernels.Arena) {
				for _, p := range ParamsOf(cfg, Options{}) {
					if p.Layer == Outside || p.Layer == i {
						a.New("", p.W.DType, p.W.Len())
					}
				}
			}))
		}
		all := MemoryOf(dev, nil, cfg, Options{}).Weights
		if one := MemoryOf(dev, nil, cfg, Options{ReuseWeights: 1}).Weights; one > largest || one >= all {
			t.Errorf("%s: %d bytes, want at most %d; all layers are %d", name, one, largest, all)
		}
	}
}
