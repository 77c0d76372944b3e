// Package kernels implements the operations of a model, forward and backward, on the CPU and on NVIDIA GPUs. An
// operation's file, op_NAME.go, has its formula, its shapes, its CPU path and its GPU launch. The loops are in C
// (cpu/ops_NAME.c) and the GPU's kernels in CUDA (op_NAME.cu); all matrix products go through product.go.
//
//	forward                  backward                   fused as           cpu/ops_*.c      *.cu
//	Linear                   LinearBackward                                gemm int8        op_int8
//	LinearPart               LinearPartBackward
//	LinearINT8               LinearGradient
//	                         BiasGradient
//	LinearActivation         ActivationBackward         linear_activation  gemm gelu
//	                         ActivationLinearBackward
//	LinearSwiGLU             SwiGLULinearBackward       swiglu             gemm swiglu
//	SwiGLU                   SwiGLUBackward             swiglu             swiglu           op_swiglu
//	SiLU
//	GELU                     GELUBackward                                  gelu             op_gelu
//	GELUTanhApprox
//	RMSNorm                  RMSNormBackward            rmsnorm            norm             op_rmsnorm
//	AddRMSNorm               AddRMSNormBackward
//	LayerNorm                LayerNormBackward          layernorm          norm             op_layernorm
//	AddLayerNorm             AddLayerNormBackward
//	QKNorm                   QKNormBackward                                norm             op_qknorm
//	RoPE                     RoPEBackward                                  rope             op_rope
//	Attention                AttentionBackward          attention          attention        op_attention*
//	AppendKV                                                               attention        op_attention_rows
//	AttentionCached
//	AppendPaged                                                            paged            op_paged
//	AttentionPaged                                                                          op_attention_paged
//	Embedding                EmbeddingBackward                             rows             op_embedding op_sort
//	CrossEntropy                                        crossentropy       loss             op_crossentropy
//	Route                    RouteBackward                                 experts          op_experts*
//	Combine                  AddBalance
//	                         WeighPairs
//	GroupedLinear            GroupedLinearBackward      swiglu             gemm
//	GroupedSwiGLU            GroupedLinearGradient
//	GatherRows                                                             rows             op_gather
//	ScatterRows
//	Add                                                                    add              op_add
//	Mul                      MulBackward                                   mul              op_mul
//	Dropout                                                                dropout          op_dropout
//	KeepColumns                                                            keep_columns     op_keep_columns
//	PairFactors              PairGradient                                  attention        op_pair
//	AddPair                                                                gemm
//	Softmax                  SoftmaxBackward                               softmax          op_softmax
//	TopK                     TopKBackward                                  topk             op_topk
//	Argmax
//	Draw                                                                   topk             op_draw
//	BatchedProduct           BatchedProductBackward                        gemm
//	DequantizeWeights                                                      quant            op_quantized
//	NormLinear                                          rmsnorm swiglu     norm swiglu      product_one_row*
//	NormLinearPart
//	NormSwiGLU
//	LinearAdd
//	LinearAddBefore
//	AttentionNext                                       attention          attention topk   op_attention_decode op_argmax
//	ChooseNext
//	AddSquares                                                             optim_squares    op_squares
//	SquaresAll                                                             optim_squares    op_adamw
//	AdamW                                                                  optim            op_adamw step_control
//	AdamWAll
//	Quantize                                                               optim            op_map8
//	Dequantize
//
// Start with [Open]. Operations are methods of a [Device] and work on tensors in its arenas. They share these rules:
//
//   - Gradients of parameters accumulate (dw += …), so that a step may have several micro-batches. Gradients of
//     activations overwrite (dx = …), unless a name says Add.
//   - Activations and weights are all F32, all BF16 or all F16. Sums, norm statistics, softmax, RoPE angles and losses
//     are computed in float32 either way; a result is rounded once, when it is stored. Gradients of weights are F32, or
//     the weights' type for matrices.
//   - A wrong shape or type is a programming error: the operation panics with its name and the operands.
//   - A GPU error sticks to the Device; Sync, Download and Err return it.
//   - If an operation combines several, its comment says which. Options.Fused chooses whether it runs as one kernel or
//     as the separate operations one after the other, with all intermediates in memory.
//
// Only one goroutine at a time may use a Device and the tensors in its arenas.
package kernels
