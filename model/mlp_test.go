package model

import (
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestGELUForm checks that the MLP computes the form of GELU that its configuration names. The two differ by less than
// gradients can show.
func TestGELUForm(t *testing.T) {
	for _, form := range []GELU{GELUExact, GELUTanh} {
		cfg := shapes["gpt2"]
		cfg.GELU = form
		dev := device(t, kernels.Options{})
		m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 20})
		p, err := m.newPass(sequence(cfg, 1, 20))
		expect.OK(t, err)
		m.forward(p)
		acts := p.layers[cfg.Layers-1].mlp
		x, err := dev.Floats(acts.gateUp)
		expect.OK(t, err)
		got, err := dev.Floats(acts.act)
		expect.OK(t, err)
		off := func(tanh bool) float64 {
			want := make([]float32, len(x))
			for i, v := range x {
				y, _ := opcheck.GELU(float64(v), tanh)
				want[i] = float32(y)
			}
			return distance(got, want)
		}
		if own, other := off(form == GELUTanh), off(form != GELUTanh); own > 1e-6 || other < 1e-5 {
			t.Errorf("%s: off by %g from its form and by %g from the other", form, own, other)
		}
	}
}
