package kernels

import "restyle/tensor"

// productCases are a layer's products: its output with a bias, and the gradients of what goes in and of the weight.
func productCases(t tensor.DType, rows, dim int) []gpuCase {
	x, w := gpuOperand{t, []int{rows, dim}, 1}, gpuOperand{t, []int{dim, dim}, 1}
	bias, dw := gpuOperand{t, []int{dim}, 1}, gpuOperand{tensor.F32, []int{dim, dim}, 2}
	return []gpuCase{
		{"linear", []gpuOperand{x, x, w, bias}, func(d *Device, x []tensor.Tensor) { d.Linear(x[0], x[1], x[2], x[3]) }},
		{"linear dx", []gpuOperand{x, x, w}, func(d *Device, x []tensor.Tensor) { d.LinearBackward(x[0], x[1], x[2], false) }},
		{"linear dw", []gpuOperand{dw, x, x}, func(d *Device, x []tensor.Tensor) { d.LinearGradient(x[0], x[1], x[2], 0, true) }},
	}
}
