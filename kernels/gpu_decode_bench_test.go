package kernels

import "restyle/tensor"

// decodeCases returns the cases that one token of an answer launches.
func decodeCases(t tensor.DType, dim int) []gpuCase {
	row := func(n int) gpuOperand { return gpuOperand{t, []int{1, n}, 1} }
	norm, w := gpuOperand{t, []int{dim}, 1}, gpuOperand{t, []int{4 * dim, dim}, 1}
	logits, next := gpuOperand{tensor.F32, []int{128256}, 1}, gpuOperand{tensor.I32, []int{3}, 1}
	scratch := gpuOperand{tensor.I32, []int{ChooseScratch}, 0}
	cases := []gpuCase{
		{"norm and layer", []gpuOperand{row(4 * dim), row(dim), norm, w}, func(d *Device, x []tensor.Tensor) {
			d.NormLinear(x[0], x[1], x[2], x[3], tensor.Tensor{}, 1e-5)
		}},
		{"norm, layer and SwiGLU", []gpuOperand{row(2 * dim), row(dim), norm, w}, func(d *Device, x []tensor.Tensor) {
			d.NormSwiGLU(x[0], x[1], x[2], x[3], tensor.Tensor{}, 1e-5)
		}},
		{"layer onto the stream", []gpuOperand{{t, []int{1, 4 * dim}, 2}, row(dim), w}, func(d *Device, x []tensor.Tensor) {
			d.LinearAdd(x[0], x[1], x[2], tensor.Tensor{})
		}},
		{"choice of the next token", []gpuOperand{next, logits, scratch},
			func(d *Device, x []tensor.Tensor) { d.ChooseNext(x[0], x[1], x[2]) }},
	}
	for _, s := range []AttentionSpec{{Heads: 32, KVHeads: 8, HeadDim: 64}, {Heads: 32, KVHeads: 8, HeadDim: 128}} {
		const reach = 1024
		cache, angles := gpuOperand{t, []int{reach, s.KVHeads * s.HeadDim}, 0},
			gpuOperand{tensor.F32, []int{reach, s.HeadDim / 2}, 0}
		position, parts := gpuOperand{tensor.I32, []int{1}, 1}, gpuOperand{tensor.F32, s.NextParts(reach), 2}
		counters := gpuOperand{tensor.I32, []int{s.Heads}, 0}
		cases = append(cases, gpuCase{"attention of the next token", []gpuOperand{row(s.Heads * s.HeadDim), row(s.Width()),
			cache, cache, position, angles, angles, parts, counters},
			func(d *Device, x []tensor.Tensor) {
				d.AttentionNext(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], reach, s)
			}})
	}
	return cases
}
