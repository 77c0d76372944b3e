package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A pass is one way through the model with a batch, forward and perhaps back: where it is, and all activations, cut from one
// arena in the order in which they are needed.
type pass struct {
	dev  *kernels.Device
	rope *ropeTable

	staged         tensor.Tensor // I32 [5·most + 1]: what follows of I32, each from a multiple of most on, brought to the device as one
	ids, positions tensor.Tensor // I32 [rows], of staged
	index, targets tensor.Tensor // I32 [trained], of staged
	loss           tensor.Tensor // F32 [trained]; nothing else of the pass lies there, so it can be read when all is done
	offsets        tensor.Tensor // I32 [len(starts)], of staged
	rows           int
	cuSeqlens      []int32  // where its sequences begin, and the end of the last; none of them is empty
	cache          *KVCache // whose sequence the rows go on; nil for whole sequences

	layers []layerActs   // of each block; those that are not kept share their memory
	branch tensor.Tensor // [rows, dim] what a half of a block adds to the residual stream
	last   normActs      // of the last norm
	head   headActs

	recompute Recompute
	overwrite bool          // gradients, instead of adding to them
	dh        tensor.Tensor // [rows, dim] the gradient of the residual stream
	actGrads  actGrads
}

// grads are where the backward pass of every block has its gradients of activations.
type actGrads struct {
	dx      tensor.Tensor // [rows, dim] of a norm's output
	dqkv    tensor.Tensor
	dy      tensor.Tensor // [rows, heads·headDim]
	dgateUp tensor.Tensor
	dact    tensor.Tensor
}

// extent is how large a pass is.
type extent struct {
	maxTokens int  // tokens of the largest pass: what is staged for one lies where it lies for all
	rows      int  // tokens
	targets   int  // those that predict something
	logits    int  // rows of logits at a time
	keep      bool // what a backward pass needs
}

// stage brings all that a pass is told to the device, in one piece.
func (p *pass) stage(lists ...[]int32) {
	most := p.staged.Len() / 5
	all := make([]int32, p.staged.Len())
	for i, list := range lists {
		copy(all[i*most:], list)
	}
	p.dev.UploadI32(p.staged, all)
}
