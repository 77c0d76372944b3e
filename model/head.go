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
func (o Options) logitsChunk(cfg Config, rows int) int {
	row := cfg.Vocab * tensor.F32.Size()
	if o.Train && o.DType != tensor.F32 {
		row += cfg.Vocab * o.DType.Size()
	}
	return max(1, min(rows, o.HeadBytes/row))
}

// headRows is how many rows a piece has that may have so many, and has rows that are trained.
func (m *Model) headRows(rows, piece int) int { return min(piece, m.opts.Rows(rows)) }

func (m *Model) allocHead(arena *kernels.Arena, e extent) (acts headActs) {
	cfg, t, logits := m.cfg, m.opts.DType, e.logits
	rest := e.targets % logits
	trained := e.targets - rest + m.headRows(rest, logits)
	acts.x = arena.New("head x", t, trained, cfg.Dim)
	if e.keep {
		acts.dx = arena.New("head dx", t, trained, cfg.Dim)
	}
	acts.logits = arena.New("logits", tensor.F32, logits, cfg.Vocab)
	if acts.dlogits = acts.logits; e.keep && t != tensor.F32 {
		acts.dlogits = arena.New("dlogits", t, logits, cfg.Vocab)
	}
	return acts
}

// headLoss computes the loss from the last norm's output and, with gradient, leaves the gradient of that in p.branch, which
// the forward pass needs no more.
func (m *Model) headLoss(p *pass, scale float32, gradient bool) {
	dev, acts, trained := m.dev, p.head, p.index.Len()
	if trained == 0 {
		return
	}
	dev.GatherRows(acts.x.Slice(0, trained), p.last.x, p.index)
	dev.Zero(acts.x.Slice(trained, acts.x.Dim(0)))
	for lo := 0; lo < trained; lo += acts.logits.Dim(0) {
		n := min(acts.logits.Dim(0), trained-lo)
		rows := m.headRows(n, acts.logits.Dim(0))
		x, logits := acts.x.Slice(lo, lo+rows), acts.logits.Slice(0, rows)
		m.head.forward(dev, logits, x)
		var dlogits tensor.Tensor
		if gradient {
			dlogits = acts.dlogits.Slice(0, n)
		}
		dev.CrossEntropy(p.loss.Slice(lo, lo+n), dlogits, logits.Slice(0, n), p.targets.Slice(lo, lo+n), scale)
		if gradient {
			dlogits = acts.dlogits.Slice(0, rows)
			dev.Zero(dlogits.Slice(n, rows))
			m.head.backward(dev, acts.dx.Slice(lo, lo+rows), false, dlogits, x, p.overwrite && lo == 0)
		}
	}
	if gradient {
		dev.ScatterRows(p.branch, acts.dx.Slice(0, trained), p.index)
	}
}

// Logits calls f with the logits of every position of a batch, in order. The slice is used again for the next one.
func (m *Model) Logits(b Batch, f func(position int, logits []float32)) error {
	b.Labels = nil
	p, err := m.newPass(b)
	if err != nil {
		return err
	}
	m.forward(p)
	piece := p.head.logits.Dim(0)
	host := make([]float32, piece*m.cfg.Vocab)
	for lo := 0; lo < len(b.IDs); lo += piece {
		hi := min(lo+piece, len(b.IDs))
		logits := p.head.logits.Slice(0, hi-lo)
		m.head.forward(m.dev, logits, p.last.x.Slice(lo, hi))
		if err := m.dev.Download(host[:logits.Len()], logits); err != nil {
			return err
		}
		for r := range hi - lo {
			f(lo+r, host[r*m.cfg.Vocab:][:m.cfg.Vocab])
		}
	}
	return nil
}
