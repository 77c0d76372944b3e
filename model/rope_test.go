package model

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestInvFreq checks the frequencies of Llama 3.2 at the borders of the three ranges, computed independently of the
// code.
func TestInvFreq(t *testing.T) {
	cfg := Config{HeadDim: 64, RoPETheta: 500000, RoPEScaling: &Llama3Scaling{Factor: 32, LowFreqFactor: 1,
		HighFreqFactor: 4, OriginalMaxPositions: 8192}}
	f := cfg.InvFreq()
	cfg.RoPEScaling = nil
	plain := cfg.InvFreq()
	kept, blended, divided := 0, 0, 0
	for i := range f {
		switch ratio := f[i] / plain[i]; {
		case ratio == 1:
			kept++
		case math.Abs(ratio-1.0/32) < 1e-15:
			divided++
		case ratio > 1.0/32 && ratio < 1:
			blended++
		default:
			t.Errorf("frequency %d is %g of itself", i, ratio)
		}
	}
	// Wavelengths below 2,048 are kept, and those above 8,192 divided: 2π·500000^(i/32) is between the two for i from
	// 14.11 to 17.49.
	if kept != 15 || blended != 3 || divided != 14 {
		t.Errorf("%d kept, %d blended, %d divided", kept, blended, divided)
	}
	// The values are those of transformers' formula (modeling_rope_utils.py, llama3) in float64.
	for i, want := range map[int]float64{14: 0.003211445994752591, 15: 0.001290547928209264, 16: 0.00042955679655936815,
		17: 9.70828780262767e-05, 18: 1.9461638184831125e-05} {
		if math.Abs(f[i]/want-1) > 1e-14 {
			t.Errorf("frequency %d is %g, want %g", i, f[i], want)
		}
	}
	if plain[0] != 1 || math.Abs(plain[32/2]-math.Pow(500000, -0.5)) > 1e-18 {
		t.Error(plain)
	}
}

// TestRoPETable makes several tables in turn, each up to the last position that is requested.
func TestRoPETable(t *testing.T) {
	cfg := shapes["llama"]
	cfg.MaxPositions = 1000
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{DType: tensor.F32})
	freq := cfg.InvFreq()
	for _, n := range []int{64, 65, 130, 131, 900, 1000} {
		if err := m.ropeFor(n); err != nil {
			t.Fatal(err)
		}
		if got := m.rope.cos.Dim(0); got < n {
			t.Fatalf("angles of %d positions, want %d", got, n)
		}
		cos, _ := dev.Floats(m.rope.cos)
		sin, _ := dev.Floats(m.rope.sin)
		for i, f := range freq {
			at, angle := (n-1)*len(freq)+i, float64(n-1)*f
			if cos[at] != float32(math.Cos(angle)) || sin[at] != float32(math.Sin(angle)) {
				t.Errorf("position %d, frequency %d: %v, %v, want those of %v", n-1, i, cos[at], sin[at], angle)
			}
		}
	}
}
