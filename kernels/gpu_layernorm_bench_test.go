package kernels

import "restyle/tensor"

// layerNormCases returns the cases of LayerNorm, with bias.
func layerNormCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	stat, w := gpuOperand{tensor.F32, []int{rows}, 1}, gpuOperand{t, []int{dim}, 1}
	dw := gpuOperand{tensor.F32, []int{dim}, 2}
	return []gpuCase{
		{"layernorm forward", []gpuOperand{full(1), stat, stat, full(1), w, w}, func(d *Device, x []tensor.Tensor) {
			d.LayerNorm(x[0], x[1], x[2], x[3], x[4], x[5], 1e-5)
		}},
		{"layernorm backward", []gpuOperand{full(1), dw, dw, full(1), full(1), w, stat, stat},
			func(d *Device, x []tensor.Tensor) {
				d.LayerNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
			}},
		{"add layernorm forward", []gpuOperand{full(1), stat, stat, full(1), full(1), full(1), w, w},
			func(d *Device, x []tensor.Tensor) {
				d.AddLayerNorm(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], 1e-5)
			}},
		{"add layernorm backward", []gpuOperand{full(2), dw, dw, full(1), full(1), w, stat, stat},
			func(d *Device, x []tensor.Tensor) {
				d.AddLayerNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
			}},
	}
}
