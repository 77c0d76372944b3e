package kernels

import "restyle/tensor"

// appendPagedGPU is AppendPaged on a GPU.
func (d *Device) appendPagedGPU(_, _, _, _ tensor.Tensor, _, _ int) {
	panic("AppendPaged: not on a GPU yet")
}

// attentionPagedGPU is AttentionPaged on a GPU.
func (d *Device) attentionPagedGPU(_, _, _, _, _, _ tensor.Tensor, _ int, _ AttentionSpec) {
	panic("AttentionPaged: not on a GPU yet")
}
