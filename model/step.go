package model

import (
	"fmt"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// cut lays out a pass. MemoryOf runs it to count.
func (m *Model) allocPass(arena *kernels.Arena, e extent) *pass {
	cfg, t, rows, keep := m.cfg, m.opts.DType, e.rows, e.keep
	p := &pass{dev: m.dev, rope: &m.rope, rows: rows, recompute: m.opts.Recompute, layers: make([]layerActs, 0, cfg.Layers)}
	p.staged = arena.New("staged", tensor.I32, 5*e.maxTokens+1)
	p.ids, p.positions = p.staged.Part(0, rows), p.staged.Part(e.maxTokens, rows)
	p.index, p.targets = p.staged.Part(2*e.maxTokens, e.targets), p.staged.Part(3*e.maxTokens, e.targets)
	p.loss = arena.New("loss", tensor.F32, e.targets)
	var h []tensor.Tensor // the residual stream before each block and behind the last; two that take turns if none is kept
	for i := range cfg.Layers + 1 {
		if !keep && i >= 2 {
			h = append(h, h[i-2])
			continue
		}
		h = append(h, arena.New(fmt.Sprintf("h%d", i), t, rows, cfg.Dim))
	}
	keepAttention := keep && m.opts.Recompute == RecomputeNone
	keepMLP := keep && m.opts.Recompute != RecomputeLayer
	for i := range cfg.Layers {
		var b layerActs
		if i == 0 || keepAttention {
			b.attention = allocAttention(arena, cfg, t, rows)
		} else {
			b.attention = p.layers[0].attention
		}
		b.attention.h = h[i]
		if i == 0 || keepMLP {
			b.mlp = allocMLP(arena, cfg, t, rows)
		} else {
			b.mlp = p.layers[0].mlp
		}
		p.layers = append(p.layers, b)
	}
	p.last = normActs{h: h[cfg.Layers], rstd: arena.New("rstd", tensor.F32, rows), x: arena.New("x", t, rows, cfg.Dim)}
	p.branch = arena.New("branch", t, rows, cfg.Dim)
	if keep {
		p.dh = arena.New("dh", t, rows, cfg.Dim)
	}
	head := func() { p.head = m.allocHead(arena, e) }
	if !keep {
		head()
		return p
	}
	arena.Overlay( // the head is done before the blocks' backward pass begins
		head,
		func() {
			p.actGrads.dx = arena.New("dx", t, rows, cfg.Dim)
			arena.Overlay( // the two halves are never at work at once
				func() {
					p.actGrads.dgateUp = arena.New("dgateUp", t, rows, 2*cfg.Inner)
					p.actGrads.dact = arena.New("dact", t, rows, cfg.Inner)
				},
				func() {
					p.actGrads.dqkv = arena.New("dqkv", t, rows, cfg.qkvDim())
					p.actGrads.dy = arena.New("dy", t, rows, cfg.Heads*cfg.HeadDim)
				})
		})
	return p
}

// begin checks a batch, lays out a pass and brings the batch to the device.
func (m *Model) newPass(b Batch) (*pass, error) {
	if err := b.check(m.cfg, m.opts.MaxTokens); err != nil {
		return nil, err
	}
	if err := m.ropeFor(b.longest()); err != nil {
		return nil, err
	}
	m.actArena.Release(0)
	b = b.padded(m.opts.Rows(len(b.IDs)), m.opts.Longest, int32(max(0, m.cfg.PadID)))
	n := len(b.IDs)
	p := m.allocPass(m.actArena, extent{maxTokens: m.opts.MaxTokens, rows: n, targets: b.Targets(), logits: m.opts.logitsChunk(m.cfg, n), keep: m.opts.Train})
	p.cuSeqlens = slices.Compact(slices.Clone(b.cuSeqlens())) // so there are no more than most + 1
	p.offsets = p.staged.Part(4*m.opts.MaxTokens, len(p.cuSeqlens))
	index, targets := b.targets()
	p.stage(b.IDs, b.positions(), index, targets, p.cuSeqlens)
	return p, nil
}

// forward goes through all blocks and the last norm, whose output is p.last.x.
func (m *Model) forward(p *pass) {
	defer m.dev.Range("forward")()
	s := stream{h: p.layers[0].attention.h}
	m.embed.forward(p, s.h)
	m.watch("embed", s.h)
	for i := range m.layers {
		acts := &p.layers[i]
		end := m.layerRange(i)
		s = m.layers[i].forward(p, acts, s)
		end()
		if i > 0 { // the stream's addition was made by the norm that block i begins with
			m.watch(fmt.Sprintf("block.%d", i-1), acts.attention.h)
		}
	}
	m.norm.forward(m.dev, p.last, s)
	m.watch(fmt.Sprintf("block.%d", len(m.layers)-1), p.last.h)
	m.watch("norm", p.last.x)
}

// backward goes back through the last norm and all blocks from dx, the gradient of the last norm's output.
func (m *Model) backward(p *pass, dx tensor.Tensor, after func(block int)) {
	defer m.dev.Range("backward")()
	m.norm.backwardFirst(m.dev, p.dh, dx, p.last, p.overwrite)
	for i := len(m.layers) - 1; i >= 0; i-- {
		layer := &m.layers[i]
		if !layer.below && !layer.trainable() {
			return
		}
		end := m.layerRange(i)
		layer.backward(p, &p.layers[i])
		end()
		if after != nil {
			after(i)
		}
	}
	m.embed.backward(p)
}

func (m *Model) layerRange(i int) (end func()) { return m.dev.Range(fmt.Sprintf("block %d", i)) }

func (m *Model) watch(name string, h tensor.Tensor) {
	if m.OnHidden != nil {
		m.OnHidden(name, h)
	}
}

// A Loss is what a batch costs.
type Loss struct {
	// Sum is the sum of the losses of all trained positions, in nats, and Targets how many these are. A step's loss is the sum
	// of the sums of its batches over the sum of their numbers, never a mean of means.
	Sum     float64
	Targets int
	// Tokens are the losses of the trained positions, in order.
	Tokens []float32
}

// Mean is the loss per trained position, and NaN when there is none.
func (l Loss) Mean() float64 {
	if l.Targets == 0 {
		return math.NaN()
	}
	return l.Sum / float64(l.Targets)
}

// Loss is the loss of a batch, without gradients.
func (m *Model) Loss(b Batch) (Loss, error) {
	p, err := m.newPass(b)
	if err != nil {
		return Loss{}, err
	}
	m.forward(p)
	m.headLoss(p, 0, false)
	return m.Read(p.losses())
}

// Losses are those of a pass, on the device until the next pass.
type Losses struct {
	Targets int           // positions
	Each    tensor.Tensor // F32 [Targets], in order
}

func (p *pass) losses() Losses { return Losses{p.index.Len(), p.loss} }

// Read waits for losses and brings them to the host.
func (m *Model) Read(l Losses) (Loss, error) {
	r := Loss{Targets: l.Targets, Tokens: make([]float32, l.Targets)}
	err := m.dev.Download(r.Tokens, l.Each)
	for _, x := range r.Tokens {
		r.Sum += float64(x)
	}
	return r, err
}

// Gradients say what Gradient does with those of before, and who waits for them. The zero value adds.
type Gradients struct {
	// Overwrite replaces the gradients that are there: the first batch of a step. Otherwise they are added to.
	Overwrite bool
	// After is called when a block's gradients are final, the last block first, and in the end with Outside for all that
	// belongs to none. Nil for nobody. A block that the backward pass does not reach has none.
	After func(block int)
}

// Gradient computes the losses of a batch, and the gradient of scale · their sum into Params. For a step of several batches
// scale is one over the number of trained positions in all of them. It does not wait for the device. The model must have been
// opened with Train.
func (m *Model) Gradient(b Batch, scale float32, g Gradients) (Losses, error) {
	if !m.opts.Train {
		panic("model: Gradient of a model that was not opened with Train")
	}
	if m.opts.ReuseGradients && !g.Overwrite {
		panic("model: Gradient adds to gradients that another block's have taken the place of")
	}
	p, err := m.newPass(b)
	if err != nil {
		return Losses{}, err
	}
	p.overwrite = g.Overwrite
	m.forward(p)
	m.headLoss(p, scale, true)
	l := p.losses()
	if l.Targets > 0 {
		m.backward(p, p.branch, g.After)
	} else if g.Overwrite {
		m.zeroGradients()
	}
	if g.After != nil {
		g.After(Outside)
	}
	return l, m.dev.Err()
}
