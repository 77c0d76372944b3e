// Package model is the Llama family, computed by hand: its configuration, its parameters, a forward pass and the backward
// pass that belongs to it. There is no automatic differentiation. In each file Forward stands above Backward, and the
// second undoes the first line by line.
//
//	h = embed[ids]
//	for each block:
//	    h += O(Attention(RoPE(QKV(RMSNorm(h)))))
//	    h += Down(SwiGLU(GateUp(RMSNorm(h))))
//	loss = CrossEntropy(Head(RMSNorm(h)))
//
// A reader begins with Model and a step of it (step.go), then goes through a block: attention.go, mlp.go. Each part has its
// tensors, its activations, its forward and its backward pass in one file. Training, evaluation, recomputation and answers from
// a cache run the same forward pass.
//
// Two conventions hold everywhere. Gradients of parameters accumulate (+=) where Gradients does not say otherwise, so that a
// step may consist of several micro-batches; gradients of activations overwrite (=), but for the one of the residual stream, dh,
// to which each half of a block adds. And sequences of different lengths lie end to end, without padding: attention does not look
// across their borders, and positions begin again in each.
package model
