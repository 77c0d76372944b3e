package model

import (
	"cmp"
	"fmt"
	"strings"

	"restyle/kernels"
	"restyle/tensor"
)

// An adapter is the low-rank part of a linear layer (Hu et al. 2021). With a factor a of shape [rank, in] and b of
// [out, rank] for some of the layer's parts, such as q and v, and u = x aᵀ:
//
//	y = x Wᵀ + s u bᵀ
//	v = s dy b          dx = dy W + v a
//	db = s dyᵀ u        da = vᵀ x
//
// With dropout, the x of each part is a Dropout(x) of its own, as in PEFT, and its part of dx goes back through that.
//
// The parameters are F32. Products use copies of them in the model's type, made at the start of a pass: the a of all
// parts one below the other, so that x is read once, and the s·b of each part next to the others' and zero elsewhere,
// so that all of y is one product. The backward pass computes u again if it recomputes anything, or with dropout.
type adapter struct {
	a, b  tensor.Tensor // the copies, [rank, in] and [out, rank]
	whole tensor.Tensor // F32 [rank, in], the parameters a of all parts
	da    tensor.Tensor // of whole; the zero Tensor if nothing trains
	parts []adapterPart
	room  // of adapters of others, which has only a and b

	number int // among the model's adapters
}

// An adapterPart is the adapter of one of a layer's parts: some of its outputs, and some of the columns of u.
type adapterPart struct {
	b, db               tensor.Tensor // F32 [outputs, rank]
	from, column, width int           // width: of its columns, padded
	scale               float32
	number              uint64 // among the model's parameters
}

// The names of an adapter's parameters end in these, after the layer's name, as PEFT's do.
const factorA, factorB = ".lora_A.weight", ".lora_B.weight"

func (p Param) factorA() bool { return strings.HasSuffix(p.Name, factorA) }

// rankUnit is what the columns of each part are padded to: 16 bytes of BF16, for the kernels of a GPU.
const rankUnit = 8

// adapter builds the adapters of a layer's parts, or nil if none has one.
func (b *builder) adapter(in int, parts []rows) *adapter {
	if b.room > 0 && b.layer != Outside {
		return b.roomy(in, parts)
	}
	if b.adapters == nil {
		return nil
	}
	var a adapter
	ranks, width, out := make([]int, len(parts)), 0, 0
	for i, r := range parts {
		rank, scale, ok := b.adapters(b.prefix + r.name)
		if ok {
			ranks[i] = rank
			padded := (rank + rankUnit - 1) / rankUnit * rankUnit
			a.parts = append(a.parts, adapterPart{from: out, column: width, width: padded, scale: float32(scale)})
			width += padded
		}
		out += r.n
	}
	if a.parts == nil {
		return nil
	}
	train := b.gradients != nil
	a.whole = b.weights.New("adapters' a", tensor.F32, width, in)
	if train {
		a.da = b.gradients.New("grad adapters' a", tensor.F32, width, in)
	}
	next := 0
	for i, r := range parts {
		if ranks[i] == 0 {
			continue
		}
		part := &a.parts[next]
		part.number = uint64(len(b.params))
		next++
		param := func(name string, w, grad tensor.Tensor) {
			w.Name = b.prefix + r.name + name
			if train {
				grad.Name = "grad " + w.Name
			}
			b.params = append(b.params, Param{Name: w.Name, W: w, Grad: grad, Layer: b.layer, Decay: true, Adapter: true})
		}
		part.b = b.weights.New("adapter's b", tensor.F32, r.n, ranks[i])
		rows := [2]int{part.column, part.column + ranks[i]}
		var da tensor.Tensor
		if train {
			part.db = b.gradients.New("grad adapter's b", tensor.F32, r.n, ranks[i])
			da = a.da.Slice(rows[0], rows[1])
		}
		param(factorA, a.whole.Slice(rows[0], rows[1]), da)
		param(factorB, part.b, part.db)
	}
	if a.a = a.whole; b.dtype != tensor.F32 {
		a.a = b.weights.New("adapters' a", b.dtype, width, in)
	}
	a.b = b.weights.New("adapters' b", b.dtype, out, width)
	a.number = len(b.built)
	b.built = append(b.built, &a)
	return &a
}

// refuseAdapters notes the parts that would have adapters but cannot.
func (b *builder) refuseAdapters(parts ...rows) {
	for _, r := range parts {
		if b.adapters == nil {
			return
		}
		if _, _, ok := b.adapters(b.prefix + r.name); ok {
			b.refused = append(b.refused, b.prefix+r.name)
		}
	}
}

// CheckOptions returns an error if a model of this configuration cannot be made with opts: if an adapter is for
// a module that cannot have one, or a quantized weight is to be trained or cannot be quantized so. It names them.
func CheckOptions(cfg Config, opts Options) error {
	opts, err := opts.withDefaults(cfg)
	if err != nil {
		return err
	}
	var refused, trained []string
	var unsuited error // of Quantization
	adapters, quantizedExperts := 0, false
	opts.count(cfg, func(model parts, b *builder) {
		refused, adapters = b.refused, len(b.built)
		unsuited = opts.Quantization.checkNames(b.codable)
		for _, l := range model.layers {
			if m := l.mixture; m != nil {
				unsuited = cmp.Or(unsuited, m.gateUp.oneType(), m.down.oneType())
				quantizedExperts = quantizedExperts || m.gateUp.quantized() || m.down.quantized()
			}
		}
		for _, p := range b.params {
			if p.Trainable() && p.W.DType.Quantized() {
				trained = append(trained, p.Name)
			}
		}
	})
	switch {
	case unsuited != nil:
		return unsuited
	case refused != nil:
		return fmt.Errorf("adapters of %s: only linear layers of attention and of ordinary MLPs, and an untied head, may "+
			"have one: choose only such, as targets=q_proj+k_proj+v_proj+o_proj does", abridged(refused))
	case opts.Adapter != nil && adapters == 0:
		return fmt.Errorf("adapters: none of the model's linear layers is to have one")
	case opts.Train && quantizedExperts:
		return fmt.Errorf("quantized weights of experts have no backward pass: use a mixture in 16 bits")
	case trained != nil:
		return fmt.Errorf("quantized weights have no gradients: %s cannot be trained", abridged(trained))
	}
	return nil
}

// abridged lists the first of some names, and how many more there are.
func abridged(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

// zero sets what no parameter covers to zero, once.
func (a *adapter) zero(dev *kernels.Device) {
	dev.Zero(a.a)
	dev.Zero(a.b)
	if a.columns > 0 {
		return
	}
	dev.Zero(a.whole)
	if a.da.Ok() {
		dev.Zero(a.da)
	}
}

// factors lists what the factors that products use are made of.
func (a *adapter) factors() (list []kernels.Factor) {
	if a.whole.Ok() && a.a.DType != tensor.F32 {
		list = append(list, kernels.Factor{W: a.a, X: a.whole, Scale: 1})
	}
	for _, p := range a.parts {
		list = append(list, kernels.Factor{W: a.b.Slice(p.from, p.from+p.b.Dim(0)), X: p.b, Column: p.column, Scale: p.scale})
	}
	return list
}

// factorMemory allocates what a list of all adapters' factors takes.
func (b *builder) factorMemory() (memory tensor.Tensor) {
	n := 0
	for _, a := range b.built {
		n += len(a.factors())
	}
	if n > 0 {
		memory = b.weights.New("adapters' factors", tensor.U8, kernels.FactorListSize(n))
	}
	return memory
}

// listFactors makes the list that refreshAdapters goes through.
func (m *Model) listFactors(memory tensor.Tensor) {
	var all []kernels.Factor
	for _, a := range m.adapters {
		a.zero(m.dev)
		all = append(all, a.factors()...)
	}
	if all != nil {
		m.factors = m.dev.NewFactorList(memory, all)
	}
}

// refreshAdapters brings the factors that products use up to date: always in training, otherwise once, as parameters do
// not change after they are loaded.
func (m *Model) refreshAdapters() {
	if m.factors != nil && (m.opts.Train || !m.fresh) {
		m.dev.PairFactors(m.factors)
		m.fresh = true
	}
}

// lowRank is the memory for u and v of one layer, which the next reuses, and the pass's dropout.
type lowRank struct {
	u, v tensor.Tensor
	kept []tensor.Tensor // u of each adapter, in place of the one for all; nil if the backward pass computes it again
	x    tensor.Tensor   // [rows · widest input] what dropout leaves of an input, or of its gradient
	rate float64         // of dropout: Options.AdapterDropout in a pass of Gradient, otherwise 0
	key  uint64

	columns tensor.Tensor // I32 [rows, 2] of each row's adapter in the room; the zero Tensor: no row has one
}

// allocLowRank allocates room for the widest of a model's adapters.
func (m *Model) allocLowRank(arena *kernels.Arena, rows int, keep bool) (l lowRank) {
	width, in := 0, 0
	for _, a := range m.adapters {
		width, in = max(width, a.a.Dim(0)), max(in, a.a.Dim(1))
	}
	if width == 0 {
		return l
	}
	if keep && m.opts.Recompute == RecomputeNone && m.opts.AdapterDropout == 0 {
		for _, a := range m.adapters {
			l.kept = append(l.kept, arena.New("adapter's u", m.opts.DType, rows, a.a.Dim(0)))
		}
	} else {
		l.u = arena.New("adapter's u", m.opts.DType, rows, width)
	}
	if keep {
		l.v = arena.New("adapter's v", m.opts.DType, rows, width)
		if m.opts.AdapterDropout > 0 {
			l.x = arena.New("adapter's x", m.opts.DType, rows, in)
		}
	}
	return l
}

// idle reports whether the adapter adds nothing in a pass.
func (a *adapter) idle(p *pass) bool { return a == nil || a.columns > 0 && !p.lowRank.columns.Ok() }

// pair computes u of the layer's input x, and returns what is added to the layer's product: nothing if a is idle.
func (a *adapter) pair(p *pass, x tensor.Tensor) []kernels.Pair {
	if a.idle(p) {
		return nil
	}
	u := a.u(p, x.Rows())
	a.inputs(p, x, func(lo, hi int, x tensor.Tensor) {
		p.dev.LinearPart(u, x, a.a.Slice(lo, hi), tensor.Tensor{}, lo)
	})
	if a.columns > 0 {
		p.dev.KeepColumns(u, u, p.lowRank.columns, a.columns)
	}
	return []kernels.Pair{{X: u, W: a.b}}
}

// inputs calls f for ranges of u's columns with the input that they are computed from: the layer's input x for all, or
// with dropout what that leaves of x for each part, in memory that the next part reuses.
func (a *adapter) inputs(p *pass, x tensor.Tensor, f func(lo, hi int, x tensor.Tensor)) {
	if p.lowRank.rate == 0 {
		f(0, a.a.Dim(0), x)
		return
	}
	for _, part := range a.parts {
		y := p.lowRank.x.Part(0, x.Rows(), x.Dim(-1))
		p.dev.Dropout(y, x, p.lowRank.rate, part.key(p))
		f(part.column, part.column+part.width, y)
	}
}

// u returns the memory of u for some rows.
func (a *adapter) u(p *pass, rows int) tensor.Tensor {
	if p.lowRank.kept != nil {
		return p.lowRank.kept[a.number].Slice(0, rows)
	}
	return p.lowRank.u.Part(0, rows, a.a.Dim(0))
}

// key returns a different key for each part and batch.
func (part adapterPart) key(p *pass) uint64 { return kernels.Mix64(p.lowRank.key + part.number) }

// drops reports whether the adapter's gradient goes back through dropout, and so cannot be a second pair of the
// layer's product.
func (a *adapter) drops(p *pass) bool { return a != nil && a.da.Ok() && p.lowRank.rate > 0 }

// backThrough computes the gradient of x through dropout, v a of each part with the elements of x that it dropped 0,
// or adds it to dx. pair is what backward returned.
func (a *adapter) backThrough(p *pass, dx tensor.Tensor, add bool, pair []kernels.Pair) {
	for _, part := range a.parts {
		d := dx
		if add {
			d = p.lowRank.x.Part(0, dx.Rows(), dx.Dim(-1))
		}
		p.dev.LinearPartBackward(d, pair[0].X, a.a.Slice(part.column, part.column+part.width), part.column, false)
		p.dev.Dropout(d, d, p.lowRank.rate, part.key(p))
		if add {
			p.dev.Add(dx, dx, d)
		}
		add = true
	}
}

// backBehind computes the gradient of x, the output of an activation, in memory that the next layer reuses. Such a
// layer has one part, so backThrough needs that memory for nothing else.
func (a *adapter) backBehind(p *pass, dy, w tensor.Tensor, pair []kernels.Pair) tensor.Tensor {
	dx := p.lowRank.x.Part(0, dy.Rows(), w.Dim(-1))
	a.backThrough(p, dx, false, pair)
	p.dev.LinearBackward(dx, dy, w, true)
	return dx
}

// pairAfter does what pair does, for the input that a norm makes of h.
func (a *adapter) pairAfter(p *pass, h tensor.Tensor, n norm) []kernels.Pair {
	if a.idle(p) {
		return nil
	}
	u := a.u(p, h.Rows())
	p.dev.NormLinear(u, h, n.w, a.a, tensor.Tensor{}, n.eps)
	return []kernels.Pair{{X: u, W: a.b}}
}

// backward overwrites the gradients of the parameters, or adds to them, and returns what is added to the gradient of
// x.
func (a *adapter) backward(p *pass, dy, x tensor.Tensor, overwrite bool) []kernels.Pair {
	if a == nil || !a.da.Ok() {
		return nil
	}
	u, v := a.u(p, x.Rows()), p.lowRank.v.Part(0, x.Rows(), a.a.Dim(0))
	p.dev.LinearBackward(v, dy, a.b, false)
	a.inputs(p, x, func(lo, hi int, x tensor.Tensor) {
		if p.lowRank.kept == nil {
			p.dev.LinearPart(u, x, a.a.Slice(lo, hi), tensor.Tensor{}, lo)
		}
		p.dev.LinearGradient(a.da.Slice(lo, hi), v, x, lo, !overwrite)
	})
	for _, part := range a.parts {
		p.dev.PairGradient(part.db, dy, u, part.from, part.column, part.scale, !overwrite)
	}
	return []kernels.Pair{{X: v, W: a.a}}
}

// flops returns the operations per token of the factors of all parts, as linear.flops.
func (a *adapter) flops(below bool) (n float64) {
	if a == nil {
		return 0
	}
	for _, part := range a.parts {
		rank := part.b.Dim(1)
		n += 2 * float64(rank*a.a.Dim(1)+part.b.Len())
	}
	if below {
		return 3 * n
	}
	return 2 * n
}
