package kernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AdamWState is the state that AdamW keeps for a tensor between steps.
type AdamWState struct {
	// M and V are the moments, of w's length. F32: the moments themselves. U8: codes of m in the signed dynamic map and of
	// √v in the unsigned one, times the scale of their quantization block. All bytes are zero before the first step.
	M, V tensor.Tensor
	// MScale and VScale are the scales of the codes, [QuantBlocks(n)] F32. They are zero Tensors if M and V are F32.
	MScale, VScale tensor.Tensor
	// Master holds what a BF16 or F16 weight cannot, and has its length. F32: the weight itself, which w rounds. U8: the
	// residual of a 24-bit weight, zero if w is exact; see AdamW. The zero Tensor: there is no master, as for every F32
	// weight.
	Master tensor.Tensor
}

// An AdamWTensor is a tensor that AdamW updates, or a range of one.
type AdamWTensor struct {
	W, G  tensor.Tensor // the weight and its gradient, which AdamW does not change
	State AdamWState
	// Sums are the partial sums of squares that SquaresAll computes, F64 [SquaresUnits(Of)] for the whole tensor. The
	// zero Tensor: SquaresAll is not called.
	Sums tensor.Tensor
	// Number identifies the tensor, so that no two tensors draw the same random numbers.
	Number int
	// First is the element of the tensor that W starts with, if W, G and State are a range of the tensor. It must be a
	// multiple of QuantBlockSize; the default is 0. Updating a tensor range by range gives the same bits as updating it
	// whole.
	First int
	// Of is the number of elements of the whole tensor, if W is a range of it. Default: First + W.Len().
	Of int
	// NoDecay exempts the weight from weight decay.
	NoDecay bool
	// Stochastic rounds a BF16 or F16 weight without a master up or down at random. The random number depends only on
	// Seed, Step, Number and the element.
	Stochastic bool
	// BNB computes bitsandbytes' update; see AdamW.
	BNB bool
}

// of returns the number of elements of the whole tensor.
func (x AdamWTensor) of() int { return cmp.Or(x.Of, x.First+x.W.Len()) }

// Part returns the range of n elements that starts at element first, which must be a multiple of QuantBlockSize: see
// First. If x has Sums, the range must be whole units: first is a multiple of SquaresUnit of the whole tensor, and so
// is n, unless the range ends where the tensor does.
func (x AdamWTensor) Part(first, n int) AdamWTensor {
	x.Of = x.of()
	part := func(x *tensor.Tensor, first, n int) {
		if x.Ok() {
			*x = x.Part(first, n)
		}
	}
	for _, each := range []*tensor.Tensor{&x.W, &x.G, &x.State.M, &x.State.V, &x.State.Master} {
		part(each, first, n)
	}
	part(&x.State.MScale, first/QuantBlockSize, QuantBlocks(n))
	part(&x.State.VScale, first/QuantBlockSize, QuantBlocks(n))
	x.First += first
	return x
}

// AdamWStep holds the constants of one step, which all tensors share.
type AdamWStep struct {
	LR, Beta1, Beta2, Eps float64
	Decay                 float64 // weight decay; a step multiplies it by LR
	GradScale             float64 // multiplies the gradient, as Control's scale does
	Step                  int     // 1 for the first
	Seed                  uint64  // of stochastic rounding
	// Control scales the gradient too, and decides whether the step is taken. With the zero Control every step is taken.
	Control Control
}

// AdamW takes one step of Adam with decoupled weight decay (Loshchilov & Hutter 2019), in PyTorch's order of
// operations. For each element, with t = Step:
//
//	g ← g · GradScale
//	w ← w − LR · Decay · w
//	m ← β₁ · m + (1 − β₁) · g
//	v ← β₂ · v + (1 − β₂) · g²
//	w ← w − LR / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + Eps)
//
// w and g are F32, BF16 or F16; g has w's length, and is not changed. Everything is computed in float32, except the
// factors shared by all elements, which are computed in float64. w is rounded once. A fine-tuning update is often less
// than half a unit in the last place of a BF16 or F16 weight, so plain rounding would lose it. Master decides what
// becomes of it:
//
//   - F32: a master weight. It takes the update, and w is the BF16 or F16 nearest to it.
//   - U8: a residual, as in FlashOptim (arXiv 2602.23349). With the bits of a float32 read as integers, f₂₄ is its
//     upper 24 of 32 bits, rounded to nearest, ties to even; w is (f₂₄ + 128) >> 8 and the residual is f₂₄ − (w << 8),
//     from −128 to 127. So the next step starts from f₂₄ = (w << 8) + residual: a 24-bit master in 3 bytes. w is the
//     BF16 nearest to it, ties away from zero. If that is infinite, f₂₄ may still be finite; a NaN stays a NaN. For
//     an F16 weight, f₂₄ is an F16 with 8 more bits of mantissa: subnormal below 2⁻¹⁴, and infinite from 2¹⁶ on.
//   - none, with Stochastic: w is one of the two values next to the result. The nearer value is more likely, so that on
//     average w is the result itself.
//   - none, without Stochastic: w is the nearest value, ties to even.
//
// With 8-bit state (Dettmers et al. 2022, arXiv 2110.02861) the update uses m and √v before they are coded. The scales
// of a quantization block and GradScale are folded into the factors β and 1 − β: fewer multiplications, but other
// rounding. The state holds √v, not v, because √v spans half as many decades; a nonzero v never gets code 0.
// bitsandbytes codes v: if a small v becomes 0 and its m does not, the next update is m / Eps, millions of times too
// large. m gets the nearest code, which may be 0. Quantization blocks whose largest m is below 2⁻¹²⁸ are coded as
// zeros. A gradient that is not finite makes the scales of its quantization block not finite, and from the next step on
// all its weights: check the norm before the step.
//
// BNB computes the update of bitsandbytes 0.50 instead, as its CUDA kernels do, with exact square roots and
// reciprocals: v itself is coded; 1 − β is computed in float32; w is rounded after the update and again after decay,
// which comes last; an element of m whose code has another sign takes the next code; in 8 bits the state of an element
// whose gradient is not finite becomes 0, and its weight stays as it is. BNB allows no F16 weight and no master, and
// rounds to nearest.
//
// No result depends on the number of threads. On a GPU, roots and quotients of 8-bit moments are off by an ulp, and
// quantization blocks whose largest m is below 2⁻¹²⁶ are zeros.
func (d *Device) AdamW(x AdamWTensor, c AdamWStep) {
	if d.gpu == nil {
		d.adamWOnCPU(x, c)
		return
	}
	defer d.release(d.mark())
	d.AdamWAll(d.NewAdamWList(d.scratch("adamw list", tensor.U8, AdamWListSize(1)), []AdamWTensor{x}), c)
}

func (d *Device) adamWOnCPU(x AdamWTensor, c AdamWStep) {
	weight := checkAdamW(x)
	checkAdamWStep(c)
	d.ran("adamw")
	if control := c.Control.x; control.Ok() {
		if control.F64()[3] != 1 {
			return
		}
		c.GradScale *= control.F64()[2]
	}
	if x.NoDecay {
		c.Decay = 0
	}
	f, v := adamWFactors(c), dynamicMaps().root
	if x.BNB {
		f, v = bnbFactors(c), dynamicMaps().v
	}
	f.Seed = Mix64(f.Seed + uint64(x.Number))
	s := x.State
	cpu.AdamW(cpu.AdamWTensors{W: x.W, G: x.G, M: s.M, V: s.V, MScale: s.MScale, VScale: s.VScale, Master: s.Master,
		First: x.First},
		weight, f, dynamicMaps().m, v)
}

// An AdamWList is a list of tensors that AdamWAll updates together.
type AdamWList struct {
	tensors []AdamWTensor
	runs    []adamWRun // on a GPU: one launch updates the tensors of a run
}

// An adamWRun holds the tensors of one form. Their ranges follow each other in the GPU's memory.
type adamWRun struct {
	macros        macros
	ranges        tensor.Tensor
	blocks, units int // quantization blocks, and units of sums of squares
	bnb           bool

	moved, gradients int // bytes that a step reads and writes, and bytes of the gradients
}

// moved returns the bytes that a step reads and writes: the weight, its gradient and its state. Gradients, and a weight
// with an F32 master, are only read or only written.
func (x AdamWTensor) moved() int {
	s, n := x.State, 2*x.W.Bytes()+x.G.Bytes()
	if s.Master.Ok() && s.Master.DType == tensor.F32 {
		n -= x.W.Bytes()
	}
	for _, kept := range []tensor.Tensor{s.M, s.V, s.MScale, s.VScale, s.Master} {
		if kept.Ok() {
			n += 2 * kept.Bytes()
		}
	}
	return n
}

// adamWRange is the size in bytes of op_adamw.cu's struct for a range.
const adamWRange = 112

// AdamWListSize returns the bytes of memory that NewAdamWList needs for a number of tensors.
func AdamWListSize(tensors int) int { return tensors * adamWRange }

// NewAdamWList makes a list, which is valid as long as its tensors stay where they are. memory is U8 of AdamWListSize
// and belongs to the list; the CPU does not use it.
func (d *Device) NewAdamWList(memory tensor.Tensor, list []AdamWTensor) *AdamWList {
	want("NewAdamWList", "memory", memory, tensor.U8, AdamWListSize(len(list)))
	l := &AdamWList{tensors: list}
	if d.gpu == nil {
		return l
	}
	forms := make([]macros, len(list))
	for i, x := range list {
		forms[i] = define(macro{x.W.DType.String(), 1}, macro{"G_" + x.G.DType.String(), 1},
			macro{"WEIGHT", int(checkAdamW(x))}, macro{"CODES", number(x.State.MScale.Ok())})
	}
	at := 0
	for i, form := range forms {
		if slices.Contains(forms[:i], form) {
			continue
		}
		run := adamWRun{macros: form, bnb: list[i].BNB}
		first := at
		for j := i; j < len(list); j++ {
			if x := list[j]; forms[j] == form {
				s, n, unit := x.State, x.W.Len(), SquaresUnit(x.of())
				sums := x.Sums
				if sums.Ok() {
					sums = sums.Part(x.First/unit, blocks(n, unit))
				}
				d.launch(kernel{"op_adamw.cu", "adamw_range", form}, d.codesGrid(1),
					addr(memory).moves(adamWRange), i32(at), address(x.W.Addr), address(x.G.Addr), address(s.M.Addr),
					address(s.V.Addr), address(s.MScale.Addr), address(s.VScale.Addr), address(s.Master.Addr),
					address(sums.Addr), i64(n), i64(x.First), i32(run.blocks), i32(unit), i32(run.units), i32(x.Number),
					flag(!x.NoDecay))
				run.blocks += QuantBlocks(n)
				run.units += blocks(n, unit)
				run.gradients += x.G.Bytes()
				run.moved += x.moved()
				at++
			}
		}
		run.ranges = memory.Part(first*adamWRange, (at-first)*adamWRange)
		l.runs = append(l.runs, run)
	}
	return l
}

// AdamWAll updates every tensor of a list, with the same bits as AdamW. A GPU needs one launch per form of tensor.
func (d *Device) AdamWAll(l *AdamWList, c AdamWStep) {
	if d.gpu == nil {
		for _, x := range l.tensors {
			d.adamWOnCPU(x, c)
		}
		return
	}
	checkAdamWStep(c)
	for _, r := range l.runs {
		d.ran("adamw")
		f := adamWFactors(c)
		if r.bnb {
			f = bnbFactors(c)
		}
		d.launch(kernel{"op_adamw.cu", "adamw", r.macros}, d.codesGrid(r.blocks),
			addr(r.ranges).moves(r.moved), i32(r.blocks), addr(c.Control.x), f64(c.GradScale), f64(1-c.Beta1),
			f64(math.Sqrt(1-c.Beta2)), f32(f.DecayFactor), f32(f.Beta1), f32(f.Beta2), f32(f.OneMinusBeta1),
			f32(f.OneMinusBeta2), f32(f.SqrtBeta2), f32(f.StepSize), f32(f.Root), f32(f.Eps),
			i64(int(f.Seed)))
	}
}

func checkAdamWStep(c AdamWStep) {
	if c.Step < 1 {
		panic(fmt.Sprintf("AdamW: step %d: must be at least 1", c.Step))
	}
}

// checkAdamW panics unless the operands fit each other, and returns what the step does with the weight.
func checkAdamW(x AdamWTensor) cpu.Weight {
	const op = "AdamW"
	w, s := x.W, x.State
	floating(op, "w", w)
	floating(op, "g", x.G)
	n := w.Len()
	want(op, "g", x.G, x.G.DType, n)
	if s.MScale.Ok() || s.VScale.Ok() {
		want(op, "m", s.M, tensor.U8, n)
		want(op, "v", s.V, tensor.U8, n)
		want(op, "the scale of m", s.MScale, tensor.F32, QuantBlocks(n))
		want(op, "the scale of v", s.VScale, tensor.F32, QuantBlocks(n))
	} else {
		want(op, "m", s.M, tensor.F32, n)
		want(op, "v", s.V, tensor.F32, n)
	}
	if x.First < 0 || x.First%QuantBlockSize != 0 {
		panic(fmt.Sprintf("%s: first element %d: must be a multiple of %d", op, x.First, QuantBlockSize))
	}
	if x.Sums.Ok() {
		checkSums(x)
	}
	if s.Master.Ok() {
		if !w.DType.Half() || x.BNB || x.Stochastic {
			panic(fmt.Sprintf("%s: %v has master %v: only a BF16 or F16 weight without BNB and Stochastic may have one", op, w,
				s.Master))
		}
		if s.Master.DType == tensor.U8 {
			want(op, "the residual", s.Master, tensor.U8, n)
			return cpu.WeightSplit8
		}
		want(op, "the master", s.Master, tensor.F32, n)
		return cpu.WeightMaster
	}
	if x.BNB && x.Stochastic {
		panic(op + ": BNB rounds to nearest, not stochastically")
	}
	if x.BNB && w.DType == tensor.F16 {
		panic(op + ": BNB updates F32 and BF16 weights only")
	}
	switch {
	case x.BNB:
		return cpu.WeightBNB
	case w.DType.Half() && x.Stochastic:
		return cpu.WeightStochastic
	}
	return cpu.WeightRounded
}

// adamWFactors returns the factors of a step; each tensor derives its own Seed from this one.
func adamWFactors(c AdamWStep) cpu.AdamWFactors {
	t := float64(c.Step)
	return cpu.AdamWFactors{
		GradScale:   float32(c.GradScale),
		DecayFactor: float32(1 - c.LR*c.Decay),
		Beta1:       float32(c.Beta1), OneMinusBeta1: float32(1 - c.Beta1),
		Beta2: float32(c.Beta2), OneMinusBeta2: float32(1 - c.Beta2),
		StepSize:  float32(c.LR / (1 - math.Pow(c.Beta1, t))),
		Root:      float32(1 / math.Sqrt(1-math.Pow(c.Beta2, t))),
		Eps:       float32(c.Eps),
		GainM:     float32((1 - c.Beta1) * c.GradScale),
		GainRoot:  float32(math.Sqrt(1-c.Beta2) * c.GradScale),
		SqrtBeta2: float32(math.Sqrt(c.Beta2)),
		Seed:      Mix64(Mix64(c.Seed) + uint64(c.Step)),
	}
}

// bnbFactors returns the factors of bitsandbytes' kernels, which compute them in float32.
func bnbFactors(c AdamWStep) cpu.AdamWFactors {
	b1, b2, lr := float32(c.Beta1), float32(c.Beta2), float32(c.LR)
	power := func(b float32) float32 { return float32(math.Pow(float64(b), float64(c.Step))) }
	root := float32(math.Sqrt(float64(1 - power(b2))))
	return cpu.AdamWFactors{
		GradScale:   float32(c.GradScale),
		DecayFactor: float32(1 - float64(lr)*float64(float32(c.Decay))),
		Beta1:       b1, OneMinusBeta1: 1 - b1,
		Beta2: b2, OneMinusBeta2: 1 - b2,
		StepSize: float32(root*lr) * -float32(1/(1-power(b1))),
		Root:     root,
		Eps:      float32(c.Eps),
	}
}

// Mix64 is SplitMix64's step (Steele, Lea & Flood 2014): every bit of the result depends on every bit of x.
func Mix64(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
