// Package optim moves parameters: AdamW with its state in 8 or 32 bits and a master behind weights in BF16, the global norm
// by which gradients are clipped, and how the learning rate runs.
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

// A Master is what stands behind a weight in BF16, so that updates smaller than its last place are not lost. kernels.AdamW
// says how each works. Weights in F32 need none, whichever is chosen.
type Master string

// The masters.
const (
	Split8     Master = "split8" // 8 more bits a weight: a master of 24 bits
	Stochastic Master = "sr"     // nothing: weights are rounded stochastically
	FP32       Master = "fp32"   // the weight in F32
	NoMaster   Master = "none"   // nothing: weights are rounded to nearest, and most of a fine-tuning run is lost
)

// ParseMaster is the master of that name.
func ParseMaster(s string) (Master, error) {
	switch m := Master(s); m {
	case Split8, Stochastic, FP32, NoMaster:
		return m, nil
	}
	return "", fmt.Errorf("master %q: it is one of split8, sr, fp32, none", s)
}

// Config is how AdamW (Loshchilov and Hutter, arXiv 1711.05101) moves weights. New takes it as it is: begin with Default.
type Config struct {
	Beta1, Beta2 float64 // decay of the means of gradients and of their squares
	Eps          float64 // added to the root of the second
	Decay        float64 // weight decay per step, times the learning rate; of parameters that have Decay
	Bits         int     // of the moments: 8, in blocks, or 32
	Master       Master
	BNB          bool   // bitsandbytes' update to the letter; it has no master
	Seed         uint64 // of stochastic rounding
}

// Default is PyTorch's: betas 0.9 and 0.999, eps 1e-8, decay 0.01; with moments in 8 bits and masters of 24.
var Default = Config{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Bits: 8, Master: Split8}

func (c Config) check() error {
	for _, x := range []struct {
		name string
		v    float64
		ok   bool
	}{
		{"beta1", c.Beta1, c.Beta1 >= 0 && c.Beta1 < 1},
		{"beta2", c.Beta2, c.Beta2 >= 0 && c.Beta2 < 1},
		{"eps", c.Eps, c.Eps > 0 && !math.IsInf(c.Eps, 0)},
		{"decay", c.Decay, c.Decay >= 0 && !math.IsInf(c.Decay, 0)},
	} {
		if !x.ok {
			return fmt.Errorf("AdamW: %s %v makes no sense", x.name, x.v)
		}
	}
	if c.Bits != 8 && c.Bits != 32 {
		return fmt.Errorf("AdamW: moments of %d bits: there are those of 8 and of 32", c.Bits)
	}
	if _, err := ParseMaster(string(c.Master)); err != nil {
		return fmt.Errorf("AdamW: %w", err)
	}
	if c.BNB && c.Master != NoMaster {
		return fmt.Errorf("AdamW: master %s: bitsandbytes has none, use %s", c.Master, NoMaster)
	}
	return nil
}

// small is how many elements a tensor has at least whose moments are in 8 bits, as in bitsandbytes.
const min8BitSize = 4096

// small says whether a parameter keeps its moments in F32, and a master in F32 where there is one at all: those that are
// too few to matter, and norms and biases, where every element does. In bitsandbytes size alone decides.
func (c Config) keeps32Bit(p model.Param) bool {
	return p.W.Len() < min8BitSize || len(p.W.Shape) < 2 && !c.BNB
}

// AdamW is the optimiser: parameters, and what it keeps of each.
type AdamW struct {
	cfg     Config
	dev     *kernels.Device
	params  []model.Param // those that are trained
	state   []kernels.AdamWState
	arena   *kernels.Arena
	all     *kernels.AdamWList // params with their state
	layers  map[int]*kernels.AdamWList
	control kernels.Control
	step    int
}

// New is an optimiser of those parameters that are trained, with all moments zero. Masters begin as the weights are now. It
// is an error when the configuration makes no sense, or there is not enough memory.
func New(dev *kernels.Device, params []model.Param, cfg Config) (*AdamW, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	o := &AdamW{cfg: cfg, dev: dev, params: trainable(params)}
	var err error
	if o.arena, err = dev.NewArena("optimiser state", SizeOf(params, cfg)); err != nil {
		return nil, err
	}
	var lists tensor.Tensor
	o.state, lists, o.control = alloc(o.arena, o.params, cfg)
	o.list(lists)
	dev.Begin(o.control)
	for i, p := range o.params {
		for _, x := range tensors(o.state[i]) {
			dev.Zero(x)
		}
		if m := o.state[i].Master; m.Ok() && m.DType == tensor.F32 {
			err = errors.Join(err, widen(dev, m, p.W))
		}
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// widen copies BF16 values to F32 in pieces that need little memory beside.
func widen(dev *kernels.Device, dst, src tensor.Tensor) error {
	const piece = 1 << 20
	for at, n := 0, src.Len(); at < n; at += piece {
		part := min(piece, n-at)
		x, err := dev.Floats(src.Part(at, part))
		if err != nil {
			return err
		}
		dev.Upload(dst.Part(at, part), x)
	}
	return nil
}

// SizeOf is the bytes that New allocates, by the same arithmetic. The parameters may come from arenas that only count.
func SizeOf(params []model.Param, cfg Config) int {
	return kernels.SizeOf(func(arena *kernels.Arena) { alloc(arena, trainable(params), cfg) })
}

func trainable(params []model.Param) (list []model.Param) {
	for _, p := range params {
		if p.Trainable() {
			list = append(list, p)
		}
	}
	return list
}

// cut is the state of each parameter, memory for a list of them and for lists by block, and the control of steps, without contents.
func alloc(arena *kernels.Arena, params []model.Param, cfg Config) ([]kernels.AdamWState, tensor.Tensor, kernels.Control) {
	states := make([]kernels.AdamWState, len(params))
	for i, p := range params {
		n, s := p.W.Len(), &states[i]
		if cfg.Bits == 8 && !cfg.keeps32Bit(p) {
			s.M = arena.New(p.Name+".m", tensor.U8, n)
			s.MScale = arena.New(p.Name+".m_absmax", tensor.F32, kernels.QuantBlocks(n))
			s.V = arena.New(p.Name+".v", tensor.U8, n)
			s.VScale = arena.New(p.Name+".v_absmax", tensor.F32, kernels.QuantBlocks(n))
		} else {
			s.M = arena.New(p.Name+".m", tensor.F32, n)
			s.V = arena.New(p.Name+".v", tensor.F32, n)
		}
		switch {
		case p.W.DType != tensor.BF16 || cfg.Master == NoMaster:
		case cfg.Master == FP32 || cfg.keeps32Bit(p):
			s.Master = arena.New(p.Name+".master", tensor.F32, n)
		case cfg.Master == Split8:
			s.Master = arena.New(p.Name+".residual", tensor.U8, n)
		}
	}
	return states, arena.New("lists", tensor.U8, 2*kernels.AdamWListSize(len(params))), kernels.NewControl(arena)
}

// list makes lists, in that memory, of the parameters as AdamW moves them: of all, and of each block.
func (o *AdamW) list(memory tensor.Tensor) {
	all, blocks := make([]kernels.AdamWTensor, len(o.params)), map[int][]kernels.AdamWTensor{}
	for i, p := range o.params {
		all[i] = kernels.AdamWTensor{W: p.W, G: p.Grad, State: o.state[i], Number: i, NoDecay: !p.Decay, BNB: o.cfg.BNB,
			Stochastic: o.cfg.Master == Stochastic && p.W.DType == tensor.BF16 && !o.state[i].Master.Ok()}
		blocks[p.Layer] = append(blocks[p.Layer], all[i])
	}
	at := 0
	next := func(list []kernels.AdamWTensor) *kernels.AdamWList {
		part := memory.Part(at, kernels.AdamWListSize(len(list)))
		at += part.Len()
		return o.dev.NewAdamWList(part, list)
	}
	o.all, o.layers = next(all), map[int]*kernels.AdamWList{}
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		o.layers[block] = next(blocks[block])
	}
}

// tensors are those that a state has.
func tensors(s kernels.AdamWState) (list []tensor.Tensor) {
	for _, x := range []tensor.Tensor{s.M, s.MScale, s.V, s.VScale, s.Master} {
		if x.Ok() {
			list = append(list, x)
		}
	}
	return list
}

// AddLoss adds losses, F32 on the device, to the sum that the next Step tells of, and lets decide.
func (o *AdamW) AddLoss(losses tensor.Tensor) { o.dev.AddLoss(o.control, losses) }

// Step moves every parameter once, against its gradient clipped to a norm of limit (0: as it is), with learning rate lr. With an
// lr of 0 the moments advance and nothing moves. Where the norm, or the sum of the losses that were added since the last step, is
// not finite, nothing changes and the step does not count. What is to be done is decided on the device; Step waits for it at the
// end, and returns its error.
func (o *AdamW) Step(lr, limit float64) (kernels.Record, error) {
	defer o.dev.Range("optimizer")()
	o.dev.AddSquaresAll(o.control, o.all)
	o.dev.Decide(o.control, limit)
	o.move(o.all, lr, o.control)
	return o.End()
}

// Move is Step against the gradients as they are, whatever they are, without a norm and without a decision: what bitsandbytes
// does where an element is not finite. It does not wait.
func (o *AdamW) Move(lr float64) {
	o.move(o.all, lr, kernels.Control{})
	o.step++
}

// move takes the step after those that were taken, of the parameters of a list, if control says so.
func (o *AdamW) move(list *kernels.AdamWList, lr float64, control kernels.Control) {
	o.dev.AdamWAll(list, kernels.AdamWStep{LR: lr, Beta1: o.cfg.Beta1, Beta2: o.cfg.Beta2, Eps: o.cfg.Eps, Decay: o.cfg.Decay, GradScale: 1,
		Control: control, Step: o.step + 1, Seed: o.cfg.Seed})
}

// Steps is how many steps were taken, or what SetSteps said and the calls since.
func (o *AdamW) Steps() int { return o.step }

// SetSteps has the next step be the one after so many, as when State was restored. It panics below 0.
func (o *AdamW) SetSteps(n int) {
	if n < 0 {
		panic(fmt.Sprintf("AdamW: %d steps", n))
	}
	o.step = n
}

// State is everything that the optimiser keeps, in an order that depends on parameters and configuration alone: the tensors
// <parameter>.m and .v; in 8 bits .m_absmax and .v_absmax, F32; and .residual, U8, or .master, F32. They are the memory
// itself. Who stores their bytes, the weights and Steps, and restores them in an optimiser made in the same way, goes on with
// the same bits.
func (o *AdamW) State() (list []tensor.Tensor) {
	for _, s := range o.state {
		list = append(list, tensors(s)...)
	}
	return list
}

// Close gives the state's memory back.
func (o *AdamW) Close() error { return o.arena.Close() }
