package model

import (
	"restyle/kernels"
	"restyle/tensor"
)

// pass is one pass of a batch through the model, forward and possibly backward: its position in the sequences, and all
// activations, allocated from one arena in the order in which they are needed.
type pass struct {
	dev  *kernels.Device
	rope *ropeTable

	staged         tensor.Tensor // I32 [5·maxTokens + 1]: ids, positions, index, targets and offsets, uploaded as one
	ids, positions tensor.Tensor // I32 [rows], of staged
	index, targets tensor.Tensor // I32 [targets], of staged: the positions that predict a label, and these labels
	loss           tensor.Tensor // F32 [targets]; no other tensor of the pass overlaps it, so it can be read at the end
	offsets        tensor.Tensor // I32 [len(cuSeqlens)], of staged
	rows           int
	cuSeqlens      []int32    // without empty sequences
	cache          *KVCache   // the rows extend its sequence; nil for whole sequences
	paged          *pagedRows // the rows extend sequences of a Pool

	layers []layerActs   // those that are not kept share memory
	branch tensor.Tensor // [rows, dim], what attention or MLP adds to the residual stream
	last   normActs      // of the last norm
	head   headActs

	mixture mixturePass // of layers with experts
	lowRank lowRank     // of layers with adapters

	recompute Recompute
	overwrite bool          // overwrite gradients instead of adding to them
	beside    func()        // Gradients.Beside
	dh        tensor.Tensor // [rows, dim] the gradient of the residual stream
	actGrads  actGrads
}

// actGrads holds the gradients of activations. The backward passes of all layers share it.
type actGrads struct {
	dx      tensor.Tensor // [rows, dim], of a norm's output
	dqkv    tensor.Tensor
	dy      tensor.Tensor // [rows, heads·headDim]
	dgateUp tensor.Tensor
}

// extent is the size of a pass.
type extent struct {
	maxTokens int  // of the largest pass: sets the layout of staged, which is the same for all passes
	rows      int  // tokens
	targets   int  // target positions
	logits    int  // rows of logits at once
	keep      bool // keep what a backward pass needs
}

// stage uploads the pass's lists of numbers in one piece.
func (p *pass) stage(lists ...[]int32) {
	maxTokens := p.staged.Len() / 5
	all := make([]int32, p.staged.Len())
	for i, list := range lists {
		copy(all[i*maxTokens:], list)
	}
	p.dev.UploadI32(p.staged, all)
}
