package model

import (
	"errors"
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// A KVCache holds the keys and values of one sequence, so that extending it by a token computes only that token.
type KVCache struct {
	m     *Model
	arena *kernels.Arena
	k, v  []tensor.Tensor // of each layer: [capacity, kvHeads·headDim]
	n     int
	next  []float32 // [vocab], the result of Extend

	tokenGraph
}

// prefillChunk is the number of tokens of a long prompt that are computed at once: enough to keep the matrix products
// busy, few enough to keep their activations small. A GPU takes more, because it reads, and often dequantizes, all
// weights for each chunk, and an expert gets only some of the tokens; but not while it trains, when memory is scarce.
const prefillChunk, gpuPrefillChunk = 512, 2048

// PrefillChunk returns the number of tokens of a long prompt that Extend computes at once.
func (m *Model) PrefillChunk() int {
	n := gpuPrefillChunk
	if m.dev.IsCPU() || m.opts.Train {
		n = prefillChunk
	}
	return min(n, m.cfg.Positions())
}

// NewKVCache allocates a cache for sequences of up to capacity tokens.
func (m *Model) NewKVCache(capacity int) (*KVCache, error) {
	if capacity < 1 || capacity > m.cfg.Positions() {
		return nil, fmt.Errorf("KV cache: %d tokens: must be 1 to %d, the model's positions", capacity, m.cfg.Positions())
	}
	c := &KVCache{m: m, next: make([]float32, m.cfg.Vocab)}
	if err := m.ropeFor(capacity, 0); err != nil {
		return nil, err
	}
	size := kernels.SizeOf(func(arena *kernels.Arena) { m.allocCache(arena, capacity) })
	var err error
	if c.arena, err = m.dev.NewArena("KV cache", size); err != nil {
		return nil, err
	}
	c.k, c.v, c.tokenGraph = m.allocCache(c.arena, capacity)
	m.dev.Zero(c.chooseScratch)
	if c.counters.Ok() {
		m.dev.Zero(c.counters)
	}
	return c, nil
}

func (m *Model) allocCache(arena *kernels.Arena, capacity int) (k, v []tensor.Tensor, s tokenGraph) {
	for i := range m.cfg.Layers {
		k = append(k, arena.New(fmt.Sprintf("keys %d", i), m.opts.DType, capacity, m.cfg.KVHeads*m.cfg.HeadDim))
		v = append(v, arena.New(fmt.Sprintf("values %d", i), m.opts.DType, capacity, m.cfg.KVHeads*m.cfg.HeadDim))
	}
	s.token, s.chooseScratch = arena.New("token", tensor.I32, 3), arena.New("choice scratch", tensor.I32,
		kernels.ChooseScratch)
	if !m.dev.IsCPU() {
		s.parts = arena.New("attention parts", tensor.F32, m.cfg.spec().NextParts(capacity)...)
		s.counters = arena.New("attention counters", tensor.I32, m.cfg.Heads)
	}
	return k, v, s
}

// Len returns the number of tokens in the cache.
func (c *KVCache) Len() int { return c.n }

// Capacity returns the number of tokens that the cache has room for.
func (c *KVCache) Capacity() int { return c.k[0].Dim(0) }

// Trim keeps the first n tokens and drops the rest. It panics if n is negative or more than Len.
func (c *KVCache) Trim(n int) {
	if n < 0 || n > c.n {
		panic(fmt.Sprintf("KV cache: Trim(%d) of %d tokens", n, c.n))
	}
	c.n = n
}

// Close frees the cache's memory.
func (c *KVCache) Close() error { return errors.Join(c.graph.Close(), c.arena.Close()) }

// allocExtend allocates a pass of Extend over rows tokens: activations of all rows, logits of the last.
func (m *Model) allocExtend(arena *kernels.Arena, rows int) *pass {
	return m.allocPass(arena, extent{maxTokens: rows, rows: rows, logits: 1})
}

// Extend appends tokens to the cache and returns the logits of the token that comes next, [vocab]. The next Extend of
// the cache overwrites the slice.
func (m *Model) Extend(c *KVCache, ids []int32) ([]float32, error) {
	defer m.tokenRange(ids)()
	logits, err := m.extendBy(c, ids, false)
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

// extendBy does what Extend does, but leaves the logits on the device. If choiceOnly, it may leave only the model's
// choice there, see decode.
func (m *Model) extendBy(c *KVCache, ids []int32, choiceOnly bool) (logits tensor.Tensor, err error) {
	if err := OneSequence(ids).check(m.cfg, max(len(ids), 1)); err != nil {
		return logits, err
	}
	if c.n+len(ids) > c.Capacity() {
		return logits, fmt.Errorf("KV cache: %d more tokens do not fit: %d of %d positions are in use", len(ids), c.n,
			c.Capacity())
	}
	if m.extendArena == nil {
		arena, err := m.dev.NewArena("activations of Extend",
			kernels.SizeOf(func(arena *kernels.Arena) { m.allocExtend(arena, m.PrefillChunk()) }))
		if err != nil {
			return logits, err
		}
		m.extendArena = arena
	}
	if err := m.ropeFor(c.Capacity(), c.n+len(ids)); err != nil {
		return logits, err
	}
	for len(ids) > 0 {
		n := min(len(ids), m.PrefillChunk())
		if m.extendPass == nil || m.extendPass.rows != n { // decoding has the same n token after token
			m.extendArena.Release(0)
			m.extendPass = m.allocExtend(m.extendArena, n)
		}
		p := m.extendPass
		logits = p.head.logits
		if n == 1 && m.decodes() {
			m.decode(c, p, ids[0], choiceOnly)
		} else {
			p.cache, c.done, c.ahead = c, false, false
			positions := make([]int32, n)
			for i := range positions {
				positions[i] = int32(c.n + i)
			}
			p.stage(ids[:n], positions)
			m.forward(p)
			if n == len(ids) {
				m.head.forward(p, logits, p.last.x.Slice(n-1, n))
			}
		}
		ids = ids[n:]
		c.n += n
	}
	return logits, m.dev.Err()
}
