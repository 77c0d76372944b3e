package model

import (
	"errors"
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// A KVCache holds the keys and values of a sequence that is extended token by token, so that nothing is computed twice.
type KVCache struct {
	m     *Model
	arena *kernels.Arena
	k, v  []tensor.Tensor // of each block: [capacity, kvHeads·headDim]
	n     int
	next  []float32 // [vocab], what Extend returns

	step
}

// chunk is how many tokens of a long prompt are computed at once: enough to keep the products busy, few enough that their
// activations are small.
const chunk = 512

// NewKVCache allocates a cache for sequences of up to capacity tokens.
func (m *Model) NewKVCache(capacity int) (*KVCache, error) {
	if capacity < 1 || capacity > m.c.MaxPositions {
		return nil, fmt.Errorf("cache: %d tokens, and the model has 1 to %d positions", capacity, m.c.MaxPositions)
	}
	c := &KVCache{m: m, next: make([]float32, m.c.Vocab)}
	if err := m.ropeFor(capacity); err != nil {
		return nil, err
	}
	var err error
	if c.arena, err = m.d.NewArena("cache", kernels.SizeOf(func(a *kernels.Arena) { m.cutCache(a, capacity) })); err != nil {
		return nil, err
	}
	c.k, c.v, c.step = m.cutCache(c.arena, capacity)
	return c, nil
}

func (m *Model) cutCache(a *kernels.Arena, capacity int) (k, v []tensor.Tensor, s step) {
	for i := range m.c.Layers {
		k = append(k, a.New(fmt.Sprintf("keys %d", i), m.o.DType, capacity, m.c.KVHeads*m.c.HeadDim))
		v = append(v, a.New(fmt.Sprintf("values %d", i), m.o.DType, capacity, m.c.KVHeads*m.c.HeadDim))
	}
	s.token = a.New("token", tensor.I32, 2)
	if !m.d.IsCPU() {
		s.parts = a.New("attention parts", tensor.F32, m.c.spec().NextParts(capacity)...)
	}
	return k, v, s
}

// Len is the number of tokens in the cache.
func (c *KVCache) Len() int { return c.n }

// Capacity is the number of tokens that it has room for.
func (c *KVCache) Capacity() int { return c.k[0].Dim(0) }

// Trim keeps the first n tokens. The next Extend goes on from there.
func (c *KVCache) Trim(n int) {
	if n < 0 || n > c.n {
		panic(fmt.Sprintf("cache: trimmed to %d of %d", n, c.n))
	}
	c.n = n
}

// Close gives the cache's memory back.
func (c *KVCache) Close() error { return errors.Join(c.graph.Close(), c.arena.Close()) }

// cutExtend lays out a pass of Extend over rows tokens: whole rows of activations, logits of the last.
func (m *Model) cutExtend(a *kernels.Arena, rows int) *pass {
	return m.cut(a, extent{most: rows, rows: rows, logits: 1})
}

// Extend appends tokens to a cache and returns the logits of the last one, [vocab]: what comes next. The slice is
// used again by the cache's next Extend.
func (m *Model) Extend(c *KVCache, ids []int32) ([]float32, error) {
	defer m.tokenRange(ids)()
	logits, err := m.extendBy(c, ids)
	if err != nil {
		return nil, err
	}
	if err := m.d.Download(c.next, logits); err != nil {
		return nil, err
	}
	return c.next, nil
}

func (m *Model) tokenRange(ids []int32) (end func()) {
	if len(ids) == 1 {
		return m.d.Range("token")
	}
	return m.d.Range("prompt")
}

// extendBy is Extend, with the logits left on the device.
func (m *Model) extendBy(c *KVCache, ids []int32) (logits tensor.Tensor, err error) {
	if err := OneSequence(ids).check(m.c, max(len(ids), 1)); err != nil {
		return logits, err
	}
	if c.n+len(ids) > c.Capacity() {
		return logits, fmt.Errorf("cache: %d tokens more than its %d do not fit in %d", len(ids), c.n, c.Capacity())
	}
	if m.infer == nil {
		a, err := m.d.NewArena("activations of Extend", kernels.SizeOf(func(a *kernels.Arena) { m.cutExtend(a, min(chunk, m.c.MaxPositions)) }))
		if err != nil {
			return logits, err
		}
		m.infer = a
	}
	for len(ids) > 0 {
		n := min(len(ids), chunk)
		if m.extend == nil || m.extend.rows != n { // answers are made of one token after the other
			m.infer.Release(0)
			m.extend = m.cutExtend(m.infer, n)
		}
		p := m.extend
		logits = p.head.logits
		if n == 1 && m.steps() {
			m.step(c, p, ids[0])
		} else {
			p.cache, c.done = c, false
			positions := make([]int32, n)
			for i := range positions {
				positions[i] = int32(c.n + i)
			}
			p.stage(ids[:n], positions)
			m.forward(p)
			if n == len(ids) {
				m.head.forward(m.d, logits, p.last.x.Slice(n-1, n))
			}
		}
		ids = ids[n:]
		c.n += n
	}
	return logits, m.d.Err()
}
