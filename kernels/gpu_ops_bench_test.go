package kernels

import "restyle/tensor"

// opsCases are those of the loss, of the step's control and of what moves rows.
func opsCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	control := gpuOperand{tensor.F64, []int{4}, 2}
	perRow := gpuOperand{tensor.F32, []int{rows}, 1}
	return []gpuCase{
		{"add squares", []gpuOperand{control, full(1)}, func(d *Device, x []tensor.Tensor) { d.AddSquares(Control{x[0]}, x[1]) }},
		{"decide", []gpuOperand{control, perRow}, func(d *Device, x []tensor.Tensor) {
			d.AddLoss(Control{x[0]}, x[1])
			d.Decide(Control{x[0]}, 1)
		}},
	}
}
