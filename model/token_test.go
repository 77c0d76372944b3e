package model

import (
	"math"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// emulated opens the emulated GPU.
func emulated(t *testing.T, o kernels.Options) *kernels.Device {
	t.Helper()
	cudatest.Once(t)
	dev, err := kernels.Open("emulated", o)
	cudatest.Opened(t, dev, err)
	return dev
}

// stepShapes are models whose tokens a GPU computes with a CUDA graph: all lengths are multiples of 8.
var stepShapes = map[string]Config{
	"llama": {Family: "llama", Vocab: 37, Dim: 24, Inner: 40, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8,
		MaxPositions: 400,
		NormEps:      1e-5, RoPETheta: 10000, Tied: true, PadID: -1},
	"biases, untied": {Family: "llama", Vocab: 29, Dim: 16, Inner: 24, Layers: 2, Heads: 4, KVHeads: 4, HeadDim: 6,
		MaxPositions: 400,
		NormEps:      1e-3, RoPETheta: 500, QKVBias: true, OutBias: true, MLPBias: true, PadID: 5},
	"qwen3, window": {Family: "qwen3", Vocab: 31, Dim: 16, Inner: 16, Layers: 3, Heads: 4, KVHeads: 1, HeadDim: 10,
		MaxPositions: 400,
		NormEps:      1e-6, RoPETheta: 10000, Tied: true, QKNorm: true, Window: 4, PadID: -1},
	// The router's logits of an expert that is chosen and one that is not differ by 0.3 or more: rounding decides nothing.
	"experts": {Family: "qwen3_moe", Vocab: 48, Dim: 16, Inner: 24, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 8,
		MaxPositions: 400,
		NormEps:      1e-6, RoPETheta: 10000, QKNorm: true, PadID: -1,
		Mixture: &Mixture{Experts: 3, PerToken: 2, Inner: 8, Normalized: true, Dense: []int{1}}},
}

func newCache(t *testing.T, m *Model, capacity int) *KVCache {
	t.Helper()
	c, err := m.NewKVCache(capacity)
	expect.OK(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// extend calls Extend and returns a copy of the logits.
func extend(t *testing.T, m *Model, c *KVCache, ids ...int32) []float32 {
	t.Helper()
	logits, err := m.Extend(c, ids)
	expect.OK(t, err)
	return slices.Clone(logits)
}

// TestStep_GPUAsCPU checks that a GPU's logits equal those that the CPU computes in float32, apart from rounding, both
// fused and one operation at a time, and that a graph gives exactly the same bits as no graph.
func TestStep_GPUAsCPU(t *testing.T) {
	for name, cfg := range stepShapes {
		t.Run(name, func(t *testing.T) {
			ids := sequence(cfg, 3, 14).IDs
			var graphs []bool
			run := func(dev *kernels.Device, dtype tensor.DType) (all [][]float32) {
				m := open(t, dev, cfg, Options{DType: dtype})
				cache := newCache(t, m, len(ids))
				extend(t, m, cache, ids[:5]...)
				for _, id := range ids[5:] {
					all = append(all, extend(t, m, cache, id))
				}
				graphs = append(graphs, cache.graph != nil)
				return all
			}
			want := run(device(t, kernels.Options{}), tensor.BF16)
			apart := run(emulated(t, kernels.Options{}), tensor.BF16)
			dev := emulated(t, kernels.Options{Fused: kernels.All()})
			graph := run(dev, tensor.BF16)
			counts := dev.Counts()
			for _, one := range []string{"attention_next", "choose_next", "linear_add", "norm_linear", "norm_swiglu"} {
				if counts[one] == 0 {
					t.Errorf("%s did not run: %v", one, counts)
				}
			}
			single := run(emulated(t, kernels.Options{Fused: kernels.All(), Sync: true}), tensor.BF16)
			if !slices.Equal(graphs, []bool{false, false, true, false}) {
				t.Errorf("graphs were made: %v", graphs)
			}
			for i := range want {
				if !slices.Equal(graph[i], single[i]) {
					t.Errorf("token %d: a graph gives other bits", 5+i)
				}
				for what, got := range map[string][]float32{"one operation after the other": apart[i], "fused": graph[i]} {
					if e := distance(got, want[i]); e > 3e-2 {
						t.Errorf("token %d, %s: the logits are off by %.2g", 5+i, what, e)
					}
				}
			}
		})
	}
}

// TestGreedy_ChoosesHighestLogit checks that models choose the token with the highest logit of Extend, on the CPU and
// on a GPU, with and without a graph, and continue with it: from a prompt of one token or several, to the end of the
// cache, after a Trim, and after a token that was not the chosen one.
func TestGreedy_ChoosesHighestLogit(t *testing.T) {
	graph := emulated(t, kernels.Options{Fused: kernels.All()})
	for what, dev := range map[string]*kernels.Device{
		"CPU": device(t, kernels.Options{}), "unfused": emulated(t, kernels.Options{}),
		"graph": graph, "frequencies of lengths": graph,
		"no graph": emulated(t, kernels.Options{Fused: kernels.All(), Sync: true}),
	} {
		t.Run(what, func(t *testing.T) {
			cfg := stepShapes["llama"]
			if what == "frequencies of lengths" { // of which no token can be computed ahead
				cfg.RoPEScaling = &RoPEScaling{Kind: RoPELong, Factor: 1, OriginalMaxPositions: 7,
					Short: []float64{1, 1, 1, 1}, Long: []float64{30, 30, 30, 30}}
			}
			m := open(t, dev, cfg, Options{DType: tensor.BF16})
			told, free := newCache(t, m, 12), newCache(t, m, 12)
			check := func(ids ...int32) int32 {
				t.Helper()
				logits := extend(t, m, told, ids...)
				want := int32(slices.Index(logits, slices.Max(logits)))
				id, none, err := m.Greedy(free, ids)
				if err != nil || id != want || none != nil {
					t.Fatalf("after %d tokens: %d, %v, %v, not %d", free.Len(), id, none, err, want)
				}
				if got, err := m.dev.Floats(m.extendPass.head.logits); err != nil || !free.ahead && !slices.Equal(got, logits) {
					t.Fatalf("after %d tokens it is chosen from other logits, %v", free.Len(), err)
				}
				return id
			}
			id := check(3, 1, 4)
			for free.Len() < free.Capacity() {
				id = check(id)
			}
			if _, _, err := m.Greedy(free, []int32{id}); err == nil {
				t.Error("a token more than the cache has room for")
			}
			told.Trim(5)
			free.Trim(5)
			check(check(9), 2, 3)
			for other := range int32(6) {
				again := check(4)
				extend(t, m, free, other) // chooses a token too, which is discarded
				free.Trim(told.Len())
				check(again)
				told.Trim(told.Len() - 2)
				free.Trim(told.Len())
			}
			told.Trim(0)
			free.Trim(0)
			check(check(check(5)) + 1)
		})
	}
}

// TestGreedyAhead checks steps that are queued ahead: two caches of a model take turns, and now and then a cache
// returns logits that the other has overwritten, or continues with another token than it chose. Choices and logits must
// equal the results of caches that never choose.
func TestGreedyAhead(t *testing.T) {
	before := minReach
	minReach = 64 // the keys of one thread block
	defer func() { minReach = before }()
	c := stepShapes["llama"]
	m := open(t, emulated(t, kernels.Options{Fused: kernels.All()}), c, Options{DType: tensor.BF16})
	plain := open(t, emulated(t, kernels.Options{Fused: kernels.All()}), c, Options{DType: tensor.BF16})
	var chosen, forced [2]*KVCache
	var ids [2]int32
	for i := range chosen {
		chosen[i], forced[i], ids[i] = newCache(t, m, 100), newCache(t, plain, 100), int32(3*i+1)
		prompt := sequence(c, 5+uint64(i), 49).IDs
		extend(t, m, chosen[i], prompt...)
		extend(t, plain, forced[i], prompt...)
	}
	ahead := 0
	for n := range 36 {
		for i := range chosen {
			if n%7 == 5 { // another token than it chose
				ids[i] = (ids[i] + 1) % int32(c.Vocab)
			}
			logits := extend(t, plain, forced[i], ids[i])
			want := int32(slices.Index(logits, slices.Max(logits)))
			if n%5 == 3 {
				if got := extend(t, m, chosen[i], ids[i]); !slices.Equal(got, logits) {
					t.Fatalf("cache %d, token %d: different logits", i, n)
				}
			} else if got, _, err := m.Greedy(chosen[i], ids[i:i+1]); err != nil || got != want {
				t.Fatalf("cache %d, token %d: chose %d, %v, not %d", i, n, got, err, want)
			}
			if chosen[i].ahead {
				ahead++
			}
			ids[i] = want
			if n == 20 {
				at := forced[i].Len() - 2 // reach the same position and token through others
				chosen[i].Trim(at)
				forced[i].Trim(at)
				extend(t, m, chosen[i], 7, 8)
				extend(t, plain, forced[i], 7, 8)
			}
		}
	}
	if ahead < 20 {
		t.Errorf("%d steps were queued ahead: want at least 20", ahead)
	}
}

// TestGreedyBroken checks that the logits are returned if they have no maximum to choose, as from Extend, and that the
// same cache, cut to what was before, continues with the right token afterwards. The first token is chosen after a
// prompt, or after one token with the next step ahead.
func TestGreedyBroken(t *testing.T) {
	nan, same := float32(math.NaN()), func(a, b float32) bool { return a == b || a != a && b != b }
	for _, prompt := range [][]int32{{1}, {1, 2}} {
		m := open(t, emulated(t, kernels.Options{Fused: kernels.All()}), stepShapes["llama"], Options{DType: tensor.BF16})
		head := m.embed.w // the weights are tied
		right := make([]float32, head.Len())
		expect.OK(t, m.dev.Download(right, head))
		broken := slices.Clone(right) // the last token's logit is NaN
		for i := range m.cfg.Dim {
			broken[len(broken)-1-i] = nan
		}
		cache, other := newCache(t, m, 9), newCache(t, m, 9)
		greedy := func(ids ...int32) int32 {
			t.Helper()
			logits, err := m.Extend(other, ids)
			expect.OK(t, err)
			want := slices.Clone(logits)
			id, logits, err := m.Greedy(cache, ids)
			expect.OK(t, err)
			if last := want[len(want)-1]; last == last {
				if best := slices.Index(want, slices.Max(want)); int(id) != best {
					t.Errorf("%v, %v: %d is chosen, not %d", prompt, ids, id, best)
				}
			} else if id != -1 || !slices.EqualFunc(logits, want, same) {
				t.Errorf("%v, %v, with NaN: %d, %v, not %v", prompt, ids, id, logits, want)
			}
			return id
		}
		trim := func() { cache.Trim(len(prompt)); other.Trim(len(prompt)) }
		first := greedy(prompt...)
		m.dev.Upload(head, broken)
		greedy(first, first)
		trim()
		m.dev.Upload(head, right)
		greedy(first)
		trim()
		m.dev.Upload(head, broken)
		for _, id := range []int32{first, 2, 2} {
			greedy(id)
		}
	}
}

// TestStepCaches alternates between two caches of a model. The second is made while the first has a graph, and moves
// the RoPE table. Both continue past the positions that a graph serves, up to their capacity.
func TestStepCaches(t *testing.T) {
	before := minReach
	minReach = 2
	defer func() { minReach = before }()
	cfg := stepShapes["llama"]
	run := func(sync bool) (all [][]float32) {
		m := open(t, emulated(t, kernels.Options{Fused: kernels.All(), Sync: sync}), cfg, Options{DType: tensor.BF16})
		ids := sequence(cfg, 5, 150).IDs
		first := newCache(t, m, 66)
		for _, id := range ids[:5] {
			all = append(all, extend(t, m, first, id))
		}
		second := newCache(t, m, 140)
		all = append(all, extend(t, m, second, ids[:125]...))
		for i := range 5 {
			all = append(all, extend(t, m, first, ids[5+i]), extend(t, m, second, ids[125+i]))
		}
		first.Trim(2)
		all = append(all, extend(t, m, first, ids[2]), extend(t, m, first, ids[3:65]...), extend(t, m, first, ids[65]))
		return all
	}
	got, want := run(false), run(true)
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("logits %d are others than without a graph", i)
		}
	}
	if !slices.Equal(got[2], got[16]) {
		t.Error("the third token, read again after a Trim, gives other logits")
	}
}
