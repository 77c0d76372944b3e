package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// mlp is a block's second half:
//
//	h += Down(SwiGLU(GateUp(RMSNorm(h))))
type mlp struct {
	norm         norm
	gateUp, down linear
}

func newMLP(c Config, b *builder) (l mlp) {
	l.norm = norm{b.norm("post_attention_layernorm", c.Dim), c.NormEps}
	l.gateUp = b.linear(c.Dim, c.MLPBias, rows{"mlp.gate_proj", c.Inner}, rows{"mlp.up_proj", c.Inner})
	l.down = b.linear(c.Inner, c.MLPBias, rows{"mlp.down_proj", c.Dim})
	return l
}

// mlpActs are what the backward pass reads of the forward pass.
type mlpActs struct {
	normActs
	gateUp tensor.Tensor // [rows, 2·inner]
	act    tensor.Tensor // [rows, inner] SwiGLU
}

func cutMLP(a *kernels.Arena, c Config, t tensor.DType, rows int) (s mlpActs) {
	s.h = a.New("mid", t, rows, c.Dim)
	s.rstd = a.New("rstd2", tensor.F32, rows)
	s.x = a.New("x2", t, rows, c.Dim)
	s.gateUp = a.New("gateUp", t, rows, 2*c.Inner)
	s.act = a.New("act", t, rows, c.Inner)
	return s
}

func (l *mlp) forward(p *pass, a *mlpActs, s stream) stream {
	l.activate(p, a, s)
	l.down.forward(p.d, p.branch, a.act)
	return stream{a.h, p.branch}
}

// activate is all of forward but its last product, which nothing in the backward pass needs.
func (l *mlp) activate(p *pass, a *mlpActs, s stream) {
	l.norm.forward(p.d, a.normActs, s)
	l.gateUp.forward(p.d, a.gateUp, a.x)
	p.d.SwiGLU(a.act, a.gateUp)
}

// backward takes in p.dh the gradient of the half's output and leaves there that of its input, if below says that it is wanted.
func (l *mlp) backward(p *pass, a *mlpActs, below bool) {
	d, g := p.d, p.grads
	l.down.backward(d, g.dact, false, p.dh, a.act, p.overwrite)
	d.SwiGLUBackward(g.dgateUp, g.dact, a.gateUp)
	l.norm.backwardThrough(p, l.gateUp, g.dgateUp, a.normActs, below)
}

func (l *mlp) trained() bool { return l.norm.trained() || l.gateUp.trained() || l.down.trained() }

func (l *mlp) flops(below bool) float64 {
	below = below || l.norm.trained()
	n := l.gateUp.flops(below)
	return n + l.down.flops(below || l.gateUp.trained())
}
