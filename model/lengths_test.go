package model

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// rotations returns the kinds of positions of heads of 8 elements, of models that were pretrained with a context of
// original positions.
func rotations(original int) map[string]Config {
	scaled := func(s RoPEScaling) Config { return Config{MaxPositions: original, RoPEScaling: &s} }
	return map[string]Config{
		"plain":   {MaxPositions: 1024},
		"learned": {MaxPositions: 1024, LearnedPositions: true},
		"linear":  scaled(RoPEScaling{Kind: RoPELinear, Factor: 64}),
		"dynamic": scaled(RoPEScaling{Kind: RoPEDynamic, Factor: 3}),
		"llama3": {MaxPositions: 1024, RoPEScaling: &RoPEScaling{Kind: RoPELlama3, Factor: 64, LowFreqFactor: 1,
			HighFreqFactor: 4, OriginalMaxPositions: original}},
		"yarn": scaled(RoPEScaling{Kind: RoPEYaRN, Factor: 64, OriginalMaxPositions: original, BetaFast: 4, BetaSlow: 1}),
		"longrope": scaled(RoPEScaling{Kind: RoPELong, Factor: 64, OriginalMaxPositions: original,
			Short: []float64{1, 1.1, 1.2, 1.5}, Long: []float64{1, 2, 4, 9}}),
	}
}

// attentions are the kinds of attention.
var attentions = map[string]func(c *Config){
	"shared keys": func(c *Config) { c.KVHeads = 2 },
	"window":      func(c *Config) { c.Window = 5 },
	"one key":     func(c *Config) { c.KVHeads, c.QKNorm = 1, true },
}

// lengthsLimit is how far logits may be off by the order in which hundreds of terms are added, in float32. A frequency
// of another length takes them further off.
const lengthsLimit = 1e-4

// fixed returns the configuration whose frequencies are always the same as in a pass of c over n positions.
func (c Config) fixed(n int) Config {
	was, scale := c.InvFreq(n), c.RoPEScaling.Attention()
	c.RoPEScaling = nil
	divisors := c.InvFreq(n)
	for i := range was {
		divisors[i] /= was[i]
	}
	c.MaxPositions = 1024
	c.RoPEScaling = &RoPEScaling{Kind: RoPELong, Factor: 1, OriginalMaxPositions: 1024, Short: divisors, Long: divisors,
		AttentionFactor: scale}
	return c
}

// TestDecode_PastEveryLength decodes token by token, past every length at which positions or attention change: the
// context of pretraining, the window, and on a CPU the tiles and chunks of attention and of a prompt. It compares with
// a pass over all tokens, or if frequencies depend on the length, with a model that has the frequencies of this length
// and the same keys. In between, another cache of the model is at another length.
func TestDecode_PastEveryLength(t *testing.T) {
	type run struct {
		original, most int // lengths
		of, attentions []string
	}
	for name, r := range map[string]run{
		"short": {7, 19, slices.Collect(maps.Keys(rotations(1))), slices.Collect(maps.Keys(attentions))},
		"long":  {300, 530, []string{"plain", "dynamic", "longrope"}, slices.Collect(maps.Keys(attentions))},
		"GPU":   {6, 9, []string{"plain", "dynamic", "longrope"}, []string{"window"}},
	} {
		for _, kind := range r.of {
			for _, attention := range r.attentions {
				t.Run(fmt.Sprintf("%s %s %s", name, kind, attention), func(t *testing.T) {
					o := kernels.Options{Fused: kernels.All()}
					var dev *kernels.Device
					if name == "GPU" {
						dev = emulated(t, o)
					} else {
						dev = device(t, o)
					}
					cfg := rotations(r.original)[kind]
					cfg.Family, cfg.Vocab, cfg.Dim, cfg.Inner, cfg.Layers = "llama", 37, 16, 24, 2
					cfg.Heads, cfg.KVHeads, cfg.HeadDim, cfg.NormEps, cfg.RoPETheta, cfg.PadID = 4, 4, 8, 1e-5, 100, -1
					attentions[attention](&cfg)
					if cfg.Window > 0 && name == "long" {
						cfg.Window = 130
					}
					testLengths(t, dev, cfg, r.original, r.most)
				})
			}
		}
	}
}

func testLengths(t *testing.T, dev *kernels.Device, cfg Config, original, most int) {
	m := open(t, dev, cfg, Options{DType: tensor.F32, MaxTokens: most})
	ids := sequence(cfg, 3, most).IDs
	pass := func(n int) (all [][]float32) {
		add := func(_ int, l []float32) { all = append(all, slices.Clone(l)) }
		expect.OK(t, m.Logits(OneSequence(ids[:n]), add))
		return all
	}
	lengths := []int{1, original - 1, original, original + 1, most - 1, most}
	cache, other := newCache(t, m, most), newCache(t, m, most)
	for _, n := range lengths {
		cache.Trim(0)
		if got := extend(t, m, cache, ids[:n]...); distance(got, pass(n)[n-1]) > lengthsLimit {
			t.Errorf("a prompt of %d tokens differs from a pass over it", n)
		}
	}
	cache.Trim(0)
	whole, seen := pass(most), make([][]float32, most)
	for i, id := range ids {
		want := whole[i]
		compared := !cfg.ropeByLength() || slices.Contains(lengths, i+1) || i%17 == 0
		if compared && cfg.ropeByLength() {
			want = sameKeys(t, cache, cfg.fixed(i+1), id)
		}
		if seen[i] = extend(t, m, cache, id); compared && distance(seen[i], want) > lengthsLimit {
			t.Errorf("token %d by itself differs", i+1)
		}
		n, every := 1, max(2, most/31) // as often as it is compared: reading all tokens takes long
		if i%every == every-1 {
			n = most
		}
		extend(t, m, other, ids[:n]...)
		other.Trim(0)
	}
	for _, n := range lengths { // back to shorter ones
		cache.Trim(n - 1)
		if got := extend(t, m, cache, ids[n-1]); distance(got, seen[n-1]) > lengthsLimit {
			t.Errorf("token %d, read again after longer ones, differs", n)
		}
		cache.n = most
	}
}

// sameKeys returns the logits after one more token, of a model of cfg with the weights and the keys of a cache.
func sameKeys(t *testing.T, c *KVCache, cfg Config, id int32) []float32 {
	m := open(t, c.m.dev, cfg, Options{DType: tensor.F32, MaxTokens: 1})
	of := newCache(t, m, c.Capacity())
	for i := range c.k {
		c.m.dev.Copy(of.k[i], c.k[i])
		c.m.dev.Copy(of.v[i], c.v[i])
	}
	of.n = c.n
	return extend(t, m, of, id)
}
