// Package model implements models of the Llama family and GPT-2: configuration, parameters, forward pass, and a
// backward pass written by hand, without automatic differentiation. A Llama is
//
//	h = embed[ids]
//	for each layer:
//	    h += O(Attention(RoPE(QKV(RMSNorm(h)))))
//	    h += Down(SwiGLU(GateUp(RMSNorm(h))))
//	loss = CrossEntropy(Head(RMSNorm(h)))
//
// and a GPT-2 has LayerNorm instead of RMSNorm, GELU(Up(…)) instead of SwiGLU(GateUp(…)), and learned positions that
// are added to the embedding instead of RoPE.
//
// Start reading at [Model] and its passes in step.go, then go through a layer: layer.go, attention.go, mlp.go. The file
// of a part holds its tensors, its activations, forward, and below it backward, which undoes forward line by line.
// Training, evaluation, recomputation and decoding from a KV cache all run the same forward code.
//
// Two conventions hold everywhere:
//
//   - Gradients of parameters accumulate (+=) unless [Gradients] says otherwise, so that a step may consist of several
//     micro-batches. Gradients of activations overwrite (=). The exception is dh, the gradient of the residual stream,
//     to which each half of a layer adds.
//   - Sequences of different lengths are laid end to end, without padding. Attention does not cross their boundaries,
//     and positions start at 0 in each.
package model
