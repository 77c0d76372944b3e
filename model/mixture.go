package model

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// Mixture describes layers whose MLP is a mixture of experts (Shazeer et al. 2017; Jiang et al. 2024): each token goes
// through a few of many MLPs, which a router chooses.
type Mixture struct {
	Experts    int   // of a layer
	PerToken   int   // experts that a token goes through
	Inner      int   // width inside an expert
	Normalized bool  // the weights of a token's experts are divided by their sum
	Dense      []int // layers that have an ordinary MLP instead, ascending
	// Balance is the factor that training gives the auxiliary loss if nothing else is said: see Gradients.
	Balance float64
}

// maxExperts is the maximum number of experts of a layer. All of them together are at most maxWidth wide.
const maxExperts = 1 << 10

// validate reports the first field that no model could have.
func (m Mixture) validate(layers int) error {
	for _, size := range []struct {
		name       string
		value, max int
	}{
		{"number of experts", m.Experts, maxExperts}, {"num_experts_per_tok", m.PerToken, m.Experts},
		{"width of an expert", m.Inner, maxWidth / max(1, m.Experts)},
	} {
		if size.value < 1 || size.value > size.max {
			return fmt.Errorf("%s %d: must be 1 to %d", size.name, size.value, size.max)
		}
	}
	for i, layer := range m.Dense {
		if layer < 0 || layer >= layers || i > 0 && layer <= m.Dense[i-1] {
			return fmt.Errorf("layers with an ordinary MLP %v: must be ascending and below %d", m.Dense, layers)
		}
	}
	return nil
}

// mixed reports whether layer i has a mixture of experts.
func (c Config) mixed(i int) bool {
	if c.Mixture == nil {
		return false
	}
	for _, dense := range c.Mixture.Dense {
		if i == dense {
			return false
		}
	}
	return true
}

// firstLike returns the first layer of the same kind as layer i.
func (c Config) firstLike(i int) int {
	for j := range i {
		if c.mixed(j) == c.mixed(i) {
			return j
		}
	}
	return i
}

// pairs returns how many pairs of a token and one of its experts rows tokens are; 0 without a mixture.
func (c Config) pairs(rows int) int {
	if c.Mixture == nil {
		return 0
	}
	return rows * c.Mixture.PerToken
}

// mixture is the second half of a layer with experts. With x = Norm(h) and each token's experts E and weights w from
// Route(Router(x)):
//
//	h += Σ_{e∈E} w_e · Down_e(SwiGLU(GateUp_e(x)))
type mixture struct {
	norm         norm
	router       linear // [experts, dim]
	gateUp, down linear // of all experts, one below the other: [experts·2·inner, dim] and [experts·dim, inner]
	spec         Mixture
}

func newMixture(cfg Config, b *builder) *mixture {
	names, m := cfg.names(), *cfg.Mixture
	l := &mixture{spec: m, norm: b.norm(cfg, names.norm2)}
	// A choice of experts must not depend on how weights are rounded.
	l.router = linearOf(b.plain(cfg.Dim, rows{names.router, m.Experts}))
	b.refuseAdapters(rows{names.router, m.Experts})
	var gateUp, down []rows
	for e := range m.Experts {
		of := func(name string) string { return fmt.Sprintf(names.expert, e) + name }
		gateUp = append(gateUp, rows{of(names.expertGateUp[0]), m.Inner}, rows{of(names.expertGateUp[1]), m.Inner})
		down = append(down, rows{of(names.expertDown), cfg.Dim})
	}
	l.gateUp = b.unadapted(cfg.Dim, false, gateUp...)
	l.down = b.unadapted(m.Inner, false, down...)
	b.refuseAdapters(append(gateUp, down...)...)
	return l
}

// mixtureActs holds the activations that the backward pass needs.
type mixtureActs struct {
	normActs
	logits  tensor.Tensor // [rows, experts] F32, of the router
	routing kernels.Routing
	gateUp  tensor.Tensor // [pairs, 2·inner]
	act     tensor.Tensor // [pairs, inner], output of SwiGLU
}

func allocMixture(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) (acts mixtureActs) {
	m, pairs := cfg.Mixture, cfg.pairs(rows)
	h := arena.New("mid", t, rows, cfg.Dim)
	acts.normActs = allocNorm(arena, cfg, t, rows, "2")
	acts.h = h
	acts.logits = arena.New("router", tensor.F32, rows, m.Experts)
	acts.routing = kernels.NewRouting(arena, rows, m.PerToken, m.Experts)
	acts.gateUp = arena.New("gateUp", t, pairs, 2*m.Inner)
	acts.act = arena.New("act", t, pairs, m.Inner)
	return acts
}

// mixturePass is what the mixtures of all layers of a pass share.
type mixturePass struct {
	pairs   tensor.Tensor // [pairs, dim], inputs or outputs of the experts, or the gradients of these
	sums    tensor.Tensor // [2, experts] F32, of kernels.Balance
	live    int           // rows that are no padding
	layers  int           // that have a mixture
	balance float32       // factor of the load-balancing loss in the gradient

	// gradients of activations
	dgateUp, dact tensor.Tensor
	dweights      tensor.Tensor // [rows, perToken] F32
	dlogits       tensor.Tensor // [rows, experts]
}

// allocMixturePass allocates what a pass without a backward pass needs.
func allocMixturePass(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) (p mixturePass) {
	if cfg.Mixture == nil {
		return p
	}
	p.live, p.layers = rows, cfg.Layers-len(cfg.Mixture.Dense)
	p.pairs = arena.New("pairs", t, cfg.pairs(rows), cfg.Dim)
	p.sums = arena.New("balance", tensor.F32, 2, cfg.Mixture.Experts)
	return p
}

// allocGradients allocates the gradients of activations.
func (p *mixturePass) allocGradients(arena *kernels.Arena, cfg Config, t tensor.DType, rows int) {
	if m := cfg.Mixture; m != nil {
		p.dgateUp = arena.New("expert dgateUp", t, cfg.pairs(rows), 2*m.Inner)
		p.dact = arena.New("expert dact", t, cfg.pairs(rows), m.Inner)
		p.dweights = arena.New("dweights", tensor.F32, rows, m.PerToken)
		p.dlogits = arena.New("router dlogits", t, rows, m.Experts)
	}
}

func (l *mixture) forward(p *pass, acts *layerActs, s stream) stream {
	l.activate(p, acts, s)
	a := &acts.mixture
	if p.cache == nil && p.paged == nil { // otherwise there is no loss
		p.dev.AddBalance(kernels.Balance{Sums: p.mixture.sums, Rows: p.mixture.live}, a.routing, a.logits)
	}
	l.combine(p, acts)
	return stream{a.h, p.branch}
}

// combine computes the last product of the experts, and stores their weighted sum in p.branch.
func (l *mixture) combine(p *pass, acts *layerActs) {
	a, r := &acts.mixture, acts.mixture.routing
	l.down.forwardGrouped(p.dev, p.mixture.pairs, a.act, r.Offsets, p.rows)
	p.dev.Combine(p.branch, p.mixture.pairs, r, true)
}

// activate computes forward without its last product. The backward pass does not need the output of that product.
func (l *mixture) activate(p *pass, acts *layerActs, s stream) {
	a := &acts.mixture
	l.norm.forward(p.dev, a.normActs, s)
	l.router.forward(p, a.logits, a.x)
	p.dev.Route(a.routing, a.logits, l.spec.Normalized)
	p.dev.GatherRows(p.mixture.pairs, a.x, a.routing.Rows)
	keep := p.dh.Ok() // a backward pass follows
	l.gateUp.forwardGroupedSwiGLU(p.dev, a.act, a.gateUp, p.mixture.pairs, a.routing.Offsets, p.rows, keep)
}

// backward expects the gradient of the half's output in p.dh. If below is true, it replaces that with the gradient of
// the half's input.
func (l *mixture) backward(p *pass, acts *layerActs, below bool) {
	dev, a, m := p.dev, &acts.mixture, &p.mixture
	r, pairs := a.routing, m.pairs
	dev.GatherRows(pairs, p.dh, r.Rows)
	l.down.inputGradientGrouped(dev, m.dact, pairs, r.Offsets, p.rows)
	dev.WeighPairs(m.dweights, m.dact, a.act, r)
	l.down.gradientsGrouped(dev, pairs, a.act, r.Offsets, p.overwrite)
	dev.SwiGLUBackward(m.dgateUp, m.dact, a.gateUp)
	if l.gateUp.trainable() {
		dev.GatherRows(pairs, a.x, r.Rows)
		l.gateUp.gradientsGrouped(dev, m.dgateUp, pairs, r.Offsets, p.overwrite)
	}
	dx := l.norm.outputGradient(p, below)
	if !dx.Ok() && !l.router.trainable() {
		return
	}
	dev.RouteBackward(m.dlogits, m.dweights, r, a.logits, l.spec.Normalized, m.balanceOf())
	if dx.Ok() {
		l.gateUp.inputGradientGrouped(dev, pairs, m.dgateUp, r.Offsets, p.rows)
		dev.Combine(dx, pairs, r, false)
	}
	l.router.backward(p, dx, true, m.dlogits, a.x, p.overwrite)
	l.norm.backward(p, dx, a.normActs)
}

// zeroBalance sets to zero what the mixtures of a pass add to.
func (m *Model) zeroBalance(p *pass) {
	if m.cfg.Mixture != nil {
		m.dev.Zero(p.mixture.sums)
	}
}

// balanceOf returns the balance for the backward pass. The auxiliary loss is experts · Σ f·P (Fedus et al. 2022), with
// the share f of tokens that chose an expert and its mean probability P, over n = live·layers tokens of all layers: its
// gradient equals the gradient of experts/n² · Σ counts · Σ p.
func (p *mixturePass) balanceOf() kernels.Balance {
	if p.balance == 0 {
		return kernels.Balance{}
	}
	n := float32(p.live) * float32(p.layers)
	return kernels.Balance{Sums: p.sums, Rows: p.live, Scale: p.balance * float32(p.sums.Dim(1)) / n / n}
}

// Auxiliary waits for a pass and returns the mixture's load-balancing loss, as in Loss. It is 0 without a mixture. The
// next pass overwrites what Auxiliary reads.
func (m *Model) Auxiliary(l Losses) (loss float64, err error) {
	if m.cfg.Mixture == nil {
		return 0, nil
	}
	p := l.mixture
	sums := make([]float32, p.sums.Len())
	if err := m.dev.Download(sums, p.sums); err != nil {
		return 0, err
	}
	experts := len(sums) / 2
	n := float64(p.live) * float64(p.layers)
	for e := range experts {
		loss += float64(sums[e]) / n * float64(sums[experts+e]) / n
	}
	return loss * float64(experts), nil
}

func (l *mixture) trainable() bool {
	return l.norm.trainable() || l.router.trainable() || l.gateUp.trainable() || l.down.trainable()
}

func (l *mixture) flops(below bool) float64 {
	below = below || l.norm.trainable()
	share := float64(l.spec.PerToken) / float64(l.spec.Experts)
	return l.router.flops(below) + share*(l.gateUp.flops(below)+l.down.flops(below || l.gateUp.trainable()))
}
