package model

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// A Cache holds the keys and values of a sequence that is extended token by token, so that nothing is computed twice.
type Cache struct {
	m     *Llama
	arena *kernels.Arena
	k, v  []tensor.Tensor // of each block: [capacity, kvHeads·headDim]
	n     int
	next  []float32 // [vocab], what Extend returns
}

// chunk is how many tokens of a long prompt are computed at once: enough to keep the products busy, few enough that their
// activations are small.
const chunk = 512

// NewCache allocates a cache for sequences of up to capacity tokens.
func (m *Llama) NewCache(capacity int) (*Cache, error) {
	if capacity < 1 || capacity > m.c.MaxPositions {
		return nil, fmt.Errorf("cache: %d tokens, and the model has 1 to %d positions", capacity, m.c.MaxPositions)
	}
	c := &Cache{m: m, next: make([]float32, m.c.Vocab)}
	if err := m.ropeFor(capacity); err != nil {
		return nil, err
	}
	var err error
	if c.arena, err = m.d.NewArena("cache", kernels.SizeOf(func(a *kernels.Arena) { m.cutCache(a, capacity) })); err != nil {
		return nil, err
	}
	c.k, c.v = m.cutCache(c.arena, capacity)
	return c, nil
}

func (m *Llama) cutCache(a *kernels.Arena, capacity int) (k, v []tensor.Tensor) {
	for i := range m.c.Layers {
		k = append(k, a.New(fmt.Sprintf("keys %d", i), m.o.DType, capacity, m.c.KVHeads*m.c.HeadDim))
		v = append(v, a.New(fmt.Sprintf("values %d", i), m.o.DType, capacity, m.c.KVHeads*m.c.HeadDim))
	}
	return k, v
}

// Len is the number of tokens in the cache.
func (c *Cache) Len() int { return c.n }

// Capacity is the number of tokens that it has room for.
func (c *Cache) Capacity() int { return c.k[0].Dim(0) }

// Trim keeps the first n tokens. The next Extend goes on from there.
func (c *Cache) Trim(n int) {
	if n < 0 || n > c.n {
		panic(fmt.Sprintf("cache: trimmed to %d of %d", n, c.n))
	}
	c.n = n
}

// Close gives the cache's memory back.
func (c *Cache) Close() error { return c.arena.Close() }

// inferActs are the activations of Extend.
type inferActs struct {
	ids, positions           tensor.Tensor
	h, mid, x, t             tensor.Tensor
	rstd, rstdQ              tensor.Tensor
	raw, qkv, y, gateUp, act tensor.Tensor
	logits                   tensor.Tensor // F32 [1, vocab]
}

func (m *Llama) cutInfer(a *kernels.Arena, rows int) (s inferActs) {
	c, t := m.c, m.o.DType
	s.ids = a.New("ids", tensor.I32, rows)
	s.positions = a.New("positions", tensor.I32, rows)
	for _, x := range []*tensor.Tensor{&s.h, &s.mid, &s.x, &s.t} {
		*x = a.New("residual", t, rows, c.Dim)
	}
	s.rstd = a.New("rstd", tensor.F32, rows)
	if c.QKNorm {
		s.raw = a.New("raw", t, rows, c.qkvDim())
		s.rstdQ = a.New("rstdQ", tensor.F32, rows, c.Heads+c.KVHeads)
	}
	s.qkv = a.New("qkv", t, rows, c.qkvDim())
	s.y = a.New("y", t, rows, c.Heads*c.HeadDim)
	s.gateUp = a.New("gateUp", t, rows, 2*c.Inner)
	s.act = a.New("act", t, rows, c.Inner)
	s.logits = a.New("logits", tensor.F32, 1, c.Vocab)
	return s
}

// Extend appends tokens to a cache and returns the logits of the last one, [vocab]: what comes next. The slice is
// used again by the cache's next Extend.
func (m *Llama) Extend(c *Cache, ids []int32) ([]float32, error) {
	if err := OneSequence(ids).check(m.c, max(len(ids), 1)); err != nil {
		return nil, err
	}
	if c.n+len(ids) > c.Capacity() {
		return nil, fmt.Errorf("cache: %d tokens more than its %d do not fit in %d", len(ids), c.n, c.Capacity())
	}
	if m.infer == nil {
		a, err := m.d.NewArena("activations of Extend", kernels.SizeOf(func(a *kernels.Arena) { m.cutInfer(a, min(chunk, m.c.MaxPositions)) }))
		if err != nil {
			return nil, err
		}
		m.infer = a
	}
	for len(ids) > 0 {
		n := min(len(ids), chunk)
		m.infer.Release(0)
		s := m.cutInfer(m.infer, n)
		m.extend(c, s, ids[:n])
		ids = ids[n:]
		if len(ids) == 0 {
			m.d.Linear(s.logits, s.x.Slice(n-1, n), m.head.w, tensor.Tensor{})
			if err := m.d.Download(c.next, s.logits); err != nil {
				return nil, err
			}
		}
		c.n += n
	}
	return c.next, nil
}

// extend is forward for tokens that follow those in the cache.
func (m *Llama) extend(cache *Cache, s inferActs, ids []int32) {
	d, c := m.d, m.c
	positions := make([]int32, len(ids))
	for i := range positions {
		positions[i] = int32(cache.n + i)
	}
	d.UploadI32(s.ids, ids)
	d.UploadI32(s.positions, positions)
	d.Embedding(s.h, m.embed.w, s.ids)
	for i := range m.blocks {
		b := &m.blocks[i]
		if i == 0 {
			d.RMSNorm(s.x, s.rstd, s.h, b.norm1.w, c.NormEps)
		} else {
			d.AddRMSNorm(s.x, s.rstd, s.h, s.mid, s.t, b.norm1.w, c.NormEps)
		}
		if c.QKNorm {
			b.qkv.forward(d, s.raw, s.x)
			d.QKNorm(s.qkv, s.rstdQ, s.raw, b.qNorm.w, b.kNorm.w, c.Heads, c.KVHeads, c.NormEps)
		} else {
			b.qkv.forward(d, s.qkv, s.x)
		}
		d.RoPE(s.qkv, s.positions, m.rope.cos, m.rope.sin, c.Heads, c.KVHeads)
		d.AppendKV(cache.k[i], cache.v[i], s.qkv, c.Heads, c.KVHeads, cache.n)
		d.AttentionCached(s.y, s.qkv, cache.k[i], cache.v[i], cache.n, m.mask(nil))
		b.o.forward(d, s.t, s.y)
		d.AddRMSNorm(s.x, s.rstd, s.mid, s.h, s.t, b.norm2.w, c.NormEps)
		b.gateUp.forward(d, s.gateUp, s.x)
		d.SwiGLU(s.act, s.gateUp)
		b.down.forward(d, s.t, s.act)
	}
	d.AddRMSNorm(s.x, s.rstd, s.h, s.mid, s.t, m.norm.w, c.NormEps)
}
