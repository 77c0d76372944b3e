package model

import (
	"fmt"
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

// activations are all that one pass needs, cut from one arena in the order in which it is needed.
type activations struct {
	placed
	h    []tensor.Tensor // the residual stream before each block and behind the last; two that take turns without Train
	acts []acts          // of each block; those that are not kept share their memory
	rstd tensor.Tensor   // [rows] F32 of the last norm
	x    tensor.Tensor   // [rows, dim] its output
	t    tensor.Tensor   // [rows, dim] what a half of a block adds
	dh   tensor.Tensor   // [rows, dim] the gradient of the residual stream
	g    grads
	head headActs
}

// cut lays out a pass over rows tokens of which so many are trained. MemoryOf runs it to count.
func (m *Llama) cut(a *kernels.Arena, rows, trained int) *activations {
	c, t := m.c, m.o.DType
	var s activations
	s.rows = rows
	s.ids = a.New("ids", tensor.I32, rows)
	s.positions = a.New("positions", tensor.I32, rows)
	for i := range c.Layers + 1 {
		if !m.o.Train && i >= 2 {
			s.h = append(s.h, s.h[i-2])
			continue
		}
		s.h = append(s.h, a.New(fmt.Sprintf("h%d", i), t, rows, c.Dim))
	}
	keepAttention := m.o.Train && m.o.Recompute == RecomputeNone
	keepMLP := m.o.Train && m.o.Recompute != RecomputeBlock
	for i := range c.Layers {
		b := acts{h: s.h[i]}
		if i == 0 || keepAttention {
			b.attentionActs = cutAttention(a, c, t, rows)
		} else {
			b.attentionActs = s.acts[0].attentionActs
		}
		if i == 0 || keepMLP {
			b.mlpActs = cutMLP(a, c, t, rows)
		} else {
			b.mlpActs = s.acts[0].mlpActs
		}
		s.acts = append(s.acts, b)
	}
	s.rstd = a.New("rstd", tensor.F32, rows)
	s.x = a.New("x", t, rows, c.Dim)
	s.t = a.New("t", t, rows, c.Dim)
	if m.o.Train {
		s.dh = a.New("dh", t, rows, c.Dim)
	}
	mark := a.Mark()
	s.head = m.cutHead(a, rows, trained)
	if m.o.Train { // the head is done before the blocks' backward pass begins
		end := a.Mark()
		a.Release(mark)
		s.g = cutGrads(a, c, t, rows)
		if end > a.Mark() {
			a.Release(mark)
			a.New("the head's", tensor.U8, end-mark)
		}
	}
	return &s
}

// begin checks a batch, lays out its activations and brings it to the device.
func (m *Llama) begin(b Batch) (*activations, error) {
	if err := b.check(m.c, m.o.MaxTokens); err != nil {
		return nil, err
	}
	if err := m.ropeFor(b.longest()); err != nil {
		return nil, err
	}
	m.acts.Release(0)
	s := m.cut(m.acts, len(b.IDs), b.Trained())
	s.starts = b.starts()
	m.d.UploadI32(s.ids, b.IDs)
	m.d.UploadI32(s.positions, b.positions())
	return s, nil
}

// forward goes through all blocks and the last norm, whose output is s.x.
func (m *Llama) forward(s *activations) {
	d, eps := m.d, m.c.NormEps
	d.Embedding(s.h[0], m.embed.w, s.ids)
	m.watch("embed", s.h[0])
	for i := range m.blocks {
		b, a := &m.blocks[i], &s.acts[i]
		if i == 0 {
			d.RMSNorm(a.x1, a.rstd1, a.h, b.norm1.w, eps)
		} else {
			d.AddRMSNorm(a.x1, a.rstd1, a.h, s.acts[i-1].mid, s.t, b.norm1.w, eps)
			m.watch(fmt.Sprintf("block.%d", i-1), a.h)
		}
		m.blockForward(b, a, s.placed, s.t)
	}
	last := len(m.blocks) - 1
	d.AddRMSNorm(s.x, s.rstd, s.h[last+1], s.acts[last].mid, s.t, m.norm.w, eps)
	m.watch(fmt.Sprintf("block.%d", last), s.h[last+1])
	m.watch("norm", s.x)
}

// backward goes back through the last norm and all blocks from the gradient of the last norm's output, which is in s.t.
func (m *Llama) backward(s *activations) {
	d := m.d
	last := len(m.blocks) - 1
	d.RMSNormBackward(s.dh, m.norm.dw, s.t, s.h[last+1], m.norm.w, s.rstd)
	for i := last; i >= 0; i-- {
		b, a := &m.blocks[i], &s.acts[i]
		if !b.below && !b.trained() {
			return
		}
		m.recompute(b, a, s, i)
		m.blockBackward(b, a, s.placed, s.dh, s.g)
	}
	if m.embed.dw.Ok() {
		d.EmbeddingBackward(m.embed.dw, s.dh, s.ids, m.c.PadID)
	}
}

// recompute brings back what the forward pass did not keep of a block. s.t serves once more for what its halves add.
func (m *Llama) recompute(b *block, a *acts, s *activations, i int) {
	if m.o.Recompute == RecomputeNone {
		return
	}
	m.d.RMSNorm(a.x1, a.rstd1, a.h, b.norm1.w, m.c.NormEps)
	m.attentionForward(b, &a.attentionActs, s.placed)
	if m.o.Recompute == RecomputeBlock {
		m.mlpForward(b, a, s.t)
	}
}

func (m *Llama) watch(name string, h tensor.Tensor) {
	if m.Watch != nil {
		m.Watch(name, h)
	}
}

// A Loss is what a batch costs.
type Loss struct {
	// Sum is the sum of the losses of all trained positions, in nats, and Trained how many these are. A step's loss is the sum
	// of the sums of its batches over the sum of their numbers, never a mean of means.
	Sum     float64
	Trained int
	// Tokens are the losses of the trained positions, in order.
	Tokens []float32
}

// Mean is the loss per trained position, and NaN when there is none.
func (l Loss) Mean() float64 {
	if l.Trained == 0 {
		return math.NaN()
	}
	return l.Sum / float64(l.Trained)
}

// Loss is the loss of a batch, without gradients.
func (m *Llama) Loss(b Batch) (Loss, error) {
	s, err := m.begin(b)
	if err != nil {
		return Loss{}, err
	}
	m.forward(s)
	return m.headLoss(b, s, 0, false)
}

// Gradient is the loss of a batch, and adds the gradient of scale · Loss.Sum to Params. For a step of several batches
// scale is one over the number of trained positions in all of them. The model must have been opened with Train.
func (m *Llama) Gradient(b Batch, scale float32) (Loss, error) {
	if !m.o.Train {
		panic("model: Gradient of a model that was not opened with Train")
	}
	s, err := m.begin(b)
	if err != nil {
		return Loss{}, err
	}
	m.forward(s)
	l, err := m.headLoss(b, s, scale, true)
	if err != nil || l.Trained == 0 {
		return l, err
	}
	m.backward(s)
	return l, m.d.Sync()
}
