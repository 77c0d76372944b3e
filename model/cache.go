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

	tokenGraph
}

// chunk is how many tokens of a long prompt are computed at once: enough to keep the products busy, few enough that their
// activations are small.
const prefillChunk = 512

// NewKVCache allocates a cache for sequences of up to capacity tokens.
func (m *Model) NewKVCache(capacity int) (*KVCache, error) {
	if capacity < 1 || capacity > m.cfg.MaxPositions {
		return nil, fmt.Errorf("cache: %d tokens, and the model has 1 to %d positions", capacity, m.cfg.MaxPositions)
	}
	c := &KVCache{m: m, next: make([]float32, m.cfg.Vocab)}
	if err := m.ropeFor(capacity); err != nil {
		return nil, err
	}
	var err error
	if c.arena, err = m.dev.NewArena("cache", kernels.SizeOf(func(arena *kernels.Arena) { m.allocCache(arena, capacity) })); err != nil {
		return nil, err
	}
	c.k, c.v, c.tokenGraph = m.allocCache(c.arena, capacity)
	return c, nil
}

func (m *Model) allocCache(arena *kernels.Arena, capacity int) (k, v []tensor.Tensor, s tokenGraph) {
	for i := range m.cfg.Layers {
		k = append(k, arena.New(fmt.Sprintf("keys %d", i), m.opts.DType, capacity, m.cfg.KVHeads*m.cfg.HeadDim))
		v = append(v, arena.New(fmt.Sprintf("values %d", i), m.opts.DType, capacity, m.cfg.KVHeads*m.cfg.HeadDim))
	}
	s.token = arena.New("token", tensor.I32, 2)
	if !m.dev.IsCPU() {
		s.parts = arena.New("attention parts", tensor.F32, m.cfg.spec().NextParts(capacity)...)
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
func (m *Model) allocExtend(arena *kernels.Arena, rows int) *pass {
	return m.allocPass(arena, extent{maxTokens: rows, rows: rows, logits: 1})
}

// Extend appends tokens to a cache and returns the logits of the last one, [vocab]: what comes next. The slice is
// used again by the cache's next Extend.
func (m *Model) Extend(c *KVCache, ids []int32) ([]float32, error) {
	defer m.tokenRange(ids)()
	logits, err := m.extendBy(c, ids)
	if err != nil {
		return nil, err
	}
	if err := m.dev.Download(c.next, logits); err != nil {
		return nil, err
	}
	return c.next, nil
}

func (m *Model) tokenRange(ids []int32) (end func()) {
	if len(ids) == 1 {
		return m.dev.Range("token")
	}
	return m.dev.Range("prompt")
}

// extendBy is Extend, with the logits left on the device.
func (m *Model) extendBy(c *KVCache, ids []int32) (logits tensor.Tensor, err error) {
	if err := OneSequence(ids).check(m.cfg, max(len(ids), 1)); err != nil {
		return logits, err
	}
	if c.n+len(ids) > c.Capacity() {
		return logits, fmt.Errorf("cache: %d tokens more than its %d do not fit in %d", len(ids), c.n, c.Capacity())
	}
	if m.extendArena == nil {
		arena, err := m.dev.NewArena("activations of Extend", kernels.SizeOf(func(arena *kernels.Arena) { m.allocExtend(arena, min(prefillChunk, m.cfg.MaxPositions)) }))
		if err != nil {
			return logits, err
		}
		m.extendArena = arena
	}
	for len(ids) > 0 {
		n := min(len(ids), prefillChunk)
		if m.extendPass == nil || m.extendPass.rows != n { // answers are made of one token after the other
			m.extendArena.Release(0)
			m.extendPass = m.allocExtend(m.extendArena, n)
		}
		p := m.extendPass
		logits = p.head.logits
		if n == 1 && m.decodes() {
			m.decode(c, p, ids[0])
		} else {
			p.cache, c.done = c, false
			positions := make([]int32, n)
			for i := range positions {
				positions[i] = int32(c.n + i)
			}
			p.stage(ids[:n], positions)
			m.forward(p)
			if n == len(ids) {
				m.head.forward(m.dev, logits, p.last.x.Slice(n-1, n))
			}
		}
		ids = ids[n:]
		c.n += n
	}
	return logits, m.dev.Err()
}
