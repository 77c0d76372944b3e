package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// The head multiplies with the vocabulary, which for a large one is a fifth of all arithmetic and, as a matrix of logits,
// more memory than all else. So positions that are not trained are dropped before it, and the others go through it in
// pieces: a piece's logits become its loss and its gradient before the next piece's are computed.
//
// Logits are F32 whatever the model is: the loss is a difference of two of them, and rounded to BF16 those of a trained
// model, which reach 20, are off by up to 0.06 each.

// headActs are what the head needs besides.
type headActs struct {
	x, dx   tensor.Tensor // [trained, dim] the trained rows of the last norm's output, and their gradient
	logits  tensor.Tensor // F32 [piece, vocab]
	dlogits tensor.Tensor // [piece, vocab] of the model's type; in F32 it is the logits' own place
}

// piece is how many rows of logits there are at a time, of so many.
func (o Options) piece(c Config, rows int) int {
	row := c.Vocab * tensor.F32.Size()
	if o.Train && o.DType != tensor.F32 {
		row += c.Vocab * o.DType.Size()
	}
	return max(1, min(rows, o.HeadBytes/row))
}

// headRows is how many rows a piece has that may have so many, and has rows that are trained.
func (m *Model) headRows(rows, piece int) int { return min(piece, m.o.Rows(rows)) }

func (m *Model) cutHead(a *kernels.Arena, e extent) (h headActs) {
	c, t, logits := m.c, m.o.DType, e.logits
	rest := e.trained % logits
	trained := e.trained - rest + m.headRows(rest, logits)
	h.x = a.New("head x", t, trained, c.Dim)
	if e.keep {
		h.dx = a.New("head dx", t, trained, c.Dim)
	}
	h.logits = a.New("logits", tensor.F32, logits, c.Vocab)
	if h.dlogits = h.logits; e.keep && t != tensor.F32 {
		h.dlogits = a.New("dlogits", t, logits, c.Vocab)
	}
	return h
}

// headLoss computes the loss from the last norm's output and, with gradient, leaves the gradient of that in p.branch, which
// the forward pass needs no more.
func (m *Model) headLoss(p *pass, scale float32, gradient bool) {
	d, h, trained := m.d, p.head, p.index.Len()
	if trained == 0 {
		return
	}
	d.GatherRows(h.x.Slice(0, trained), p.last.x, p.index)
	d.Zero(h.x.Slice(trained, h.x.Dim(0)))
	for lo := 0; lo < trained; lo += h.logits.Dim(0) {
		n := min(h.logits.Dim(0), trained-lo)
		rows := m.headRows(n, h.logits.Dim(0))
		x, logits := h.x.Slice(lo, lo+rows), h.logits.Slice(0, rows)
		m.head.forward(d, logits, x)
		var dlogits tensor.Tensor
		if gradient {
			dlogits = h.dlogits.Slice(0, n)
		}
		d.CrossEntropy(p.loss.Slice(lo, lo+n), dlogits, logits.Slice(0, n), p.targets.Slice(lo, lo+n), scale)
		if gradient {
			dlogits = h.dlogits.Slice(0, rows)
			d.Zero(dlogits.Slice(n, rows))
			m.head.backward(d, h.dx.Slice(lo, lo+rows), false, dlogits, x, p.overwrite && lo == 0)
		}
	}
	if gradient {
		d.ScatterRows(p.branch, h.dx.Slice(0, trained), p.index)
	}
}

// Logits calls f with the logits of every position of a batch, in order. The slice is used again for the next one.
func (m *Model) Logits(b Batch, f func(position int, logits []float32)) error {
	b.Labels = nil
	p, err := m.begin(b)
	if err != nil {
		return err
	}
	m.forward(p)
	piece := p.head.logits.Dim(0)
	host := make([]float32, piece*m.c.Vocab)
	for lo := 0; lo < len(b.IDs); lo += piece {
		hi := min(lo+piece, len(b.IDs))
		logits := p.head.logits.Slice(0, hi-lo)
		m.head.forward(m.d, logits, p.last.x.Slice(lo, hi))
		if err := m.d.Download(host[:logits.Len()], logits); err != nil {
			return err
		}
		for r := range hi - lo {
			f(lo+r, host[r*m.c.Vocab:][:m.c.Vocab])
		}
	}
	return nil
}
