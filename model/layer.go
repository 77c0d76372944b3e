package model

import (
	"fmt"

	"restyle/tensor"
)

// parts are what a model is made of, in the order of their tensors.
type parts struct {
	embed  embedding
	blocks []block
	norm   norm
	head   linear // [vocab, dim]; the embedding itself where they are tied
}

func newParts(c Config, b *builder, reuse bool) (p parts) {
	b.block = Outside
	p.embed = embedding{b.linear(c.Dim, false, rows{"model.embed_tokens", c.Vocab}).weight, c.Tied, c.PadID}
	below := p.embed.trained()
	block := func(i int) {
		p.blocks = append(p.blocks, newBlock(c, b, i))
		p.blocks[i].below = below
		below = below || p.blocks[i].trained()
	}
	if reuse && b.gradients != nil {
		var each []func()
		for i := range c.Layers {
			each = append(each, func() { block(i) })
		}
		b.gradients.Overlay(each...)
	} else {
		for i := range c.Layers {
			block(i)
		}
	}
	p.norm = norm{b.norm("model.norm", c.Dim), c.NormEps}
	if p.head = (linear{weight: p.embed.weight}); !c.Tied {
		b.matrices = b.headType
		p.head = b.linear(c.Dim, false, rows{"lm_head", c.Vocab})
	}
	return p
}

// A block is one layer: attention and an MLP, each behind a norm, each adding to the residual stream.
type block struct {
	attention attention
	mlp       mlp

	below bool // something below this block is trained, so that its backward pass must go on to there
}

func newBlock(c Config, b *builder, i int) block {
	b.block, b.prefix, b.matrices = i, fmt.Sprintf("model.layers.%d.", i), b.gradType
	defer func() { b.block, b.prefix, b.matrices = Outside, "", tensor.F32 }()
	return block{attention: newAttention(c, b), mlp: newMLP(c, b)}
}

func (b *block) trained() bool { return b.attention.trained() || b.mlp.trained() }

// acts are what a block's backward pass reads of its forward pass.
type acts struct {
	attention attentionActs
	mlp       mlpActs
}

func (b *block) forward(p *pass, a *acts, s stream) stream {
	s = b.attention.forward(p, &a.attention, s)
	return b.mlp.forward(p, &a.mlp, s)
}

// backward takes in p.dh the gradient of the block's output and leaves there the one of its input.
func (b *block) backward(p *pass, a *acts) {
	b.recompute(p, a)
	below := b.below || b.attention.trained()
	b.mlp.backward(p, &a.mlp, below)
	if below {
		b.attention.backward(p, &a.attention, b.below)
	}
}

// recompute brings back what the forward pass did not keep, from the residual stream that it kept.
func (b *block) recompute(p *pass, a *acts) {
	kept := stream{h: a.attention.h}
	switch p.recompute {
	case RecomputeAttention:
		b.attention.attend(p, &a.attention, kept)
	case RecomputeLayer:
		b.mlp.activate(p, &a.mlp, b.attention.forward(p, &a.attention, kept))
	}
}

func (b *block) flops(context float64) float64 {
	below := b.below || b.attention.trained()
	return b.attention.flops(b.below, context) + b.mlp.flops(below)
}
