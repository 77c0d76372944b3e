package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// mlp is the second half of a layer:
//
//	h += Down(SwiGLU(GateUp(Norm(h))))
//
// or, with GELU, h += Down(GELU(Up(Norm(h)))).
type mlp struct {
	norm         norm
	gateUp, down linear // with GELU, gateUp is only up
	gelu         GELU
}

func newMLP(cfg Config, b *builder) (l mlp) {
	names := cfg.names()
	l.gelu = cfg.GELU
	l.norm = b.norm(cfg, names.norm2)
	if cfg.GELU == "" {
		l.gateUp = b.linear(cfg.Dim, cfg.MLPBias, split(names.gateUp, cfg.Inner, cfg.Inner)...)
	} else {
		l.gateUp = b.linear(cfg.Dim, cfg.MLPBias, rows{names.gateUp[len(names.gateUp)-1], cfg.Inner})
	}
	l.down = b.linear(cfg.Inner, cfg.MLPBias, rows{names.down, cfg.Dim})
	return l
}

// gateUpDim returns the number of outputs of gateUp.
func (c Config) gateUpDim() int {
	if c.GELU == "" {
		return 2 * c.Inner
	}
	return c.Inner
}

// mlpActs holds the activations that the backward pass needs.
type mlpActs struct {
	normActs
	gateUp tensor.Tensor // [rows, gateUpDim]
	act    tensor.Tensor // [rows, inner], output of SwiGLU or GELU
}

func allocMLP(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) (acts mlpActs) {
	h := arena.New("mid", t, rows, cfg.Dim)
	acts.normActs = allocNorm(arena, cfg, t, rows, "2")
	acts.h = h
	acts.gateUp = arena.New("gateUp", t, rows, cfg.gateUpDim())
	acts.act = arena.New("act", t, rows, cfg.Inner)
	return acts
}

func (l *mlp) forward(p *pass, all *layerActs, s stream) stream {
	l.activate(p, all, s)
	l.down.forward(p, p.branch, all.mlp.act)
	return stream{all.mlp.h, p.branch}
}

// activate computes forward without its last product. The backward pass does not need the output of that product.
func (l *mlp) activate(p *pass, all *layerActs, s stream) {
	acts := &all.mlp
	l.norm.forward(p.dev, acts.normActs, s)
	if l.gelu != "" {
		l.gateUp.forwardGELU(p, acts.act, acts.gateUp, acts.x, l.gelu)
		return
	}
	l.gateUp.forwardSwiGLU(p, acts.act, acts.gateUp, acts.x)
}

// backward expects the gradient of the half's output in p.dh. If below is true, it replaces that with the gradient of
// the half's input.
func (l *mlp) backward(p *pass, all *layerActs, below bool) {
	g, acts := p.actGrads, &all.mlp
	if l.gelu != "" {
		l.down.backwardGELU(p, g.dgateUp, p.dh, acts.act, acts.gateUp, l.gelu)
	} else {
		l.down.backwardSwiGLU(p, g.dgateUp, p.dh, acts.act, acts.gateUp)
	}
	l.norm.backwardThrough(p, l.gateUp, g.dgateUp, acts.normActs, below)
}

func (l *mlp) trainable() bool {
	return l.norm.trainable() || l.gateUp.trainable() || l.down.trainable()
}

func (l *mlp) flops(below bool) float64 {
	below = below || l.norm.trainable()
	n := l.gateUp.flops(below)
	return n + l.down.flops(below || l.gateUp.trainable())
}
