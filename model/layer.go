package model

import (
	"fmt"

	"restyle/tensor"
)

// parts are the parts of a model, in the order of their tensors in memory.
type parts struct {
	embed  embedding
	layers []layer
	norm   norm
	head   linear // [vocab, dim]; if tied, the weight is the embedding's
}

func newParts(cfg Config, b *builder, reuse bool) (p parts) {
	b.layer = Outside
	p.embed = newEmbedding(cfg, b)
	below := p.embed.trainable()
	add := func(i int) {
		p.layers = append(p.layers, newLayer(cfg, b, i))
		p.layers[i].below = below
		below = below || p.layers[i].trainable()
	}
	if reuse && b.gradients != nil {
		var each []func()
		for i := range cfg.Layers {
			each = append(each, func() { add(i) })
		}
		b.gradients.Overlay(each...)
	} else {
		for i := range cfg.Layers {
			add(i)
		}
	}
	p.norm = b.norm(cfg, cfg.names().norm)
	if p.head = (linear{weight: p.embed.weight}); !cfg.Tied {
		b.matrices = b.headType
		p.head = b.linear(cfg.Dim, false, rows{"lm_head", cfg.Vocab})
	}
	return p
}

// layer is attention and an MLP. Each starts with a norm, and adds its output to the residual stream.
type layer struct {
	attention attention
	mlp       mlp

	below bool // a parameter before this layer is trainable, so the backward pass must continue past the layer
}

func newLayer(cfg Config, b *builder, i int) layer {
	names := cfg.names()
	b.layer, b.prefix, b.matrices, b.transpose = i, fmt.Sprintf(names.layer, i), b.gradType, names.transposed
	defer func() { b.layer, b.prefix, b.matrices, b.transpose = Outside, "", tensor.F32, false }()
	return layer{attention: newAttention(cfg, b), mlp: newMLP(cfg, b)}
}

func (b *layer) trainable() bool { return b.attention.trainable() || b.mlp.trainable() }

// layerActs holds the activations of a layer that its backward pass needs.
type layerActs struct {
	attention attentionActs
	mlp       mlpActs
}

func (b *layer) forward(p *pass, acts *layerActs, s stream) stream {
	s = b.attention.forward(p, &acts.attention, s)
	return b.mlp.forward(p, &acts.mlp, s)
}

// backward expects the gradient of the layer's output in p.dh and replaces it with the gradient of the layer's input.
func (b *layer) backward(p *pass, acts *layerActs) {
	b.recompute(p, acts)
	below := b.below || b.attention.trainable()
	b.mlp.backward(p, &acts.mlp, below)
	if below {
		b.attention.backward(p, &acts.attention, b.below)
	}
}

// recompute computes from the residual stream which activations the forward pass did not keep.
func (b *layer) recompute(p *pass, acts *layerActs) {
	kept := stream{h: acts.attention.h}
	switch p.recompute {
	case RecomputeAttention:
		b.attention.attend(p, &acts.attention, kept)
	case RecomputeLayer:
		b.mlp.activate(p, &acts.mlp, b.attention.forward(p, &acts.attention, kept))
	}
}

func (b *layer) flops(context float64) float64 {
	below := b.below || b.attention.trainable()
	return b.attention.flops(b.below, context) + b.mlp.flops(below)
}
