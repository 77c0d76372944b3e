package infer

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
)

// TestAfterAnError_CacheIsClean answers a prompt after an answer that failed or ended early, in each way in which one
// does: nothing that the failed one left in the KV cache may be in the next answer.
func TestAfterAnError_CacheIsClean(t *testing.T) {
	type event func(m *script, e *Engine, cancel func())
	cancels := func(_ *script, _ *Engine, cancel func()) { cancel() }
	fails := func(m *script, _ *Engine, _ func()) { m.fail = errors.New("device lost") }
	breaks := func(m *script, _ *Engine, _ func()) { m.broken = true }
	another := func(_ *script, e *Engine, _ func()) { e.Start([]int32{9, 9}, Options{}) }
	prompt := make([]int32, 1100) // three chunks
	for i := range prompt {
		prompt[i] = int32(i % 200)
	}
	for name, c := range map[string]struct {
		o    Options
		ids  []int32 // the prompt that fails, default the same
		call int     // of the model, from 1, at which it happens, or 0 for before
		do   event
	}{
		"cancelled before":           {do: cancels},
		"cancelled in the prompt":    {call: 2, do: cancels},
		"cancelled in the answer":    {call: 5, do: cancels},
		"failed at once":             {call: 1, do: fails},
		"failed in the prompt":       {call: 2, do: fails},
		"failed in the answer":       {call: 5, do: fails},
		"NaN in the prompt":          {call: 2, do: breaks},
		"NaN in the answer":          {call: 5, do: breaks},
		"superseded":                 {call: 4, do: another},
		"cut":                        {o: Options{MaxTokens: 2}},
		"stopped":                    {o: Options{Stop: []string{"el"}}},
		"stopped, and text held":     {o: Options{Stop: []string{"lol"}}, call: 6, do: cancels},
		"too long":                   {ids: make([]int32, 2000)},
		"empty":                      {ids: []int32{}},
		"a foreign token":            {ids: []int32{0, 1, 999}},
		"settings out of range":      {o: Options{Sampling: Sampling{TopP: 2}}},
		"a prompt that is a prefix":  {ids: prompt[:700]},
		"a prompt that goes further": {ids: slices.Concat(prompt, bytesOf("hello\x01 and more"))},
	} {
		m := &script{t: t, prompt: len(prompt), tokens: bytesOf("hello\x01")}
		e := withBytes(m.engine(1500))
		extend, calls := e.extend, 0
		ctx, cancel := context.WithCancel(t.Context())
		poisoned := -1 // from which place on the cache is NaN
		e.extend = func(ids []int32) ([]float32, error) {
			if calls++; calls == c.call {
				c.do(m, e, cancel)
			}
			at := len(m.held)
			logits, err := extend(ids)
			if m.broken && poisoned < 0 {
				poisoned = at
			}
			if poisoned >= 0 && err == nil {
				logits[0] = float32(math.NaN())
			}
			return logits, err
		}
		trim := e.trim
		e.trim = func(n int) {
			if trim(n); n <= poisoned {
				poisoned = -1
			}
		}
		if c.ids == nil {
			c.ids = prompt
		}
		if c.call == 0 && c.do != nil {
			c.do(m, e, cancel)
		}
		if g, err := e.Start(c.ids, c.o); err == nil {
			collect(ctx, g)
		}
		cancel()
		c.call, m.fail, m.broken, m.read = 0, nil, false, 0
		g, err := e.Start(prompt, Options{})
		if err != nil {
			t.Errorf("%s: and then %v", name, err)
			continue
		}
		text, _ := collect(t.Context(), g)
		if r := g.Result(); text != "hello" || r.Reason != Stopped || g.Err() != nil ||
			m.read != len(prompt)-r.Reused+len(r.IDs) || !slices.Equal(m.held[:len(prompt)], prompt) {
			t.Errorf("%s: and then %q, %s, %v, %d tokens read, %d reused", name, text, r.Reason, g.Err(), m.read, r.Reused)
		}
	}
}
