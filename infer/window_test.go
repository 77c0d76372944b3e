package infer

import (
	"slices"
	"testing"

	"restyle/model"
	"restyle/tensor"
)

// windowed opens an engine of a small model with random weights, with learned positions or RoPE.
func windowed(t *testing.T, learned bool, context int) *Engine {
	t.Helper()
	cfg := model.Config{Family: "llama", Vocab: 40, Dim: 24, Inner: 32, Layers: 2, Heads: 3, KVHeads: 3, HeadDim: 8,
		MaxPositions: 16, NormEps: 1e-5, RoPETheta: 10000, Tied: true, PadID: -1}
	if learned {
		cfg.Family, cfg.LearnedPositions, cfg.LayerNorm, cfg.GELU = "gpt2", true, true, model.GELUTanh
	}
	m, err := model.New(cpu(t), cfg, model.Options{DType: tensor.F32, MaxTokens: cfg.MaxPositions})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3, 0.4)
	e, err := New(m, context, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{e.Close, m.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// TestWindow_BeyondContext generates far beyond the context of a model with learned positions. Every token's logits
// equal the logits of a pass without a cache over the window: all tokens until the context is full, and then the last
// half of them and what follows.
func TestWindow_BeyondContext(t *testing.T) {
	for _, context := range []int{16, 9, 2} {
		e := windowed(t, true, context)
		prompt := []int32{7}
		window, moved := slices.Clone(prompt), 0
		extend := e.extend
		e.extend = func(ids []int32) ([]float32, error) {
			got, err := extend(ids)
			if err != nil {
				return nil, err
			}
			var want []float32
			if err := e.Model.Logits(model.OneSequence(window), func(position int, logits []float32) {
				if position == len(window)-1 {
					want = slices.Clone(logits)
				}
			}); err != nil {
				return nil, err
			}
			for i := range want {
				if d := got[i] - want[i]; d > 1e-4 || d < -1e-4 {
					t.Fatalf("context %d, %d tokens in the window: logit %d is %v, want %v", context, len(window), i, got[i], want[i])
				}
			}
			return got, nil
		}
		g, err := e.Start(prompt, Options{MaxTokens: 50})
		if err != nil {
			t.Fatal(err)
		}
		for g.Next(t.Context()) {
			ids := g.Result().IDs
			if window = append(window, ids[len(ids)-1]); len(window) > context {
				window, moved = window[len(window)-max(1, context/2):], moved+1
			}
		}
		if r := g.Result(); g.Err() != nil || r.Reason != Length || len(r.IDs) != 50 || moved < 2 {
			t.Errorf("context %d: %v after %d tokens, moved %d times, %v", context, r.Reason, len(r.IDs), moved, g.Err())
		}
		// The next prompt finds nothing wrong in the cache: it gives the same answer as in a new engine.
		again := generate(t, e, prompt, Options{MaxTokens: 5}, func() { window = slices.Clone(prompt) },
			func(id int32) {
				if window = append(window, id); len(window) > context {
					window = window[len(window)-max(1, context/2):]
				}
			})
		if !slices.Equal(again, g.Result().IDs[:5]) {
			t.Errorf("context %d: the answer is %v, and was %v", context, again, g.Result().IDs[:5])
		}
	}
}

func generate(t *testing.T, e *Engine, prompt []int32, o Options, start func(), each func(id int32)) []int32 {
	t.Helper()
	start()
	g, err := e.Start(prompt, o)
	if err != nil {
		t.Fatal(err)
	}
	for g.Next(t.Context()) {
		ids := g.Result().IDs
		each(ids[len(ids)-1])
	}
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	return g.Result().IDs
}

// TestFullContext_EndsAnswer checks that an answer ends when the context is full, if the model has RoPE or the answer
// has no limit.
func TestFullContext_EndsAnswer(t *testing.T) {
	for _, test := range []struct {
		learned bool
		max     int
	}{{false, 50}, {true, 0}} {
		e := windowed(t, test.learned, 16)
		g, err := e.Start([]int32{7}, Options{MaxTokens: test.max})
		if err != nil {
			t.Fatal(err)
		}
		for g.Next(t.Context()) {
		}
		if r := g.Result(); r.Reason != Full || len(r.IDs) != 16 || g.Err() != nil {
			t.Errorf("%+v: %v after %d tokens, %v", test, r.Reason, len(r.IDs), g.Err())
		}
	}
}
