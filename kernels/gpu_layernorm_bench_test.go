package kernels

import (
	"fmt"
	"testing"

	"restyle/tensor"
)

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

// BenchmarkGPULayerNormCuts times the gradient of LayerNorm of 16384 rows in BF16 with other cuts.
//
//	go test ./kernels -run '^$' -bench GPULayerNormCuts -benchtime 1x
func BenchmarkGPULayerNormCuts(b *testing.B) {
	d, err := Open("cuda", Options{Fused: All()})
	if err != nil {
		b.Skip(err)
	}
	defer func(cuts [2]normCut) { layerNormCuts = cuts }(layerNormCuts)
	for long, dim := range []int{2048, 8192} {
		for _, cut := range []normCut{
			layerNormCuts[long], {256, 1, 3}, {256, 1, 2}, {256, 1, 4}, {512, 1, 2}, {512, 1, 1}, {1024, 1, 1}, {512, 2, 1},
		} {
			layerNormCuts[long] = cut
			for _, c := range layerNormCases(tensor.BF16, 16384, dim) {
				b.Run(fmt.Sprintf("%d %v %s", dim, cut, c.name), func(b *testing.B) { c.time(b, d) })
			}
		}
	}
	if err := d.Close(); err != nil {
		b.Error(err)
	}
}
