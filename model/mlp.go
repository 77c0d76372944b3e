package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// mlp is the second half of a layer:
//
//	h += Down(SwiGLU(GateUp(RMSNorm(h))))
type mlp struct {
	norm         norm
	gateUp, down linear
}

func newMLP(cfg Config, b *builder) (l mlp) {
	l.norm = norm{b.norm("post_attention_layernorm", cfg.Dim), cfg.NormEps}
	l.gateUp = b.linear(cfg.Dim, cfg.MLPBias, rows{"mlp.gate_proj", cfg.Inner}, rows{"mlp.up_proj", cfg.Inner})
	l.down = b.linear(cfg.Inner, cfg.MLPBias, rows{"mlp.down_proj", cfg.Dim})
	return l
}

// mlpActs holds the activations that the backward pass needs.
type mlpActs struct {
	normActs
	gateUp tensor.Tensor // [rows, 2·inner]
	act    tensor.Tensor // [rows, inner], output of SwiGLU
}

func allocMLP(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) (acts mlpActs) {
	acts.h = arena.New("mid", t, rows, cfg.Dim)
	acts.rstd = arena.New("rstd2", tensor.F32, rows)
	acts.x = arena.New("x2", t, rows, cfg.Dim)
	acts.gateUp = arena.New("gateUp", t, rows, 2*cfg.Inner)
	acts.act = arena.New("act", t, rows, cfg.Inner)
	return acts
}

func (l *mlp) forward(p *pass, acts *mlpActs, s stream) stream {
	l.activate(p, acts, s)
	l.down.forward(p.dev, p.branch, acts.act)
	return stream{acts.h, p.branch}
}

// activate is forward without its last product. The backward pass does not need the output of that.
func (l *mlp) activate(p *pass, acts *mlpActs, s stream) {
	l.norm.forward(p.dev, acts.normActs, s)
	l.gateUp.forward(p.dev, acts.gateUp, acts.x)
	p.dev.SwiGLU(acts.act, acts.gateUp)
}

// backward expects the gradient of the half's output in p.dh. If below is true, it replaces that with the gradient of
// the half's input.
func (l *mlp) backward(p *pass, acts *mlpActs, below bool) {
	dev, g := p.dev, p.actGrads
	l.down.backward(dev, g.dact, false, p.dh, acts.act, p.overwrite)
	dev.SwiGLUBackward(g.dgateUp, g.dact, acts.gateUp)
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
