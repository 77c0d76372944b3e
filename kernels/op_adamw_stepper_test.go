package kernels_test

import (
	"bytes"
	"cmp"
	"math"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// A form is a form of AdamW: how moments are kept, and what follows the weight.
type form struct {
	name       string
	weight     tensor.DType
	codes      bool
	master     tensor.DType // 0: none
	stochastic bool
	bnb        bool
	gradient   tensor.DType // 0: F32
}

var forms = []form{
	{name: "F32", weight: tensor.F32},
	{name: "BF16 nearest", weight: tensor.BF16},
	{name: "BF16 stochastic", weight: tensor.BF16, stochastic: true},
	{name: "BF16 split8", weight: tensor.BF16, master: tensor.U8},
	{name: "BF16 master", weight: tensor.BF16, master: tensor.F32},
	{name: "F32 8 bits", weight: tensor.F32, codes: true},
	{name: "BF16 nearest 8 bits", weight: tensor.BF16, codes: true},
	{name: "BF16 stochastic 8 bits", weight: tensor.BF16, codes: true, stochastic: true},
	{name: "BF16 split8 8 bits", weight: tensor.BF16, codes: true, master: tensor.U8},
	{name: "BF16 master 8 bits", weight: tensor.BF16, codes: true, master: tensor.F32},
	{name: "F16 nearest 8 bits", weight: tensor.F16, codes: true},
	{name: "F16 stochastic", weight: tensor.F16, stochastic: true},
	{name: "F16 split8", weight: tensor.F16, master: tensor.U8},
	{name: "F16 master", weight: tensor.F16, master: tensor.F32},
	{name: "F16 split8 8 bits", weight: tensor.F16, codes: true, master: tensor.U8},
	{name: "F32 bnb", weight: tensor.F32, bnb: true},
	{name: "BF16 bnb", weight: tensor.BF16, bnb: true},
	{name: "F32 bnb 8 bits", weight: tensor.F32, codes: true, bnb: true},
	{name: "BF16 bnb 8 bits", weight: tensor.BF16, codes: true, bnb: true},
}

// halfGradients are forms with gradients of 16 bits.
var halfGradients = []form{
	{name: "BF16 nearest, gradient BF16", weight: tensor.BF16, gradient: tensor.BF16},
	{name: "BF16 split8 8 bits, gradient BF16", weight: tensor.BF16, codes: true, master: tensor.U8,
		gradient: tensor.BF16},
	{name: "F16 split8 8 bits, gradient F16", weight: tensor.F16, codes: true, master: tensor.U8, gradient: tensor.F16},
	{name: "F32 bnb 8 bits, gradient BF16", weight: tensor.F32, codes: true, bnb: true, gradient: tensor.BF16},
}

const guardSize, guardByte = 256, 0xA5

// A stepper is one tensor with its state in one form.
type stepper struct {
	d       *kernels.Device
	f       form
	arena   *kernels.Arena
	w, g    tensor.Tensor
	s       kernels.AdamWState
	number  int
	first   int
	noDecay bool
	c       kernels.AdamWStep
	guard   []tensor.Tensor
}

// stepper places a tensor of n elements with zero state and a guard after each operand.
func (f form) stepper(t testing.TB, d *kernels.Device, w []float32) *stepper {
	t.Helper()
	n := len(w)
	x := &stepper{d: d, f: f, c: kernels.AdamWStep{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01,
		GradScale: 1}}
	cut := func(a *kernels.Arena) {
		x.guard = nil
		next := func(name string, t tensor.DType, n int) tensor.Tensor {
			y := a.New(name, t, n)
			x.guard = append(x.guard, a.New("guard", tensor.U8, guardSize))
			return y
		}
		state := tensor.F32
		if f.codes {
			state = tensor.U8
			x.s.MScale, x.s.VScale = next("m scale", tensor.F32, kernels.QuantBlocks(n)),
				next("v scale", tensor.F32, kernels.QuantBlocks(n))
		}
		x.w, x.g = next("w", f.weight, n), next("g", cmp.Or(f.gradient, tensor.F32), n)
		x.s.M, x.s.V = next("m", state, n), next("v", state, n)
		if f.master != 0 {
			x.s.Master = next("master", f.master, n)
		}
	}
	x.arena = arena(t, d, kernels.SizeOf(cut))
	cut(x.arena)
	for _, y := range x.state() {
		d.Zero(y)
	}
	for _, g := range x.guard {
		d.UploadBytes(g, bytes.Repeat([]byte{guardByte}, guardSize))
	}
	d.Upload(x.w, w)
	if f.master == tensor.F32 {
		now, _ := d.Floats(x.w)
		d.Upload(x.s.Master, now)
	}
	return x
}

func (x *stepper) state() (list []tensor.Tensor) {
	for _, y := range []tensor.Tensor{x.s.M, x.s.V, x.s.MScale, x.s.VScale, x.s.Master} {
		if y.Ok() {
			list = append(list, y)
		}
	}
	return list
}

// bytes returns the bytes of the weight and its state.
func (x *stepper) bytes(t testing.TB) (all []byte) {
	for _, y := range append(x.state(), x.w) {
		all = append(all, bytesOf(t, x.d, y)...)
	}
	return all
}

func (x *stepper) step(g []float32) {
	x.d.Upload(x.g, g)
	x.c.Step++
	x.d.AdamW(x.tensor(), x.c)
}

// tensor returns the tensor that AdamW updates.
func (x *stepper) tensor() kernels.AdamWTensor {
	return kernels.AdamWTensor{W: x.w, G: x.g, State: x.s, Number: x.number, First: x.first, NoDecay: x.noDecay,
		Stochastic: x.f.stochastic, BNB: x.f.bnb}
}

// weights returns the weights at the full precision that is kept of them.
func (x *stepper) weights(t testing.TB) []float64 {
	switch x.f.master {
	case tensor.F32:
		return floats(t, x.d, x.s.Master)
	case tensor.U8:
		residual, w := bytesOf(t, x.d, x.s.Master), floats(t, x.d, x.w)
		for i, r := range residual {
			if x.f.weight == tensor.F16 {
				w[i] = f16and8(int32(tensor.F16FromF32(float32(w[i])))<<8 + int32(int8(r)))
				continue
			}
			f24 := int32(math.Float32bits(float32(w[i]))>>16)<<8 + int32(int8(r))
			w[i] = float64(math.Float32frombits(uint32(f24) << 8))
		}
		return w
	}
	return floats(t, x.d, x.w)
}

// f16and8 returns the value of a float that is an F16 with 8 more bits of mantissa.
func f16and8(bits int32) float64 {
	exponent, mantissa := bits>>18&31, float64(bits&(1<<18-1))
	if exponent == 31 {
		return float64(tensor.F16ToF32(uint16(bits >> 8)))
	}
	if exponent > 0 {
		mantissa += 1 << 18
	}
	return math.Copysign(math.Ldexp(mantissa, int(max(1, exponent))-15-18), float64(1-2*(bits>>23&1)))
}

// moments returns m and √v as they are kept.
func (x *stepper) moments(t testing.TB) (m, root []float64) {
	if !x.f.codes {
		m, root = floats(t, x.d, x.s.M), floats(t, x.d, x.s.V)
		for i := range root {
			root[i] = math.Sqrt(root[i])
		}
		return m, root
	}
	a, err := x.d.NewArena("moments", 2*(4*x.w.Len()+guardSize))
	expect.OK(t, err)
	defer a.Close()
	y, z := a.New("m", tensor.F32, x.w.Len()), a.New("v", tensor.F32, x.w.Len())
	x.d.Dequantize(y, x.s.M, x.s.MScale, true)
	x.d.Dequantize(z, x.s.V, x.s.VScale, false)
	m, root = floats(t, x.d, y), floats(t, x.d, z)
	if x.f.bnb {
		for i := range root {
			root[i] = math.Sqrt(root[i])
		}
	}
	return m, root
}
