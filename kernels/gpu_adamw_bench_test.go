package kernels

import (
	"fmt"

	"restyle/tensor"
)

// An adamWForm is what there is of a tensor beside its elements' number.
type adamWForm struct {
	name                    string
	weight, gradient        tensor.DType
	codes, stochastic, bits bool
	master                  tensor.DType // 0: none
}

// operands are those of a tensor of that form: the weight, its gradient, both moments, their scales if they are codes, and what
// is behind the weight.
func (f adamWForm) operands(n int) []gpuOperand {
	moment := gpuOperand{tensor.F32, []int{n}, 2}
	if f.codes {
		moment.t = tensor.U8
	}
	list := []gpuOperand{{f.weight, []int{n}, 2}, {f.gradient, []int{n}, 1}, moment, moment}
	if f.master == tensor.F32 {
		list[0].moved = 1 // it is written alone
	}
	if f.codes {
		scale := gpuOperand{tensor.F32, []int{QuantizeBlocks(n)}, 2}
		list = append(list, scale, scale)
	}
	if f.master != 0 {
		list = append(list, gpuOperand{f.master, []int{n}, 2})
	}
	return list
}

// of is a tensor with these operands.
func (f adamWForm) of(x []tensor.Tensor, number int) AdamWTensor {
	t := AdamWTensor{W: x[0], G: x[1], State: AdamWState{M: x[2], V: x[3]}, Number: number, Stochastic: f.stochastic, BNB: f.bits}
	if x = x[4:]; f.codes {
		t.State.MScale, t.State.VScale, x = x[0], x[1], x[2:]
	}
	if f.master != 0 {
		t.State.Master = x[0]
	}
	return t
}

// adamWForms are those of weights in BF16, beside gradients of both types.
var adamWForms = []adamWForm{
	{name: "split8", weight: tensor.BF16, codes: true, master: tensor.U8},
	{name: "sr", weight: tensor.BF16, codes: true, stochastic: true},
	{name: "fp32 master", weight: tensor.BF16, codes: true, master: tensor.F32},
	{name: "32 bits", weight: tensor.BF16, master: tensor.F32},
}

// optimiserCases are steps, and the way to codes and back.
func optimiserCases(t tensor.DType, rows, dim int) (cases []gpuCase) {
	n := rows * dim
	forms := []adamWForm{{name: "8 bits", weight: t, gradient: t, codes: true}, {name: "bitsandbytes", weight: t, gradient: t, codes: true, bits: true}}
	if t == tensor.BF16 {
		for i, f := range adamWForms {
			f.gradient = []tensor.DType{tensor.F32, tensor.BF16}[i%2]
			forms = append(forms, f)
		}
	}
	for _, f := range forms {
		cases = append(cases, gpuCase{fmt.Sprintf("adamw %s, gradient %v", f.name, f.gradient), f.operands(n), func(d *Device, x []tensor.Tensor) {
			d.AdamW(f.of(x, 0), AdamWStep{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, GradScale: 1, Step: 10})
		}})
	}
	x, codes, scale := gpuOperand{tensor.F32, []int{n}, 1}, gpuOperand{tensor.U8, []int{n}, 1}, gpuOperand{tensor.F32, []int{QuantizeBlocks(n)}, 1}
	for _, signed := range []bool{true, false} {
		cases = append(cases,
			gpuCase{fmt.Sprint("quantize signed ", signed), []gpuOperand{codes, scale, x}, func(d *Device, x []tensor.Tensor) { d.Quantize(x[0], x[1], x[2], signed) }},
			gpuCase{fmt.Sprint("dequantize signed ", signed), []gpuOperand{x, codes, scale}, func(d *Device, x []tensor.Tensor) { d.Dequantize(x[0], x[1], x[2], signed) }})
	}
	return cases
}
