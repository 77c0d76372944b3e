package kernels

import "restyle/tensor"

// rowCases returns the cases of softmax, and of products element by element.
func rowCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	long := gpuOperand{t, []int{8, 100000 + dim%2}, 1} // read twice: counted once
	softmax := func(d *Device, x []tensor.Tensor) { d.Softmax(x[0], tensor.Tensor{}, x[1]) }
	backward := func(d *Device, x []tensor.Tensor) { d.SoftmaxBackward(x[0], x[1], x[2]) }
	return []gpuCase{
		{"softmax forward", []gpuOperand{full(1), full(1)}, softmax},
		{"softmax backward", []gpuOperand{full(1), full(1), full(1)}, backward},
		{"softmax long forward", []gpuOperand{long, long}, softmax},
		{"softmax long backward", []gpuOperand{long, long, long}, backward},
		{"mul forward", []gpuOperand{full(1), full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.Mul(x[0], x[1], x[2]) }},
		{"mul backward", []gpuOperand{full(1), full(1), full(1), full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.MulBackward(x[0], x[1], x[2], x[3], x[4]) }},
	}
}
