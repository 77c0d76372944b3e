package parity

// The limits of errors. The error of a tensor is ‖x - reference‖ / ‖reference‖ over the whole tensor unless a name says
// otherwise. PyTorch's own float32 differs from the exact value by up to 1e-6 in outputs of small models and by 2.4e-6
// in their gradients. Mistakes cause errors of at least 1e-4, most of them 5e-2.
const (
	exact = 0 // ids, texts, hashes, numbers of things

	limitInvFreq   = 1e-6  // each; PyTorch's float32 table is up to 4e-7 from the formula
	limitAttention = 1e-7  // RoPE's factor of attention: float64
	limitAngle     = 1e-5  // cosines and sines; PyTorch's angles are in float32: 2.3e-6
	limitOutput    = 1e-5  // float32 logits, hidden states, losses, gradients, norms of gradients
	limitEach      = 1e-4  // largest single difference over the rms; PyTorch 9e-6
	limitRate      = 1e-12 // learning rates: the same formula in float64

	limitFinal        = 1e-5 // parameters after ten steps; another float32 path of PyTorch differs by 4e-8
	limitWay          = 1e-3 // of the distance that they moved, ‖p - reference‖ / ‖reference - start‖; the same path, 2e-5
	limitFinalKeyBias = 1e-4 // a key bias has almost no gradient, and Adam divides noise by noise: 6e-6
	limitWayKeyBias   = 1e-2 // the same path, 7e-4

	limitAuxiliary = 1e-6 // the auxiliary loss of a mixture of experts; PyTorch 1e-7
	limitMargin    = 1e-4 // relative: the difference of two logits, which is a quarter of them or more

	limitGap       = 1e-4 // of the two largest logits, absolute; correct float32 computations differ by 3e-5
	limitGapBF16   = 0.5  // BF16 must agree on the next token if the gap is larger; PyTorch's differs up to 0.11
	limitLossBF16  = 2e-3 // PyTorch's own error is a difference of two numbers, small by luck, and no measure
	timesBF16      = 2    // times PyTorch's own error; another of its BF16 paths has 0.7 to 1.4 times
	timesBF16Small = 3    // for tensors of fewer elements than smallTensor; the same path has 0.6 to 1.65 times
	smallTensor    = 100

	// Runs in F16, with a scaled loss.
	limitLossF16    = 1e-3 // PyTorch's is 1.2e-4 from float32; another of its paths differs by 8e-5 from that
	limitNormF16    = 5e-3 // of the gradient, 9e-4 and 4.5e-4
	limitLargestF16 = 0.02 // the largest element of a gradient
	timesF16Way     = 3    // times PyTorch's own error of the way of the masters; the other path has up to 1.3 times
	// elements of a matrix whose first gradient is only rounding: Adam moves each by the learning rate, one way or the
	// other
	turnedF16 = 2

	// bitsandbytes approximates roots and reciprocals; the same formulas with exact ones differ by the last number of each
	// comment.
	limitUlps       = 1    // of moments and scales; 0
	limitCodes      = 1e-3 // fraction of codes that are off by one: those on a midpoint; 2.4e-4
	limitWayBNB     = 3e-4 // of the distance that weights moved; 8e-5. The same for PyTorch's AdamW, 7e-5
	limitWayBNBBF16 = 0.02 // 6.3e-3: one weight that rounded the other way, where a step is about an ulp
	limitOther      = 0.01 // fraction of BF16 weights that differ; 0.004

	// Single operations are compared with exact results.
	limitSoftmax   = 1e-6 // PyTorch 2.7e-7
	limitProduct   = 2e-6 // PyTorch 6e-7
	limitLayerNorm = 1e-5 // PyTorch 1e-7
	limitOpBF16    = 4e-3 // float32 inside, rounded once

	// Adapters, as PEFT trains and merges them.
	limitAdapter = 2e-5 // gradients; PyTorch's own error is at most 1.7e-6
	limitBound   = 1e-6 // beyond a bound of random numbers that is rounded to float32
	limitMerged  = 1e-6 // float32; the order of the sum over the rank, and one rounding
	limitTurned  = 1e-3 // fraction of BF16 weights that a float32 sum in another order rounds the other way; 4.8e-4

	limitBlocks  = 1e-5 // relative, of the error that quantizing has; the same sums in another order, 1e-7
	limitFactors = 5e-7 // of what RoPE's frequencies are divided by: a float32 power
	limitScale   = 1e-7 // of an adapter: alpha is float32
	limitRefusal = 16   // MB allocated to refuse a damaged file

	limitQuantBF16 = 0.03 // logits with quantized weights; a model that is not quantized, 0.01
)

// At full size, rows are longer, there are more layers, and the noise is about five times as large as in the small
// models.
const (
	fullLogSumExp   = 1e-4 // absolute; PyTorch 1.3e-6
	fullNorm        = 1e-5 // hidden states' norms, gradients' norms; 4.9e-7
	fullLogits      = 2e-5 // 4.6e-6
	fullEach        = 1e-4 // 2.1e-5
	fullArgmaxLogit = 1e-4 // absolute
	fullDot         = 1e-4 // difference divided by the norm of that gradient; 2.3e-5
	fullGradEach    = 2e-4 // divided by the rms of the stored values; 4.3e-5
	fullStep        = 1e-4 // losses and norms after a step; two paths of PyTorch differ by 6.4e-7 after AdamW's
	fullGap         = 2e-4 // absolute; 1e-5

	fullLogSumExpBF16 = 0.01 // absolute; PyTorch's BF16 0.0018
	fullNormBF16      = 0.01 // gradients' norms; 0.0038
	fullDotBF16       = 0.3  // 0.15
	fullGradEachBF16  = 0.5  // 0.24
	fullGapBF16       = 0.3
)
