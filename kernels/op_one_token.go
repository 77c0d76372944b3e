package kernels

import (
	"fmt"
	"slices"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// The operations below combine a layer's operations for a single token. They read memory once; apart from that, the
// number of kernels is what takes time. On a GPU each is one kernel for a BF16 row of whole 16-byte words, and
// attention is two. In all other cases, and on the CPU, the steps run one by one.

// NormLinear is a linear layer after a norm:
//
//	y = Linear(RMSNorm(x, norm), w, bias)
//
// x is [rows, in], norm [in], w [out, in], bias [out] or the zero Tensor, all of one type; y is [rows, out], F32 or
// BF16. The norm's result is rounded to the type of x. There may be a Pair.
func (d *Device) NormLinear(y, x, norm, w, bias tensor.Tensor, eps float32, pair ...Pair) {
	const op = "NormLinear"
	checkLinear(op, y, x, w)
	d.normLinearPart(op, y, x, norm, w, bias, eps, 0, pair)
}

// NormLinearPart is NormLinear for some of the outputs: see LinearPart.
func (d *Device) NormLinearPart(y, x, norm, w, bias tensor.Tensor, eps float32, from int, pair ...Pair) {
	d.normLinearPart("NormLinearPart", y, x, norm, w, bias, eps, from, pair)
}

func (d *Device) normLinearPart(op string, y, x, norm, w, bias tensor.Tensor, eps float32, from int, pair []Pair) {
	want(op, "norm", norm, x.DType, x.Dim(-1))
	p := partOf(op, y, x, w, bias, from)
	p = paired(op, p, partOfPair(pair, from, p.B.Rows))
	if d.oneRow(p) {
		d.ran("norm_linear")
		d.matvec(p, rowNorm{norm, eps}, false, expertRows{})
		return
	}
	defer d.release(d.mark())
	d.LinearPart(y, d.normed(x, norm, eps), w, bias, from, pair...)
}

// NormSwiGLU is the first half of a feed-forward layer after a norm:
//
//	y = SwiGLU(Linear(RMSNorm(x, norm), w, bias))
//
// x is [rows, in], norm [in], w [2·inner, in] and bias [2·inner] or the zero Tensor, all of one type; y is [rows,
// inner] of that type. There may be a Pair. As one kernel, it does not round the linear layer's sums before SwiGLU.
func (d *Device) NormSwiGLU(y, x, norm, w, bias tensor.Tensor, eps float32, pair ...Pair) {
	const op = "NormSwiGLU"
	floating(op, "x", x)
	want(op, "norm", norm, x.DType, x.Dim(-1))
	wantWeights(op, w, x.DType, w.Rows(), x.Dim(-1))
	if bias.Ok() {
		want(op, "bias", bias, x.DType, w.Rows())
	}
	want(op, "y", y, x.DType, x.Rows(), w.Rows()/2)
	if w.Rows()%2 != 0 {
		panic(fmt.Sprintf("%s: w is %v: must have an even number of rows, gate and up", op, w))
	}
	p := paired(op, cpu.Product{C: y.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr}, pair)
	if d.oneRow(p) {
		d.ran("norm_swiglu")
		d.matvec(p, rowNorm{norm, eps}, true, expertRows{})
		return
	}
	defer d.release(d.mark())
	d.LinearSwiGLU(y, tensor.Tensor{}, d.normed(x, norm, eps), w, bias, pair...)
}

// LinearAddBefore is LinearAdd followed by a layer with the weights next. While LinearAdd waits for its input, a GPU
// prefetches them into its L2 cache, up to a quarter of it. Weights in F32 are not prefetched.
func (d *Device) LinearAddBefore(next, h, x, w, bias tensor.Tensor, pair ...Pair) {
	if d.gpu != nil && x.Rows() == 1 && (next.DType.Half() || next.DType.Quantized()) {
		d.prefetch = tensor.Tensor{DType: tensor.U8, Shape: []int{min(next.Bytes(), d.gpu.L2/4)}, Addr: next.Addr}
	}
	d.LinearAdd(h, x, w, bias, pair...)
	d.prefetch = tensor.Tensor{}
}

// LinearAdd adds a linear layer's output to the residual stream:
//
//	h += Linear(x, w, bias)
//
// h is [rows, out], x [rows, in], w [out, in] and bias [out] or the zero Tensor, all of one type. The sum is rounded
// once, except by cuBLASLt, which rounds a BF16 layer's output before it adds it. There may be a Pair.
func (d *Device) LinearAdd(h, x, w, bias tensor.Tensor, pair ...Pair) {
	const op = "LinearAdd"
	checkLinear(op, h, x, w)
	wantWeights(op, w, x.DType, h.Dim(-1), x.Dim(-1))
	want(op, "h", h, x.DType, h.Len())
	if bias.Ok() {
		want(op, "bias", bias, x.DType, h.Dim(-1))
	}
	d.ran("linear_add")
	p := cpu.Product{C: h.Matrix(), A: x.Matrix(), B: w.Matrix(), TransB: true, Bias: bias.Addr, Add: true}
	d.product(paired(op, p, pair))
}

// maxNormedRow is the maximum length of a row that every thread block normalizes for itself, in shared memory.
const maxNormedRow = 20 << 10

// oneRow reports whether matvec computes the product, together with its norm, because A has a single row.
func (d *Device) oneRow(p cpu.Product) bool {
	return d.gpu != nil && p.A.Rows == 1 && d.fewRows(p) && p.A.Cols <= maxNormedRow
}

// Decodes reports whether each operation of a token, with rows of these lengths, dim first, and with weights of these
// quantized types or none, is one kernel, provided it is fused. Then they need no scratch memory, and a Graph can
// capture them.
func (d *Device) Decodes(t tensor.DType, quantized []tensor.DType, dim int, others ...int) bool {
	all, longest := dim, 0
	for _, n := range others {
		all, longest = all|n, max(longest, n)
	}
	if slices.ContainsFunc(quantized, fine) && longest > maxFineRow {
		return false
	}
	return d.gpu != nil && !d.rowsAlone && d.fused("rmsnorm") && d.fused("attention") && d.fused("swiglu") &&
		(t == tensor.BF16 || t == tensor.F16 && quantized == nil) && all%8 == 0 && dim <= maxNormedRow
}

// normed returns the norm of x, in scratch memory.
func (d *Device) normed(x, norm tensor.Tensor, eps float32) tensor.Tensor {
	y, rstd := d.scratch("norm", x.DType, x.Shape...), d.scratch("rstd", tensor.F32, x.Rows())
	d.RMSNorm(y, rstd, x, norm, eps)
	return y
}

// NextParts returns the shape of AttentionNext's scratch memory for tokens at positions less than reach.
func (s AttentionSpec) NextParts(reach int) []int {
	return []int{s.Heads, maxDecodeParts(s.visible(reach)), s.HeadDim + 2}
}

// visible returns how many of the last keys a query sees.
func (s AttentionSpec) visible(keys int) int {
	if s.Window > 0 {
		return min(keys, s.Window)
	}
	return keys
}

// AttentionNext is RoPE, AppendKV and AttentionCached for one token, at the given position:
//
//	qkv ← RoPE(qkv, position)
//	row position of k and v ← key and value of qkv
//	y = attention to rows 0 to position
//
// qkv is [1, (heads+2·kvHeads)·headDim] and y [1, heads·headDim]; k and v are [capacity, kvHeads·headDim], all of one
// type. position is [1] I32. It is read from memory, so a Graph that has captured this operation can be used for all
// positions less than reach. parts is F32, of the shape NextParts(reach). counters is [heads] I32, all 0 before and
// after. cos and sin are RoPE's. qkv is undefined afterwards. A position that is not less than reach, or for which the
// caches have no room, is a programming error, which goes undetected on a GPU.
func (d *Device) AttentionNext(y, qkv, k, v, position, cos, sin, parts, counters tensor.Tensor, reach int,
	s AttentionSpec) {
	const op = "AttentionNext"
	s = s.checked(op)
	width := s.KVHeads * s.HeadDim
	floating(op, "qkv", qkv)
	want(op, "qkv", qkv, qkv.DType, 1, s.Width())
	want(op, "y", y, qkv.DType, 1, s.Heads*s.HeadDim)
	want(op, "k", k, qkv.DType, k.Rows(), width)
	want(op, "v", v, qkv.DType, k.Rows(), width)
	d.checkRoPE(op, qkv, position, cos, sin, s.Heads, s.KVHeads)
	if parts.DType != tensor.F32 || !slices.Equal(parts.Shape, s.NextParts(reach)) {
		panic(fmt.Sprintf("%s: parts is %v: must be F32 %v", op, parts, s.NextParts(reach)))
	}
	want(op, "counters", counters, tensor.I32, s.Heads)
	if s.Bidirectional {
		panic(op + ": Bidirectional attention needs keys that the cache does not hold yet")
	}
	if d.gpu == nil {
		at := int(position.I32()[0])
		d.RoPE(qkv, position, cos, sin, s.Heads, s.KVHeads)
		d.AppendKV(k, v, qkv, s.Heads, s.KVHeads, at)
		d.AttentionCached(y, qkv, k, v, at, s)
		return
	}
	d.ran("attention_next")
	m, g := s.decoding(qkv, decodeParts(s.visible(reach)))
	g.ahead = true
	d.launch(kernel{"op_attention_decode.cu", "attention_next", m}, g, addr(y), addr(parts).movesSome(), addr(counters),
		addr(qkv), addr(k).movesSome(), addr(v).movesSome(), addr(position), addr(cos), addr(sin), i32(s.Heads),
		i32(s.KVHeads), i32(s.Window), i32(decodeSpan(s.visible(reach))), f32(s.scale()))
}

// chooseBlockDim is the number of threads of a thread block of choose_next, and the maximum number of thread blocks,
// because the threads of the last block combine one result each. A result has three words.
const chooseBlockDim = 256

// ChooseScratch is the number of elements of ChooseNext's scratch memory.
const ChooseScratch = 2 + 2*chooseBlockDim

// ChooseNext advances to the next token. next [3] I32 is a token, its position and the choice. The choice becomes the
// token with the highest logit, as Argmax finds it, and so does the token; the position becomes the next one. If a
// logit is NaN or +Inf, or all are -Inf, the choice becomes -1, and the token 0, because the next step needs a valid
// id. logits is F32. scratch is [ChooseScratch] I32; its first element is 0 before and after.
func (d *Device) ChooseNext(next, logits, scratch tensor.Tensor) {
	const op = "ChooseNext"
	want(op, "next", next, tensor.I32, 3)
	want(op, "scratch", scratch, tensor.I32, ChooseScratch)
	want(op, "logits", logits, tensor.F32, logits.Len())
	d.ran("choose_next")
	if d.gpu != nil {
		g := line(min(chooseBlockDim, blocks(logits.Len(), 4*chooseBlockDim)), chooseBlockDim)
		bests := scratch.Part(2, 2*chooseBlockDim) // like the counter, they stay in the L2 cache
		d.launch(kernel{"op_argmax.cu", "choose_next", macros{}}, g, addr(next), address(scratch.Addr), address(bests.Addr),
			addr(logits), i32(logits.Len()))
		return
	}
	to := next.I32()
	cpu.TopK(tensor.Tensor{}, next.Slice(2, 3), logits.View(1, logits.Len()), 1)
	if x := logits.F32()[to[2]]; x-x != 0 { // a NaN or an infinity comes first
		to[2] = -1
	}
	to[0] = max(to[2], 0)
	to[1]++
}
