package model

import "restyle/tensor"

// embedding starts the residual stream: h = embed[ids].
type embedding struct {
	weight // [vocab, dim]
	tied   bool
	pad    int // this row gets no gradient from here; -1 if there is none
}

func (e embedding) forward(p *pass, h tensor.Tensor) { p.dev.Embedding(h, e.w, p.ids) }

// backward adds p.dh, the gradient of the stream, to the gradients of the rows that forward read.
func (e embedding) backward(p *pass) {
	if !e.trainable() {
		return
	}
	if !e.tied { // if tied, the gradient of the head is already there
		e.zeroIf(p.dev, p.overwrite)
	}
	p.dev.EmbeddingBackward(e.whole(), p.dh, p.ids, e.pad)
}
