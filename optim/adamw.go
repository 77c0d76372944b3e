// Package optim implements the optimizer: AdamW with 8-bit or 32-bit state and master weights for BF16 and F16,
// gradient clipping by global norm, loss scaling, and learning rate schedules.
package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
)

// A Master is how a BF16 or F16 weight keeps updates that are smaller than its last place. See kernels.AdamW for each.
// F32 weights need no master and ignore it.
type Master string

// The kinds of master.
const (
	Split8     Master = "split8" // 8 extra bits per weight: a 24-bit master
	Stochastic Master = "sr"     // no master: weights are rounded stochastically
	FP32       Master = "fp32"   // an F32 copy of the weight
	NoMaster   Master = "none"   // no master: weights are rounded to nearest, which loses most of a fine-tuning run
)

// ParseMaster returns the master of that name.
func ParseMaster(s string) (Master, error) {
	switch m := Master(s); m {
	case Split8, Stochastic, FP32, NoMaster:
		return m, nil
	}
	return "", fmt.Errorf("master %q: must be split8, sr, fp32 or none", s)
}

// Config configures AdamW (Loshchilov and Hutter, arXiv 1711.05101). Its zero value is not valid: start from Default.
type Config struct {
	Beta1, Beta2 float64 // decay rates of the moving averages of the gradient and of its square
	Eps          float64 // added to the root of the second moment
	Decay        float64 // weight decay per step is Decay times the learning rate; for parameters with Param.Decay
	Bits         int     // per moment: 8, in quantization blocks, or 32
	Master       Master
	BNB          bool   // bitsandbytes' update, bit for bit; needs NoMaster
	Seed         uint64 // of stochastic rounding
	Shard        Shard  // which part of the parameters New's optimizer updates; default all
}

// Default has PyTorch's betas 0.9 and 0.999, eps 1e-8 and decay 0.01, with 8-bit moments and 24-bit masters.
var Default = Config{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Bits: 8, Master: Split8}

func (c Config) check() error {
	for _, x := range []struct {
		name string
		v    float64
		ok   bool
		must string
	}{
		{"beta1", c.Beta1, c.Beta1 >= 0 && c.Beta1 < 1, "at least 0 and less than 1"},
		{"beta2", c.Beta2, c.Beta2 >= 0 && c.Beta2 < 1, "at least 0 and less than 1"},
		{"eps", c.Eps, c.Eps > 0 && !math.IsInf(c.Eps, 0), "positive and finite"},
		{"decay", c.Decay, c.Decay >= 0 && !math.IsInf(c.Decay, 0), "finite and at least 0"},
	} {
		if !x.ok {
			return fmt.Errorf("AdamW: %s %v: must be %s", x.name, x.v, x.must)
		}
	}
	if c.Bits != 8 && c.Bits != 32 {
		return fmt.Errorf("AdamW: %d bits per moment: must be 8 or 32", c.Bits)
	}
	if _, err := ParseMaster(string(c.Master)); err != nil {
		return fmt.Errorf("AdamW: %w", err)
	}
	if c.BNB && c.Master != NoMaster {
		return fmt.Errorf("AdamW: master %s: bitsandbytes has no master weights: use %s", c.Master, NoMaster)
	}
	return nil
}

// min8BitSize is the number of elements from which a tensor has 8-bit moments, as in bitsandbytes.
const min8BitSize = 4096

// keeps32Bit reports whether a parameter has F32 moments, and an F32 master if it has any: small tensors and adapters,
// which need little memory anyway, and norms and biases, where every element matters. In bitsandbytes only the size
// decides.
func (c Config) keeps32Bit(p model.Param) bool {
	return p.W.Len() < min8BitSize || (len(p.W.Shape) < 2 || p.Adapter) && !c.BNB
}

// AdamW is the optimizer of a list of parameters, with its state.
type AdamW struct {
	// Scaler has the factor by which the caller multiplies losses before it computes gradients: see LossScale. Step
	// and Decide divide gradients by it, before they clip them, and End updates it. Default: NewScaler if any weight
	// of the model is F16, otherwise nil: gradients are of the losses themselves.
	Scaler *Scaler

	cfg     Config
	dev     *kernels.Device
	params  []model.Param // the trainable ones
	ranges  []Range       // the ranges of cfg.Shard
	state   []kernels.AdamWState
	sums    []tensor.Tensor // of the ranges' gradients, see Sums
	arena   *kernels.Arena
	squares tensor.Tensor      // of all parameters' gradients, by units
	all     *kernels.AdamWList // the ranges with their state
	layers  map[int]*kernels.AdamWList
	control kernels.Control
	step    int
}

// New returns an optimizer of the trainable parameters among params. All moments are zero, and masters have the
// current values of the weights. New returns an error if cfg is invalid or memory is lacking.
func New(dev *kernels.Device, params []model.Param, cfg Config) (*AdamW, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	o := &AdamW{cfg: cfg, dev: dev, params: Trainable(params), ranges: cfg.Shard.of(params)}
	var err error
	if o.arena, err = dev.NewArena("optimizer state", SizeOf(params, cfg)); err != nil {
		return nil, err
	}
	lists := o.alloc(o.arena)
	if slices.ContainsFunc(params, func(p model.Param) bool { return p.W.DType == tensor.F16 }) {
		o.Scaler = NewScaler()
	}
	o.list(lists)
	o.begin()
	for _, x := range o.State() {
		dev.Zero(x)
	}
	for i, r := range o.ranges {
		if m := o.state[i].Master; m.Ok() && m.DType == tensor.F32 {
			err = errors.Join(err, widen(dev, m, o.weight(i, r)))
		}
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// weight returns the weights of this rank's range number i.
func (o *AdamW) weight(i int, r Range) tensor.Tensor {
	if own := o.cfg.Shard.Weights; own != nil && own[i].Ok() {
		return own[i]
	}
	return o.params[r.Param].W.Part(r.First, r.Len)
}

// widen copies BF16 or F16 values to F32 in chunks, to need little extra memory.
func widen(dev *kernels.Device, dst, src tensor.Tensor) error {
	const chunk = 1 << 20
	for at, n := 0, src.Len(); at < n; at += chunk {
		part := min(chunk, n-at)
		x, err := dev.Floats(src.Part(at, part))
		if err != nil {
			return err
		}
		dev.Upload(dst.Part(at, part), x)
	}
	return nil
}

// SizeOf returns the number of bytes that New allocates, on the rank that needs most. The parameters may come from
// arenas that only count.
func SizeOf(params []model.Param, cfg Config) (bytes int) {
	for rank := range max(1, cfg.Shard.Size) {
		cfg.Shard.Rank = rank
		o := &AdamW{cfg: cfg, params: Trainable(params), ranges: cfg.Shard.of(params)}
		bytes = max(bytes, kernels.SizeOf(func(arena *kernels.Arena) { o.alloc(arena) }))
	}
	return bytes
}

// Trainable returns the parameters that have gradients.
func Trainable(params []model.Param) (list []model.Param) {
	for _, p := range params {
		if p.Trainable() {
			list = append(list, p)
		}
	}
	return list
}

// A form describes a tensor that the optimizer keeps for a parameter: it has one element for every N of the
// parameter's, where N is each.
type form struct {
	suffix string
	dtype  tensor.DType
	each   int
	in     func(*kernels.AdamWState) *tensor.Tensor
}

func (f form) len(elements int) int { return (elements + f.each - 1) / f.each }

// forms returns the forms of what the optimizer keeps for a parameter.
func (c Config) forms(p model.Param) (list []form) {
	keep := func(suffix string, dtype tensor.DType, each int, in func(*kernels.AdamWState) *tensor.Tensor) {
		list = append(list, form{suffix, dtype, each, in})
	}
	m := func(s *kernels.AdamWState) *tensor.Tensor { return &s.M }
	v := func(s *kernels.AdamWState) *tensor.Tensor { return &s.V }
	master := func(s *kernels.AdamWState) *tensor.Tensor { return &s.Master }
	if c.Bits == 8 && !c.keeps32Bit(p) {
		const block = kernels.QuantBlockSize
		keep(".m", tensor.U8, 1, m)
		keep(".m_absmax", tensor.F32, block, func(s *kernels.AdamWState) *tensor.Tensor { return &s.MScale })
		keep(".v", tensor.U8, 1, v)
		keep(".v_absmax", tensor.F32, block, func(s *kernels.AdamWState) *tensor.Tensor { return &s.VScale })
	} else {
		keep(".m", tensor.F32, 1, m)
		keep(".v", tensor.F32, 1, v)
	}
	switch {
	case !p.W.DType.Half() || c.Master == NoMaster:
	case c.Master == FP32 || c.keeps32Bit(p):
		keep(".master", tensor.F32, 1, master)
	case c.Master == Split8:
		keep(".residual", tensor.U8, 1, master)
	}
	return list
}

// alloc allocates the state of each range, the sums, the control of steps, and memory for lists of all ranges and of
// each layer's, which it returns.
func (o *AdamW) alloc(arena *kernels.Arena) (lists tensor.Tensor) {
	o.state, o.sums = make([]kernels.AdamWState, len(o.ranges)), make([]tensor.Tensor, len(o.ranges))
	for i, r := range o.ranges {
		p := o.params[r.Param]
		for _, f := range o.cfg.forms(p) {
			*f.in(&o.state[i]) = arena.New(p.Name+f.suffix, f.dtype, f.len(r.Len))
		}
		if o.cfg.Shard.summed(p.Layer) {
			o.sums[i] = arena.New(p.Name+".sum", p.Grad.DType, r.Len)
		}
	}
	o.squares = arena.New("squares", tensor.F64, o.units(len(o.params)))
	lists = arena.New("lists", tensor.U8, 2*kernels.AdamWListSize(len(o.ranges)))
	o.control = kernels.NewControl(arena)
	return lists
}

// units returns the number of units, for sums of squares, of the first n parameters.
func (o *AdamW) units(n int) (units int) {
	for _, p := range o.params[:n] {
		units += kernels.SquaresUnits(p.W.Len())
	}
	return units
}

// list builds the lists that AdamW's kernel takes, in memory: one of all ranges, and one of the ranges of each layer.
func (o *AdamW) list(memory tensor.Tensor) {
	all, layers := make([]kernels.AdamWTensor, len(o.ranges)), map[int][]kernels.AdamWTensor{}
	for i, r := range o.ranges {
		p, units := o.params[r.Param], o.units(r.Param)
		all[i] = kernels.AdamWTensor{W: o.weight(i, r), G: p.Grad.Part(r.First, r.Len), State: o.state[i],
			Number: r.Param, First: r.First, Of: p.W.Len(), Sums: o.squares.Part(units, o.units(r.Param+1)-units),
			NoDecay: !p.Decay, BNB: o.cfg.BNB,
			Stochastic: o.cfg.Master == Stochastic && p.W.DType.Half() && !o.state[i].Master.Ok()}
		if o.sums[i].Ok() {
			all[i].G = o.sums[i]
		}
		layers[p.Layer] = append(layers[p.Layer], all[i])
	}
	at := 0
	next := func(list []kernels.AdamWTensor) *kernels.AdamWList {
		part := memory.Part(at, kernels.AdamWListSize(len(list)))
		at += part.Len()
		return o.dev.NewAdamWList(part, list)
	}
	o.all, o.layers = next(all), map[int]*kernels.AdamWList{}
	for _, layer := range slices.Sorted(maps.Keys(layers)) {
		o.layers[layer] = next(layers[layer])
	}
}

// begin starts a step: it resets the sums of losses and squares.
func (o *AdamW) begin() {
	o.dev.Begin(o.control)
	o.dev.Zero(o.squares)
}

// AddLoss adds losses, F32 on the device, to the sum that the next Step checks and returns.
func (o *AdamW) AddLoss(losses tensor.Tensor) { o.dev.AddLoss(o.control, losses) }

// Losses returns the sum of the losses added since the last step, F64 [1] on the device.
func (o *AdamW) Losses() tensor.Tensor { return o.control.Loss() }

// Step updates every parameter with its gradient, clipped to a global norm of at most limit (0: not clipped), and
// learning rate lr. With an lr of 0 the moments advance but the weights stay. If the norm, or the sum of the losses
// added since the last step, is not finite, nothing changes and the step does not count. The device decides that. Step
// waits for it, and returns its error.
func (o *AdamW) Step(lr, limit float64) (kernels.StepResult, error) {
	defer o.dev.Range("optimizer")()
	o.Square()
	o.Decide(limit)
	o.update(o.all, lr, o.control)
	return o.End()
}

// Update is like Step, but without a norm and without a decision: it uses the gradients as they are, as bitsandbytes
// does, even if an element is not finite. It does not wait.
func (o *AdamW) Update(lr float64) {
	o.update(o.all, lr, kernels.Control{})
	o.step++
}

// update updates the parameters of a list, as the next step, unless control says that the step is skipped.
func (o *AdamW) update(list *kernels.AdamWList, lr float64, control kernels.Control) {
	o.dev.AdamWAll(list, kernels.AdamWStep{LR: lr, Beta1: o.cfg.Beta1, Beta2: o.cfg.Beta2, Eps: o.cfg.Eps,
		Decay: o.cfg.Decay, GradScale: 1,
		Control: control, Step: o.step + 1, Seed: o.cfg.Seed})
}

// Steps returns the number of steps taken, counted from SetSteps if that was called.
func (o *AdamW) Steps() int { return o.step }

// SetSteps sets the number of steps taken, for a restored State. It panics if n is negative.
func (o *AdamW) SetSteps(n int) {
	if n < 0 {
		panic(fmt.Sprintf("AdamW: SetSteps(%d)", n))
	}
	o.step = n
}

// State returns all tensors that the optimizer keeps: <parameter>.m and .v; with 8 bits also .m_absmax and .v_absmax,
// F32; and .residual, U8, or .master, F32. Their order depends only on the parameters and the Config. They are the
// memory itself: to resume with the same bits, save them with the weights and Steps, and restore them into an
// optimizer made in the same way. With a Shard they are parts: see Kept.
func (o *AdamW) State() (list []tensor.Tensor) {
	for i, r := range o.ranges {
		for _, f := range o.cfg.forms(o.params[r.Param]) {
			list = append(list, *f.in(&o.state[i]))
		}
	}
	return list
}

// Close frees the state's memory.
func (o *AdamW) Close() error { return o.arena.Close() }
