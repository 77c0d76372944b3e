package model

import "restyle/tensor"

// The embedding is where the residual stream begins: h = embed[ids].
type embedding struct {
	weight // [vocab, dim]
	tied   bool
	pad    int // the row of this id gets no gradient from here; -1 for none
}

func (e embedding) forward(p *pass, h tensor.Tensor) { p.dev.Embedding(h, e.w, p.ids) }

// backward adds p.dh, the gradient of the stream, to the rows that were read.
func (e embedding) backward(p *pass) {
	if !e.trainable() {
		return
	}
	if !e.tied { // a tied head's gradient is there already
		e.zeroIf(p.dev, p.overwrite)
	}
	p.dev.EmbeddingBackward(e.whole(), p.dh, p.ids, e.pad)
}
