package model

import (
	"fmt"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// cut lays out a pass. MemoryOf runs it to count.
func (m *Model) cut(a *kernels.Arena, e extent) *pass {
	c, t, rows, keep := m.c, m.o.DType, e.rows, e.keep
	p := &pass{d: m.d, rope: &m.rope, rows: rows, recompute: m.o.Recompute, acts: make([]acts, 0, c.Layers)}
	p.staged = a.New("staged", tensor.I32, 5*e.most+1)
	p.ids, p.positions = p.staged.Part(0, rows), p.staged.Part(e.most, rows)
	p.index, p.targets = p.staged.Part(2*e.most, e.trained), p.staged.Part(3*e.most, e.trained)
	p.loss = a.New("loss", tensor.F32, e.trained)
	var h []tensor.Tensor // the residual stream before each block and behind the last; two that take turns if none is kept
	for i := range c.Layers + 1 {
		if !keep && i >= 2 {
			h = append(h, h[i-2])
			continue
		}
		h = append(h, a.New(fmt.Sprintf("h%d", i), t, rows, c.Dim))
	}
	keepAttention := keep && m.o.Recompute == RecomputeNone
	keepMLP := keep && m.o.Recompute != RecomputeLayer
	for i := range c.Layers {
		var b acts
		if i == 0 || keepAttention {
			b.attention = cutAttention(a, c, t, rows)
		} else {
			b.attention = p.acts[0].attention
		}
		b.attention.h = h[i]
		if i == 0 || keepMLP {
			b.mlp = cutMLP(a, c, t, rows)
		} else {
			b.mlp = p.acts[0].mlp
		}
		p.acts = append(p.acts, b)
	}
	p.last = normActs{h: h[c.Layers], rstd: a.New("rstd", tensor.F32, rows), x: a.New("x", t, rows, c.Dim)}
	p.branch = a.New("branch", t, rows, c.Dim)
	if keep {
		p.dh = a.New("dh", t, rows, c.Dim)
	}
	head := func() { p.head = m.cutHead(a, e) }
	if !keep {
		head()
		return p
	}
	a.Overlay( // the head is done before the blocks' backward pass begins
		head,
		func() {
			p.grads.dx = a.New("dx", t, rows, c.Dim)
			a.Overlay( // the two halves are never at work at once
				func() {
					p.grads.dgateUp = a.New("dgateUp", t, rows, 2*c.Inner)
					p.grads.dact = a.New("dact", t, rows, c.Inner)
				},
				func() {
					p.grads.dqkv = a.New("dqkv", t, rows, c.qkvDim())
					p.grads.dy = a.New("dy", t, rows, c.Heads*c.HeadDim)
				})
		})
	return p
}

// begin checks a batch, lays out a pass and brings the batch to the device.
func (m *Model) begin(b Batch) (*pass, error) {
	if err := b.check(m.c, m.o.MaxTokens); err != nil {
		return nil, err
	}
	if err := m.ropeFor(b.longest()); err != nil {
		return nil, err
	}
	m.acts.Release(0)
	b = b.filled(m.o.Rows(len(b.IDs)), m.o.Longest, int32(max(0, m.c.PadID)))
	n := len(b.IDs)
	p := m.cut(m.acts, extent{most: m.o.MaxTokens, rows: n, trained: b.Targets(), logits: m.o.piece(m.c, n), keep: m.o.Train})
	p.starts = slices.Compact(slices.Clone(b.starts())) // so there are no more than most + 1
	p.offsets = p.staged.Part(4*m.o.MaxTokens, len(p.starts))
	index, targets := b.trained()
	p.stage(b.IDs, b.positions(), index, targets, p.starts)
	return p, nil
}

// forward goes through all blocks and the last norm, whose output is p.last.x.
func (m *Model) forward(p *pass) {
	defer m.d.Range("forward")()
	s := stream{h: p.acts[0].attention.h}
	m.embed.forward(p, s.h)
	m.watch("embed", s.h)
	for i := range m.blocks {
		a := &p.acts[i]
		end := m.blockRange(i)
		s = m.blocks[i].forward(p, a, s)
		end()
		if i > 0 { // the stream's addition was made by the norm that block i begins with
			m.watch(fmt.Sprintf("block.%d", i-1), a.attention.h)
		}
	}
	m.norm.forward(m.d, p.last, s)
	m.watch(fmt.Sprintf("block.%d", len(m.blocks)-1), p.last.h)
	m.watch("norm", p.last.x)
}

// backward goes back through the last norm and all blocks from dx, the gradient of the last norm's output.
func (m *Model) backward(p *pass, dx tensor.Tensor, after func(block int)) {
	defer m.d.Range("backward")()
	m.norm.backwardFirst(m.d, p.dh, dx, p.last, p.overwrite)
	for i := len(m.blocks) - 1; i >= 0; i-- {
		b := &m.blocks[i]
		if !b.below && !b.trained() {
			return
		}
		end := m.blockRange(i)
		b.backward(p, &p.acts[i])
		end()
		if after != nil {
			after(i)
		}
	}
	m.embed.backward(p)
}

func (m *Model) blockRange(i int) (end func()) { return m.d.Range(fmt.Sprintf("block %d", i)) }

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
	p, err := m.begin(b)
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
	err := m.d.Download(r.Tokens, l.Each)
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
	if !m.o.Train {
		panic("model: Gradient of a model that was not opened with Train")
	}
	if m.o.ReuseGradients && !g.Overwrite {
		panic("model: Gradient adds to gradients that another block's have taken the place of")
	}
	p, err := m.begin(b)
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
	return l, m.d.Err()
}
