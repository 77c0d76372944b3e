package kernels

import "restyle/tensor"

// rowCases returns the cases of softmax, and of products element by element.
func rowCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	long := gpuOperand{t, []int{8, 100000 + dim%2}, 1} // read twice: counted once
	softmax := func(d *Device, x []tensor.Tensor) { d.Softmax(x[0], tensor.Tensor{}, x[1]) }
	backward := func(d *Device, x []tensor.Tensor) { d.SoftmaxBackward(x[0], x[1], x[2]) }
	top := func(n int) []gpuOperand { // two of every eight elements of each row
		return []gpuOperand{{t, []int{n, 2}, 1}, {tensor.I32, []int{n, 2}, 1}, {t, []int{n, 8}, 1}}
	}
	return []gpuCase{
		{"softmax forward", []gpuOperand{full(1), full(1)}, softmax},
		{"softmax backward", []gpuOperand{full(1), full(1), full(1)}, backward},
		{"softmax long forward", []gpuOperand{long, long}, softmax},
		{"softmax long backward", []gpuOperand{long, long, long}, backward},
		{"top 2 of 8", top(rows), func(d *Device, x []tensor.Tensor) { d.TopK(x[0], x[1], x[2], 2) }},
		{"top 2 of 8 backward", top(rows), func(d *Device, x []tensor.Tensor) { d.TopKBackward(x[2], x[0], x[1]) }},
		{"argmax", []gpuOperand{{tensor.I32, []int{8}, 1}, long},
			func(d *Device, x []tensor.Tensor) { d.Argmax(x[0], x[1]) }},
		{"mul forward", []gpuOperand{full(1), full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.Mul(x[0], x[1], x[2]) }},
		{"mul backward", []gpuOperand{full(1), full(1), full(1), full(1), full(1)},
			func(d *Device, x []tensor.Tensor) { d.MulBackward(x[0], x[1], x[2], x[3], x[4]) }},
	}
}
