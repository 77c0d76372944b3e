package model

import (
	"fmt"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// parts are the parts of a model, in the order of their tensors in memory.
type parts struct {
	embed  embedding
	layers []layer
	norm   norm
	head   linear // [vocab, dim]; if tied, the weight is the embedding's
}

func newParts(cfg Config, b *builder, o Options) (p parts) {
	b.layer = Outside
	p.embed = newEmbedding(cfg, b)
	below := p.embed.trainable()
	var each []func()
	for i := range cfg.Layers {
		each = append(each, func() {
			p.layers = append(p.layers, newLayer(cfg, b, i))
			p.layers[i].below = below
			below = below || p.layers[i].trainable()
		})
	}
	b.overlay(cfg, each, o)
	p.norm = b.norm(cfg, cfg.names().norm)
	const head = "lm_head"
	if p.head = linearOf(p.embed.weight); !cfg.Tied {
		b.matrixGrads, b.products = b.headType, b.quantization.Head
		p.head = b.linear(cfg.Dim, false, rows{head, cfg.Vocab})
	} else {
		b.refuseAdapters(rows{name: head})
	}
	b.refuseAdapters(rows{name: cfg.names().embed})
	b.factors, b.arriving = b.factorMemory(), b.arrivals()
	return p
}

// overlay builds layers. Layers that reuse the memory of others start at the same places, even if some are smaller, so
// that no layer has memory in common with the next one.
func (b *builder) overlay(cfg Config, each []func(), o Options) {
	adjacent, largest := len(each), 0 // bytes of weights
	var arenas []*kernels.Arena
	if o.ReuseGradients > 0 && b.gradients != nil {
		arenas, adjacent = append(arenas, b.gradients), o.ReuseGradients
	}
	if o.ReuseWeights > 0 {
		arenas, adjacent = append(arenas, b.weights), o.ReuseWeights
		for i := range each {
			largest = max(largest, kernels.SizeOf(func(arena *kernels.Arena) {
				one := *b
				one.weights, one.gradients = arena, nil
				newLayer(cfg, &one, i)
			}))
		}
	}
	var groups []func()
	for group := range slices.Chunk(each, max(1, adjacent)) {
		groups = append(groups, func() {
			for i, add := range group {
				first := b.weights.Mark()
				add()
				if n := first + largest - b.weights.Mark(); n > 0 && i < len(group)-1 {
					b.weights.New("room for a larger layer", tensor.U8, n)
				}
			}
		})
	}
	kernels.Overlay(arenas, groups...)
}

// layer is attention and an MLP. Each starts with a norm, and adds its output to the residual stream.
type layer struct {
	attention attention
	mlp       mlp
	mixture   *mixture // instead of mlp, if it is not nil

	below bool // a parameter before this layer is trainable, so the backward pass must continue past the layer
}

func newLayer(cfg Config, b *builder, i int) layer {
	names := cfg.names()
	b.layer = i
	b.prefix = fmt.Sprintf(names.layer, i)
	b.matrixGrads = b.gradType
	b.transpose = names.transposed
	b.products = b.quantization.Layers
	defer func() {
		b.layer = Outside
		b.prefix = ""
		b.matrixGrads = tensor.F32
		b.transpose = false
		b.products = 0
	}()
	l := layer{attention: newAttention(cfg, b)}
	if cfg.mixed(i) {
		l.mixture = newMixture(cfg, b)
	} else {
		l.mlp = newMLP(cfg, b)
	}
	return l
}

// feedForward is the second half of a layer: an MLP or a mixture of experts.
type feedForward interface {
	forward(p *pass, acts *layerActs, s stream) stream
	activate(p *pass, acts *layerActs, s stream)
	first() linear
	decode(p *pass, acts *layerActs, h tensor.Tensor)
	backward(p *pass, acts *layerActs, below bool)
	trainable() bool
	flops(below bool) float64
}

func (b *layer) feedForward() feedForward {
	if b.mixture != nil {
		return b.mixture
	}
	return &b.mlp
}

func (b *layer) trainable() bool { return b.attention.trainable() || b.feedForward().trainable() }

// layerActs holds the activations of a layer that its backward pass needs.
type layerActs struct {
	attention attentionActs
	mlp       mlpActs
	mixture   mixtureActs // instead of mlp, in a layer with a mixture
}

func (b *layer) forward(p *pass, acts *layerActs, s stream) stream {
	s = b.attention.forward(p, &acts.attention, s)
	return b.feedForward().forward(p, acts, s)
}

// backward expects the gradient of the layer's output in p.dh and replaces it with the gradient of the layer's input.
func (b *layer) backward(p *pass, acts *layerActs) {
	b.recompute(p, acts)
	below := b.below || b.attention.trainable()
	b.feedForward().backward(p, acts, below)
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
		b.feedForward().activate(p, acts, b.attention.forward(p, &acts.attention, kept))
	}
}

func (b *layer) flops(context float64) float64 {
	below := b.below || b.attention.trainable()
	return b.attention.flops(b.below, context) + b.feedForward().flops(below)
}

// inputs calls f, unless it is nil, with the weights of the layer's products and their inputs.
func (b *layer) inputs(acts *layerActs, f func(w, x tensor.Tensor)) {
	if f == nil {
		return
	}
	b.attention.qkv.input(f, acts.attention.x)
	b.attention.o.input(f, acts.attention.y)
	if b.mixture == nil {
		b.mlp.gateUp.input(f, acts.mlp.x)
		b.mlp.down.input(f, acts.mlp.act)
	}
}
