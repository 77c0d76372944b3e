package model

import "restyle/tensor"

// embedding starts the residual stream: h = embed[ids], and with learned positions + positions[position].
type embedding struct {
	weight           // [vocab, dim]
	positions weight // [positions, dim]; zero if positions are not learned
	tied      bool
	pad       int // this row of weight gets no gradient from here; -1 if there is none
}

func newEmbedding(cfg Config, b *builder) embedding {
	if cfg.Tied {
		b.products = b.quantization.Head
	}
	table := b.matrices(cfg.Dim, rows{cfg.names().embed, cfg.Vocab})[0].weight
	e := embedding{weight: table, tied: cfg.Tied, pad: cfg.PadID}
	b.products = 0
	if cfg.LearnedPositions {
		e.positions = b.plain(cfg.Dim, rows{cfg.names().positions, cfg.MaxPositions})
	}
	return e
}

// forward reads the rows of the tokens into h. The rows of the positions become a branch, which the first norm adds.
func (e embedding) forward(p *pass, h tensor.Tensor) stream {
	p.dev.Embedding(h, e.w, p.ids)
	if !e.positions.w.Ok() {
		return stream{h: h}
	}
	p.dev.Embedding(p.branch, e.positions.w, p.positions)
	return stream{h, p.branch}
}

// backward adds p.dh, the gradient of the stream, to the gradients of the rows that forward read.
func (e embedding) backward(p *pass) {
	if e.weight.trainable() {
		if !e.tied { // if tied, the gradient of the head is already there
			e.zeroIf(p.dev, p.overwrite)
		}
		p.dev.EmbeddingBackward(e.whole(), p.dh, p.ids, e.pad)
	}
	if e.positions.trainable() {
		e.positions.zeroIf(p.dev, p.overwrite)
		p.dev.EmbeddingBackward(e.positions.whole(), p.dh, p.positions, -1)
	}
}

func (e embedding) trainable() bool { return e.weight.trainable() || e.positions.trainable() }
