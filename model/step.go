package model

import (
	"fmt"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/tensor"
)

// allocPass allocates a pass. MemoryOf runs it with an arena that only counts.
func (m *Model) allocPass(arena *kernels.Arena, e extent) *pass {
	cfg := m.cfg
	t := m.opts.DType
	rows := e.rows
	keep := e.keep
	p := &pass{dev: m.dev, rope: &m.rope, rows: rows, recompute: m.opts.Recompute,
		layers: make([]layerActs, 0, cfg.Layers)}
	p.staged = arena.New("staged", tensor.I32, 5*e.maxTokens+1)
	p.ids, p.positions = p.staged.Part(0, rows), p.staged.Part(e.maxTokens, rows)
	p.index, p.targets = p.staged.Part(2*e.maxTokens, e.targets), p.staged.Part(3*e.maxTokens, e.targets)
	p.loss = arena.New("loss", tensor.F32, e.targets)
	var h []tensor.Tensor // the residual stream before each layer and after the last; without keep, two that alternate
	for i := range cfg.Layers + 1 {
		if !keep && i >= 2 {
			h = append(h, h[i-2])
			continue
		}
		h = append(h, arena.New(fmt.Sprintf("h%d", i), t, rows, cfg.Dim))
	}
	keepAttention := keep && m.opts.Recompute == RecomputeNone
	keepMLP := keep && m.opts.Recompute != RecomputeLayer
	for i := range cfg.Layers {
		var b layerActs
		if i == 0 || keepAttention {
			b.attention = allocAttention(arena, cfg, t, rows)
		} else {
			b.attention = p.layers[0].attention
		}
		b.attention.h = h[i]
		switch first := cfg.firstLike(i); {
		case first < i && !keepMLP:
			b.mlp, b.mixture = p.layers[first].mlp, p.layers[first].mixture
		case cfg.mixed(i):
			b.mixture = allocMixture(arena, cfg, t, rows)
		default:
			b.mlp = allocMLP(arena, cfg, t, rows)
		}
		p.layers = append(p.layers, b)
	}
	p.last = allocNorm(arena, cfg, t, rows, "")
	p.last.h = h[cfg.Layers]
	p.branch = arena.New("branch", t, rows, cfg.Dim)
	p.mixture = allocMixturePass(arena, cfg, t, rows)
	p.lowRank = m.allocLowRank(arena, rows, keep)
	if keep {
		p.dh = arena.New("dh", t, rows, cfg.Dim)
	}
	head := func() { p.head = m.allocHead(arena, e) }
	if !keep {
		head()
		return p
	}
	arena.Overlay( // the head is done before the backward pass of the layers starts
		head,
		func() {
			p.actGrads.dx = arena.New("dx", t, rows, cfg.Dim)
			arena.Overlay( // the halves of a layer never run at the same time
				func() {
					p.actGrads.dgateUp = arena.New("dgateUp", t, rows, cfg.gateUpDim())
					p.mixture.allocGradients(arena, cfg, t, rows)
				},
				func() {
					p.actGrads.dqkv = arena.New("dqkv", t, rows, cfg.qkvDim())
					p.actGrads.dy = arena.New("dy", t, rows, cfg.Heads*cfg.HeadDim)
				})
		})
	return p
}

// newPass checks a batch, allocates a pass and uploads the batch.
func (m *Model) newPass(b Batch) (*pass, error) {
	if err := b.check(m.cfg, m.opts.MaxTokens); err != nil {
		return nil, err
	}
	if err := m.ropeFor(b.longest(), b.longest()); err != nil {
		return nil, err
	}
	m.actArena.Release(0)
	live := len(b.IDs)
	b = b.padded(m.opts.Rows(len(b.IDs)), m.opts.Longest, int32(max(0, m.cfg.PadID)))
	n := len(b.IDs)
	p := m.allocPass(m.actArena, extent{maxTokens: m.opts.MaxTokens, rows: n, targets: b.Targets(),
		logits: m.opts.logitsChunk(m.cfg, n), keep: m.opts.Train})
	p.mixture.live = live
	p.cuSeqlens = slices.Compact(slices.Clone(b.cuSeqlens())) // without empty sequences there are at most MaxTokens+1
	p.offsets = p.staged.Part(4*m.opts.MaxTokens, len(p.cuSeqlens))
	index, targets := b.targets()
	p.stage(b.IDs, b.positions(), index, targets, p.cuSeqlens)
	return p, nil
}

// forward runs all layers and the last norm, and leaves its output in p.last.x.
func (m *Model) forward(p *pass) {
	defer m.dev.Range("forward")()
	if m.opts.ReuseWeights > 0 && m.Before == nil {
		panic("model: ReuseWeights without Before: the weights of other layers share the memory")
	}
	m.tell(Outside)
	m.refreshAdapters()
	m.zeroBalance(p)
	s := m.embed.forward(p, p.layers[0].attention.h)
	for i := range m.layers {
		acts := &p.layers[i]
		m.tell(i)
		s = m.forwardLayer(p, i, s)
		// The norm that a layer starts with has added the branch of the layer before, or the positions' of the embedding.
		if i == 0 {
			m.watch("embed", acts.attention.h)
		} else {
			m.watch(fmt.Sprintf("block.%d", i-1), acts.attention.h)
		}
	}
	m.norm.forward(m.dev, p.last, s)
	m.watch(fmt.Sprintf("block.%d", len(m.layers)-1), p.last.h)
	m.watch("norm", p.last.x)
}

func (m *Model) tell(layer int) {
	if m.Before != nil {
		m.Before(layer)
	}
}

func (p *pass) besideAttention() {
	if p.beside != nil {
		p.beside()
	}
}

// forwardLayer runs layer i.
func (m *Model) forwardLayer(p *pass, i int, s stream) stream {
	acts := &p.layers[i]
	end := m.layerRange(i)
	s = m.layers[i].forward(p, acts, s)
	end()
	m.layers[i].inputs(acts, m.OnInputs)
	if m.OnRouting != nil && m.layers[i].mixture != nil {
		m.OnRouting(i, acts.mixture.logits, acts.mixture.routing)
	}
	return s
}

// backward goes back from dx, the gradient of the last norm's output, through that norm and all layers. For a batch
// without targets it computes nothing, but calls the same functions.
func (m *Model) backward(p *pass, dx tensor.Tensor, g Gradients) {
	defer m.dev.Range("backward")()
	none := p.index.Len() == 0
	if none {
		m.zeroGradients(Outside, g.Overwrite)
	} else {
		m.norm.backwardFirst(m.dev, p.dh, dx, p.last, p.overwrite)
	}
	p.overwrite = g.Overwrite || m.opts.ReuseGradients > 0
	for i := len(m.layers) - 1; i >= 0; i-- {
		layer := &m.layers[i]
		if !layer.below && !layer.trainable() {
			return
		}
		m.tell(i)
		if none {
			p.besideAttention()
			m.zeroGradients(i, p.overwrite)
		} else {
			end := m.layerRange(i)
			layer.backward(p, &p.layers[i])
			end()
		}
		if g.After != nil {
			g.After(i)
		}
	}
	p.overwrite = g.Overwrite
	if !none {
		m.embed.backward(p)
	}
}

func (m *Model) layerRange(i int) (end func()) { return m.dev.Range(fmt.Sprintf("layer %d", i)) }

func (m *Model) watch(name string, h tensor.Tensor) {
	if m.OnHidden != nil {
		m.OnHidden(name, h)
	}
}

// A Loss is the loss of a batch.
type Loss struct {
	// Sum is the sum over all target positions, in nats, and Targets their number. The loss of a step is the sum of the
	// sums of its batches divided by the sum of their targets, never a mean of means.
	Sum     float64
	Targets int
	// Tokens holds the loss of each target position, in order.
	Tokens []float32
	// Auxiliary is a mixture's load-balancing loss, experts · Σ f·P with the share f of tokens that chose an expert and
	// its mean probability P, over all layers together (Fedus et al. 2022): PerToken if all experts are used alike. Only
	// Loss computes it; 0 without a mixture.
	Auxiliary float64
}

// Mean returns the loss per target position, or NaN if there is none.
func (l Loss) Mean() float64 {
	if l.Targets == 0 {
		return math.NaN()
	}
	return l.Sum / float64(l.Targets)
}

// Loss computes the loss of a batch, without gradients.
func (m *Model) Loss(b Batch) (Loss, error) {
	p, err := m.newPass(b)
	if err != nil {
		return Loss{}, err
	}
	m.forward(p)
	m.headLoss(p, 0, false)
	l, err := m.Read(p.losses())
	if err == nil {
		l.Auxiliary, err = m.Auxiliary(p.losses())
	}
	return l, err
}

// Losses holds the losses of a pass on the device. The next pass overwrites them.
type Losses struct {
	Targets int           // number of target positions
	Each    tensor.Tensor // F32 [Targets], in order
	mixture *mixturePass
}

func (p *pass) losses() Losses { return Losses{p.index.Len(), p.loss, &p.mixture} }

// Read waits for losses and downloads them.
func (m *Model) Read(l Losses) (Loss, error) {
	r := Loss{Targets: l.Targets, Tokens: make([]float32, l.Targets)}
	err := m.dev.Download(r.Tokens, l.Each)
	for _, x := range r.Tokens {
		r.Sum += float64(x)
	}
	return r, err
}

// Gradients says how Gradient treats existing gradients, and who is told when new ones are final. The zero value adds.
type Gradients struct {
	// Balance is the factor of a mixture's auxiliary loss, which spreads the tokens over the experts: Gradient
	// differentiates scale · the sum of the losses + Balance · Loss.Auxiliary. A batch without target positions adds
	// neither. Default 0.
	Balance float32
	// Key decides which elements Options.AdapterDropout drops. A run gives each batch another. Default 0.
	Key uint64
	// Overwrite overwrites the gradients, as the first batch of a step should. Otherwise Gradient adds to them.
	Overwrite bool
	// Beside, if not nil, is called before the attention of a layer is queued, forward or backward. What a GPU does
	// during attention costs little: attention has many short thread blocks, and a product one for each multiprocessor,
	// so that the whole product waits for those that are busy.
	Beside func()
	// After, if not nil, is called when the gradients of a layer are final, the last layer first, and at the end with
	// Outside for the parameters that belong to no layer. Layers that the backward pass does not reach are left out.
	After func(layer int)
}

// Gradient computes the losses of a batch and the gradients of scale · their sum, into the Grads of Params. For a step
// of several batches, scale is 1 / the number of target positions of all of them. Gradient does not wait for the
// device. It panics if the model was made without Options.Train.
func (m *Model) Gradient(b Batch, scale float32, g Gradients) (Losses, error) {
	if !m.opts.Train {
		panic("model: Gradient needs Options.Train")
	}
	p, err := m.newPass(b)
	if err != nil {
		return Losses{}, err
	}
	p.overwrite, p.mixture.balance = g.Overwrite, g.Balance
	p.lowRank.rate, p.lowRank.key = m.opts.AdapterDropout, g.Key
	p.beside = g.Beside
	m.forward(p)
	m.headLoss(p, scale, true)
	l := p.losses()
	m.backward(p, p.branch, g)
	if g.After != nil {
		g.After(Outside)
	}
	return l, m.dev.Err()
}
