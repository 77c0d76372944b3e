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
	index, targets tensor.Tensor // I32 [trained]
	loss           tensor.Tensor // F32 [trained]
	x, dx          tensor.Tensor // [trained, dim] the trained rows of the last norm's output, and their gradient
	logits         tensor.Tensor // F32 [piece, vocab]
	dlogits        tensor.Tensor // [piece, vocab] of the model's type; in F32 it is the logits' own place
}

// piece is how many rows of logits there are at a time.
func (m *Llama) piece(rows int) int {
	row := m.c.Vocab * tensor.F32.Size()
	if m.o.Train && m.o.DType != tensor.F32 {
		row += m.c.Vocab * m.o.DType.Size()
	}
	return max(1, min(rows, m.o.HeadBytes/row))
}

func (m *Llama) cutHead(a *kernels.Arena, rows, trained int) (h headActs) {
	c, t := m.c, m.o.DType
	h.index = a.New("index", tensor.I32, trained)
	h.targets = a.New("targets", tensor.I32, trained)
	h.loss = a.New("loss", tensor.F32, trained)
	h.x = a.New("head x", t, trained, c.Dim)
	if m.o.Train {
		h.dx = a.New("head dx", t, trained, c.Dim)
	}
	h.logits = a.New("logits", tensor.F32, m.piece(rows), c.Vocab)
	if h.dlogits = h.logits; m.o.Train && t != tensor.F32 {
		h.dlogits = a.New("dlogits", t, m.piece(rows), c.Vocab)
	}
	return h
}

// headLoss computes the loss from s.x and, with gradient, leaves the gradient of s.x in s.t.
func (m *Llama) headLoss(b Batch, s *activations, scale float32, gradient bool) (Loss, error) {
	d := m.d
	var index, targets []int32
	b.eachTrained(func(at int, target int32) {
		index = append(index, int32(at))
		targets = append(targets, target)
	})
	l := Loss{Trained: len(index)}
	if l.Trained == 0 {
		return l, d.Sync()
	}
	h := s.head
	d.UploadI32(h.index, index)
	d.UploadI32(h.targets, targets)
	d.GatherRows(h.x, s.x, h.index)
	for lo := 0; lo < l.Trained; lo += h.logits.Dim(0) {
		hi := min(lo+h.logits.Dim(0), l.Trained)
		x, logits := h.x.Slice(lo, hi), h.logits.Slice(0, hi-lo)
		d.Linear(logits, x, m.head.w, tensor.Tensor{})
		var dlogits tensor.Tensor
		if gradient {
			dlogits = h.dlogits.Slice(0, hi-lo)
		}
		d.CrossEntropy(h.loss.Slice(lo, hi), dlogits, logits, h.targets.Slice(lo, hi), scale)
		if gradient {
			d.LinearBackward(h.dx.Slice(lo, hi), m.head.dw, tensor.Tensor{}, dlogits, x, m.head.w)
		}
	}
	if gradient {
		d.ScatterRows(s.t, h.dx, h.index)
	}
	l.Tokens = make([]float32, l.Trained)
	if err := d.Download(l.Tokens, h.loss); err != nil {
		return l, err
	}
	for _, x := range l.Tokens {
		l.Sum += float64(x)
	}
	return l, nil
}

// Logits calls f with the logits of every position of a batch, in order. The slice is used again for the next one.
func (m *Llama) Logits(b Batch, f func(position int, logits []float32)) error {
	b.Labels = nil
	s, err := m.begin(b)
	if err != nil {
		return err
	}
	m.forward(s)
	piece := s.head.logits.Dim(0)
	host := make([]float32, piece*m.c.Vocab)
	for lo := 0; lo < s.rows; lo += piece {
		hi := min(lo+piece, s.rows)
		logits := s.head.logits.Slice(0, hi-lo)
		m.d.Linear(logits, s.x.Slice(lo, hi), m.head.w, tensor.Tensor{})
		if err := m.d.Download(host[:logits.Len()], logits); err != nil {
			return err
		}
		for r := range hi - lo {
			f(lo+r, host[r*m.c.Vocab:][:m.c.Vocab])
		}
	}
	return nil
}
