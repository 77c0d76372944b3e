package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// The head multiplies by the vocabulary. With a large one, that is a fifth of all arithmetic, and the logits would take
// more memory than everything else. So only target positions go through the head, in chunks: the logits of a chunk
// become losses and gradients before the logits of the next chunk are computed.
//
// Logits are F32 even if the model is BF16 or F16: a loss is the difference of two of them. Logits of trained models
// reach 20, where rounding to BF16 is off by up to 0.06.

// headActs holds the memory of the head.
type headActs struct {
	x, dx   tensor.Tensor // [targets, dim] the target rows of the last norm's output, and their gradient
	logits  tensor.Tensor // F32 [chunk, vocab]
	dlogits tensor.Tensor // [chunk, vocab] of the model's type; in F32 it shares the memory of logits
}

// logitsChunk returns how many of rows rows of logits fit in HeadBytes at once, at least one.
func (o Options) logitsChunk(cfg Config, rows int) int {
	row := cfg.Vocab * tensor.F32.Size()
	if o.Train && o.DType != tensor.F32 {
		row += cfg.Vocab * o.DType.Size()
	}
	return max(1, min(rows, o.HeadBytes/row))
}

// headRows returns how many rows the head computes for a chunk of n target rows, which may have at most chunk: see
// Options.PadPasses.
func (m *Model) headRows(n, chunk int) int { return min(chunk, m.opts.Rows(n)) }

func (m *Model) allocHead(arena *kernels.Arena, e extent) (acts headActs) {
	cfg, t, logits := m.cfg, m.opts.DType, e.logits
	rest := e.targets % logits
	targets := e.targets - rest + m.headRows(rest, logits)
	acts.x = arena.New("head x", t, targets, cfg.Dim)
	if e.keep {
		acts.dx = arena.New("head dx", t, targets, cfg.Dim)
	}
	acts.logits = arena.New("logits", tensor.F32, logits, cfg.Vocab)
	if acts.dlogits = acts.logits; e.keep && t != tensor.F32 {
		acts.dlogits = arena.New("dlogits", t, logits, cfg.Vocab)
	}
	return acts
}

// headLoss computes the losses from the last norm's output. If gradient is true, it leaves the gradient of that output
// in p.branch, which the forward pass no longer needs.
func (m *Model) headLoss(p *pass, scale float32, gradient bool) {
	dev, acts, targets := m.dev, p.head, p.index.Len()
	if targets == 0 {
		return
	}
	dev.GatherRows(acts.x.Slice(0, targets), p.last.x, p.index)
	dev.Zero(acts.x.Slice(targets, acts.x.Dim(0)))
	for lo := 0; lo < targets; lo += acts.logits.Dim(0) {
		n := min(acts.logits.Dim(0), targets-lo)
		rows := m.headRows(n, acts.logits.Dim(0))
		x, logits := acts.x.Slice(lo, lo+rows), acts.logits.Slice(0, rows)
		m.head.forward(p, logits, x)
		var dlogits tensor.Tensor
		if gradient {
			dlogits = acts.dlogits.Slice(0, n)
		}
		dev.CrossEntropy(p.loss.Slice(lo, lo+n), dlogits, logits.Slice(0, n), p.targets.Slice(lo, lo+n), scale)
		if gradient {
			dlogits = acts.dlogits.Slice(0, rows)
			dev.Zero(dlogits.Slice(n, rows))
			m.head.backward(p, acts.dx.Slice(lo, lo+rows), false, dlogits, x, p.overwrite && lo == 0)
		}
	}
	if gradient {
		dev.ScatterRows(p.branch, acts.dx.Slice(0, targets), p.index)
	}
}

// Logits calls f with the logits of every position of a batch, in order. The slice is used again for the next
// position.
func (m *Model) Logits(b Batch, f func(position int, logits []float32)) error {
	b.Labels = nil
	p, err := m.newPass(b)
	if err != nil {
		return err
	}
	m.forward(p)
	chunk := p.head.logits.Dim(0)
	host := make([]float32, chunk*m.cfg.Vocab)
	for lo := 0; lo < len(b.IDs); lo += chunk {
		hi := min(lo+chunk, len(b.IDs))
		logits := p.head.logits.Slice(0, hi-lo)
		m.head.forward(p, logits, p.last.x.Slice(lo, hi))
		if err := m.dev.Download(host[:logits.Len()], logits); err != nil {
			return err
		}
		for r := range hi - lo {
			f(lo+r, host[r*m.cfg.Vocab:][:m.cfg.Vocab])
		}
	}
	return nil
}
