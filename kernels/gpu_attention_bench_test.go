package kernels

import "restyle/tensor"

// attentionCases are attention with the head dimensions that most models have, or one of no such model where dim is odd.
func attentionCases(t tensor.DType, rows, dim int) (cases []gpuCase) {
	headDims := []int{32, 64, 96, 128}
	if dim%2 != 0 {
		headDims = []int{max(dim-1, 2)}
	}
	for _, headDim := range headDims {
		s := AttentionSpec{CuSeqlens: []int32{0, int32(rows)}, Heads: 4, KVHeads: 1, HeadDim: headDim}
		of := func(columns int) gpuOperand { return gpuOperand{t, []int{rows, columns}, 1} }
		qkv, y, cache := of(s.Width()), of(s.Heads*s.HeadDim), of(s.KVHeads*s.HeadDim)
		lse, offsets := gpuOperand{tensor.F32, []int{s.Heads, rows}, 1}, gpuOperand{tensor.I32, []int{2}, 1}
		at := func(x tensor.Tensor) AttentionSpec {
			s.Offsets = x
			return s
		}
		cases = append(cases,
			gpuCase{"attention forward", []gpuOperand{y, lse, qkv, offsets}, func(d *Device, x []tensor.Tensor) {
				d.Attention(x[0], x[1], x[2], at(x[3]))
			}},
			gpuCase{"attention backward", []gpuOperand{qkv, y, y, lse, qkv, offsets}, func(d *Device, x []tensor.Tensor) {
				d.AttentionBackward(x[0], x[1], x[2], x[3], x[4], at(x[5]))
			}},
			gpuCase{"append kv", []gpuOperand{cache, cache, qkv}, func(d *Device, x []tensor.Tensor) {
				d.AppendKV(x[0], x[1], x[2], s.Heads, s.KVHeads, 0)
			}},
			gpuCase{"attention, a chunk of a prompt", []gpuOperand{y, qkv, cache, cache}, func(d *Device, x []tensor.Tensor) {
				d.AttentionCached(x[0].Slice(0, rows/2), x[1].Slice(0, rows/2), x[2], x[3], rows-rows/2, s)
			}},
			gpuCase{"attention, a token", []gpuOperand{y, qkv, cache, cache}, func(d *Device, x []tensor.Tensor) {
				d.AttentionCached(x[0].Slice(0, 1), x[1].Slice(0, 1), x[2], x[3], rows-1, s)
			}})
	}
	return cases
}
