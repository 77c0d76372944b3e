package kernels

import (
	"fmt"
	"math"
	"testing"
	"time"

	"restyle/tensor"
)

// An adamWForm is the form of a tensor: everything except its number of elements.
type adamWForm struct {
	name                    string
	weight, gradient        tensor.DType
	codes, stochastic, bits bool
	master                  tensor.DType // 0: none
}

// operands returns the operands of a tensor of that form: the weight, its gradient, both moments, their scales if they
// are codes, and the master weight.
func (f adamWForm) operands(n int) []gpuOperand {
	moment := gpuOperand{tensor.F32, []int{n}, 2}
	if f.codes {
		moment.t = tensor.U8
	}
	list := []gpuOperand{{f.weight, []int{n}, 2}, {f.gradient, []int{n}, 1}, moment, moment}
	if f.master == tensor.F32 {
		list[0].moved = 1 // it is only written
	}
	if f.codes {
		scale := gpuOperand{tensor.F32, []int{QuantBlocks(n)}, 2}
		list = append(list, scale, scale)
	}
	if f.master != 0 {
		list = append(list, gpuOperand{f.master, []int{n}, 2})
	}
	return list
}

// of returns the AdamWTensor with these operands.
func (f adamWForm) of(x []tensor.Tensor, number int) AdamWTensor {
	t := AdamWTensor{W: x[0], G: x[1], State: AdamWState{M: x[2], V: x[3]}, Number: number, Stochastic: f.stochastic,
		BNB: f.bits}
	if x = x[4:]; f.codes {
		t.State.MScale, t.State.VScale, x = x[0], x[1], x[2:]
	}
	if f.master != 0 {
		t.State.Master = x[0]
	}
	return t
}

// adamWForms are those of weights of 16 bits, with gradients of both types.
var adamWForms = []adamWForm{
	{name: "split8", weight: tensor.BF16, codes: true, master: tensor.U8},
	{name: "sr", weight: tensor.BF16, codes: true, stochastic: true},
	{name: "fp32 master", weight: tensor.BF16, codes: true, master: tensor.F32},
	{name: "32 bits", weight: tensor.BF16, master: tensor.F32},
}

// optimizerCases returns the cases of steps, quantizing and dequantizing.
func optimizerCases(t tensor.DType, rows, dim int) (cases []gpuCase) {
	n := rows * dim
	var forms []adamWForm
	if t.Half() {
		for i, f := range adamWForms {
			f.weight, f.gradient = t, []tensor.DType{tensor.F32, t}[i%2]
			forms = append(forms, f)
		}
	}
	forms = append(forms, adamWForm{name: "8 bits", weight: t, gradient: t, codes: true})
	if t != tensor.F16 {
		forms = append(forms, adamWForm{name: "bitsandbytes", weight: t, gradient: t, codes: true, bits: true})
	}
	for _, f := range forms {
		cases = append(cases, gpuCase{fmt.Sprintf("adamw %s, gradient %v", f.name, f.gradient), f.operands(n),
			func(d *Device, x []tensor.Tensor) {
				d.AdamW(f.of(x, 0), AdamWStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 1, Step: 10})
			}})
	}
	gradient, list := gpuOperand{t, []int{n}, 1}, gpuOperand{tensor.U8, []int{adamWRange}, 0}
	state := gpuOperand{tensor.F32, []int{n}, 0}
	cases = append(cases, gpuCase{"add squares of a list", []gpuOperand{gradient, {tensor.F64, []int{4}, 1}, list, state},
		func(d *Device, x []tensor.Tensor) {
			d.AddSquaresAll(Control{x[1]}, d.NewAdamWList(x[2],
				[]AdamWTensor{{W: x[0], G: x[0], State: AdamWState{M: x[3], V: x[3]}}}))
		}})
	x, codes, scale := gpuOperand{tensor.F32, []int{n}, 1}, gpuOperand{tensor.U8, []int{n}, 1},
		gpuOperand{tensor.F32, []int{QuantBlocks(n)}, 1}
	for _, signed := range []bool{true, false} {
		cases = append(cases,
			gpuCase{fmt.Sprint("quantize signed ", signed), []gpuOperand{codes, scale, x},
				func(d *Device, x []tensor.Tensor) { d.Quantize(x[0], x[1], x[2], signed) }},
			gpuCase{fmt.Sprint("dequantize signed ", signed), []gpuOperand{x, codes, scale},
				func(d *Device, x []tensor.Tensor) { d.Dequantize(x[0], x[1], x[2], signed) }})
	}
	return cases
}

// llama returns the sizes of Llama-3.2-1B's parameters, without its norms: 1.236 billion elements in all.
func llama() (sizes []int) {
	const dim, inner, kv = 2048, 8192, 512
	sizes = append(sizes, 128256*dim)
	for range 16 {
		sizes = append(sizes, dim*dim, kv*dim, kv*dim, dim*dim, inner*dim, inner*dim, dim*inner)
	}
	return sizes
}

// BenchmarkGPUAdamW times a step of all of Llama-3.2-1B's matrices, in each form and with gradients of both types, and
// reports what it moves as a share of a copy's bandwidth: with a single launch, and with one per tensor.
//
//	go test ./kernels -run '^$' -bench GPUAdamW -benchtime 1x
func BenchmarkGPUAdamW(b *testing.B) {
	d, err := Open("cuda", Options{})
	if err != nil {
		b.Skip(err)
	}
	for _, f := range adamWForms {
		for _, f.gradient = range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, each := range []bool{false, true} {
				name := fmt.Sprintf("%s, gradient %v", f.name, f.gradient)
				if each {
					name += ", tensor by tensor"
				}
				b.Run(name, func(b *testing.B) { f.time(b, d, each) })
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}

func (f adamWForm) time(b *testing.B, d *Device, each bool) {
	var list []AdamWTensor
	var memory tensor.Tensor
	moved := 0
	cut := func(a *Arena) {
		list, moved = nil, 0
		for i, n := range llama() {
			var x []tensor.Tensor
			for _, o := range f.operands(n) {
				x = append(x, a.New("operand", o.t, o.shape...))
				moved += o.moved * x[len(x)-1].Bytes()
			}
			list = append(list, f.of(x, i))
		}
		memory = a.New("list", tensor.U8, AdamWListSize(len(list)))
	}
	a, err := d.NewArena("benchmark", SizeOf(cut))
	if err != nil {
		b.Skip(err)
	}
	defer a.Close()
	cut(a)
	best := func(f func()) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 7 {
			t, err := d.gpu.Time(f)
			if err != nil {
				b.Fatal(err)
			}
			least = min(least, t)
		}
		return least
	}
	half := a.size / 2 &^ (align - 1)
	copied := best(func() { d.fail(d.gpu.Copy(a.base+uintptr(half), a.base, half)) })
	for _, x := range list {
		for _, state := range []tensor.Tensor{x.State.M, x.State.V, x.State.MScale, x.State.VScale, x.State.Master} {
			if state.Ok() {
				d.Zero(state)
			}
		}
		randomise(d, x.W)
		randomise(d, x.G)
	}
	lists := []*AdamWList{d.NewAdamWList(memory, list)}
	if each {
		lists = nil
		for i := range list {
			lists = append(lists, d.NewAdamWList(memory.Part(i*adamWRange, adamWRange), list[i:i+1]))
		}
	}
	step := AdamWStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 1}
	ran := best(func() {
		step.Step++
		for _, l := range lists {
			d.AdamWAll(l, step)
		}
	})
	for b.Loop() {
	}
	rate, ceiling := float64(moved)/ran.Seconds(), float64(2*half)/copied.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ran.Seconds()*1e3, "ms")
	b.ReportMetric(rate/1e12, "TB/s")
	b.ReportMetric(ceiling/1e12, "copy-TB/s")
	b.ReportMetric(100*rate/ceiling, "%copy")
}
