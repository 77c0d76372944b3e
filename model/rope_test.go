package model

import (
	"math"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// TestInvFreq checks the frequencies of Llama 3.2 at the borders of the three ranges, computed independently of the
// code.
func TestInvFreq(t *testing.T) {
	cfg := Config{HeadDim: 64, RoPETheta: 500000, RoPEScaling: &RoPEScaling{Kind: RoPELlama3, Factor: 32,
		LowFreqFactor:  1,
		HighFreqFactor: 4, OriginalMaxPositions: 8192}}
	f := cfg.InvFreq(1)
	cfg.RoPEScaling = nil
	plain := cfg.InvFreq(1)
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
	// The values come from transformers' formula (modeling_rope_utils.py, llama3) in float64.
	for i, want := range map[int]float64{14: 0.003211445994752591, 15: 0.001290547928209264, 16: 0.00042955679655936815,
		17: 9.70828780262767e-05, 18: 1.9461638184831125e-05} {
		if !(math.Abs(f[i]/want-1) <= 1e-14) {
			t.Errorf("frequency %d is %g, want %g", i, f[i], want)
		}
	}
	if plain[0] != 1 || !(math.Abs(plain[32/2]-math.Pow(500000, -0.5)) <= 1e-18) {
		t.Error(plain)
	}
}

// TestRoPETable makes several tables in turn, each up to the last position that is requested.
func TestRoPETable(t *testing.T) {
	cfg := shapes["llama"]
	cfg.MaxPositions = 1000
	dev := device(t, kernels.Options{})
	m := open(t, dev, cfg, Options{DType: tensor.F32})
	freq := cfg.InvFreq(1)
	for _, n := range []int{64, 65, 130, 131, 900, 1000} {
		expect.OK(t, m.ropeFor(n, n))
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

// TestScaledFrequencies compares each kind of scaling with what transformers 5.23 computed, in float32, for heads of 16
// elements and a base of 700.
func TestScaledFrequencies(t *testing.T) {
	for _, c := range []struct {
		scaling   RoPEScaling
		n         int
		attention float64
		want      []float64
	}{
		{RoPEScaling{Kind: RoPEDynamic, Factor: 2}, 32, 1, []float64{1.0, 0.440922976, 0.194413081, 0.0857212022,
			0.0377964452, 0.0166653227, 0.00734812394, 0.00323995692}},
		{RoPEScaling{Kind: RoPEDynamic, Factor: 2}, 33, 1, []float64{1.0, 0.437120825, 0.191074595, 0.0835226774,
			0.036509499, 0.0159590617, 0.00697603729, 0.00304937083}},
		{RoPEScaling{Kind: RoPEDynamic, Factor: 2}, 80, 1, []float64{1.0, 0.361704707, 0.130830303, 0.047321938,
			0.0171165671, 0.0061911433, 0.00223936583, 0.000809989229}},
		{RoPEScaling{Kind: RoPEYaRN, Factor: 5, OriginalMaxPositions: 28, BetaFast: 1.7, BetaSlow: 0.15, Untruncated: true},
			80, 1.16094379124341, []float64{1.0, 0.440922976, 0.15122962, 0.0435494557, 0.00900289323, 0.00333306449,
				0.00146962481, 0.000647991372}},
		{RoPEScaling{Kind: RoPELong, Factor: 9, OriginalMaxPositions: 32, Short: longropeShort, Long: longropeLong},
			32, 1.2782742273426553,
			[]float64{1.0, 0.440922976, 0.185155332, 0.0779283643, 0.0314970389, 0.0128194792, 0.00489874929, 0.00161997846}},
		{RoPEScaling{Kind: RoPELong, Factor: 9, OriginalMaxPositions: 32, Short: longropeShort, Long: longropeLong},
			33, 1.2782742273426553,
			[]float64{1.0, 0.314944983, 0.0972065404, 0.0285737328, 0.00839920994, 0.00238076039, 0.000668011256,
				0.000202497307}},
	} {
		cfg := Config{HeadDim: 16, RoPETheta: 700, MaxPositions: 32, RoPEScaling: &c.scaling}
		for i, f := range cfg.InvFreq(c.n) {
			if !(math.Abs(f/c.want[i]-1) <= 1e-6) { // float32
				t.Errorf("%s, %d positions: frequency %d is %v, not %v", c.scaling.Kind, c.n, i, f, c.want[i])
			}
		}
		if got := c.scaling.Attention(); !(math.Abs(got/c.attention-1) <= 1e-7) {
			t.Errorf("%s: %v times attention, not %v", c.scaling.Kind, got, c.attention)
		}
	}
}

var (
	longropeShort = []float64{1.0, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0}
	longropeLong  = []float64{1, 1.4, 2, 3, 4.5, 7, 11, 16}
)

// TestRoPEByLength checks that frequencies that depend on the length of a pass fit each pass, whatever came before
// it, and that a cache keeps its keys.
func TestRoPEByLength(t *testing.T) {
	cfg := shapes["llama"]
	cfg.MaxPositions = 12
	half := cfg.HeadDim / 2
	list := func(x float64) []float64 { return slices.Repeat([]float64{x}, half) }
	for _, s := range []RoPEScaling{{Kind: RoPEDynamic, Factor: 3}, {Kind: RoPELong, Factor: 3, OriginalMaxPositions: 12,
		Short: list(1), Long: list(2.5)}} {
		cfg.RoPEScaling = &s
		logits := func(m *Model, lengths ...int) (all []float32) {
			b := Batch{CuSeqlens: []int32{0}}
			for _, n := range lengths {
				for i := range n {
					b.IDs = append(b.IDs, int32(7*i%cfg.Vocab))
				}
				b.CuSeqlens = append(b.CuSeqlens, int32(len(b.IDs)))
			}
			expect.OK(t, m.Logits(b, func(_ int, l []float32) { all = append(all, l...) }))
			return all
		}
		dev := device(t, kernels.Options{})
		m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: 36})
		short, long := logits(m, 12), logits(m, 30)
		if !slices.Equal(logits(m, 12), short) || !slices.Equal(logits(m, 30), long) {
			t.Errorf("%s: a pass depends on those before", s.Kind)
		}
		if slices.Equal(short, long[:len(short)]) {
			t.Errorf("%s: the length makes no difference", s.Kind)
		}
		if two := logits(m, 12, 11); !near(two, append(short, short[:11*cfg.Vocab]...)) {
			t.Errorf("%s: short sequences of a batch are taken for a long one", s.Kind)
		}
		c, err := m.NewKVCache(36)
		expect.OK(t, err)
		first, err := m.Extend(c, []int32{0, 7, 14})
		if err != nil || !near(first, short[2*cfg.Vocab:3*cfg.Vocab]) {
			t.Errorf("%s: %v, %v", s.Kind, first, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// near reports whether logits agree to the rounding of float32.
func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(y)))
	})
}

// TestPositions_OfScaledRoPE: a scaling that stretches positions gives more of them, and dynamic scaling has no end.
func TestPositions_OfScaledRoPE(t *testing.T) {
	for _, c := range []struct {
		name    string
		scaling *RoPEScaling
		want    int
	}{
		{"none", nil, 24},
		{"linear", &RoPEScaling{Kind: RoPELinear, Factor: 2.5}, 60},
		{"dynamic", &RoPEScaling{Kind: RoPEDynamic, Factor: 1}, maxPositions},
		{"yarn, whose positions are already stretched", &RoPEScaling{Kind: RoPEYaRN, Factor: 3, OriginalMaxPositions: 8}, 24},
		{"yarn", &RoPEScaling{Kind: RoPEYaRN, Factor: 4, OriginalMaxPositions: 24}, 96},
		{"llama3", &RoPEScaling{Kind: RoPELlama3, Factor: 8, OriginalMaxPositions: 12}, 24},
	} {
		if got := (Config{MaxPositions: 24, RoPEScaling: c.scaling}).Positions(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
