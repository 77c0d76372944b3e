package kernels

import (
	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// eager is unfused attention, one sequence at a time: all its scores are in memory, [heads, len, len] F32, and so are
// their weights, in the type of qkv.
type eager struct {
	AttentionSpec
	d               *Device
	qkv             tensor.Tensor // of the sequence: [len, width]
	lse             tensor.Matrix // [heads, len]
	scores, weights tensor.Tensor
}

// eager allocates the scratch memory of a sequence and computes its scores.
func (d *Device) eager(qkv, lse tensor.Tensor, s AttentionSpec, begin, end int) eager {
	e := eager{
		AttentionSpec: s, d: d, qkv: qkv.View(qkv.Rows(), s.Width()).Slice(begin, end),
		lse: lse.View(s.Heads, qkv.Rows()).Columns(begin, end),
	}
	e.scores, e.weights = s.eagerScratch(d.scratch, qkv.DType, end-begin)
	e.products("attention_scores", e.squares(e.scores), e.queries(e.qkv), e.keys(e.qkv, s.Heads).T())
	return e
}

// eagerScratch lays out the scores and weights of a sequence of n rows.
func (s AttentionSpec) eagerScratch(cut cut, t tensor.DType, n int) (scores, weights tensor.Tensor) {
	return cut("attention scores", tensor.F32, s.Heads, n, n), cut("attention weights", t, s.Heads, n, n)
}

// eagerBackwardScratch lays out what the backward pass of a sequence of n rows needs in addition: the sums for its keys
// and values, and dy·y.
func (s AttentionSpec) eagerBackwardScratch(cut cut, n int) (sums, delta tensor.Tensor) {
	return cut("gradients of keys and values", tensor.F32, n, 2*s.KVHeads*s.HeadDim), cut("dy·y", tensor.F32, s.Heads, n)
}

// The functions below return the operands of a product per query head. The outer axis is the groups, each of which is
// the query heads that share a key head; the inner axis is the heads of a group.

// queries returns an operand with columns for each query head: queries, y or their gradients.
func (s AttentionSpec) queries(x tensor.Tensor) Matrices {
	return Matrices{First: s.columns(x, 0, 1), Count: [2]int{s.KVHeads, s.share()},
		Apart: [2]int{s.share() * s.HeadDim, s.HeadDim}}
}

// keys returns an operand with columns for each group, starting at head number head of x: keys, values or their
// gradients.
func (s AttentionSpec) keys(x tensor.Tensor, head int) Matrices {
	return Matrices{First: s.columns(x, head, 1), Count: [2]int{s.KVHeads, 1}, Apart: [2]int{s.HeadDim, 0}}
}

// squares returns the scores or the weights as an operand.
func (s AttentionSpec) squares(x tensor.Tensor) Matrices {
	return MatricesOf(x.View(s.KVHeads, s.share(), x.Dim(-2), x.Dim(-1)))
}

// products computes a product for every query head; together they are one step. If the heads of a group share c, c gets
// their sum.
func (e eager) products(step string, c, a, b Matrices) {
	e.d.ran(step)
	e.d.products(c, a, b, 1, false)
}

// attentionEager computes Attention in steps: scores, softmax, values.
func (d *Device) attentionEager(y, lse, qkv tensor.Tensor, s AttentionSpec) {
	s.each(func(begin, end int) {
		defer d.release(d.mark())
		e := d.eager(qkv, lse, s, begin, end)
		y := y.View(qkv.Rows(), s.Heads*s.HeadDim).Slice(begin, end)
		d.ran("attention_softmax")
		e.softmax()
		e.products("attention_values", e.queries(y), e.squares(e.weights), e.keys(e.qkv, s.Heads+s.KVHeads))
	})
}

// attentionEagerBackward computes AttentionBackward in steps: scores and weights again, then the gradients of values,
// weights, scores, queries and keys. The gradients of keys and values are summed over query heads in F32 before they
// are stored.
func (d *Device) attentionEagerBackward(dqkv, dy, y, lse, qkv tensor.Tensor, s AttentionSpec) {
	s.each(func(begin, end int) {
		defer d.release(d.mark())
		e := d.eager(qkv, lse, s, begin, end)
		n := end - begin
		rows := qkv.Rows()
		width := s.Heads * s.HeadDim
		y, dy := y.View(rows, width).Slice(begin, end), dy.View(rows, width).Slice(begin, end)
		dqkv := dqkv.View(rows, s.Width()).Slice(begin, end)
		sums, delta := s.eagerBackwardScratch(d.scratch, n)

		d.ran("attention_weights")
		e.softmaxFromLSE()
		e.products("attention_dvalues", e.keys(sums, s.KVHeads), e.squares(e.weights).T(), e.queries(dy))
		e.products("attention_dweights", e.squares(e.scores), e.queries(dy), e.keys(e.qkv, s.Heads+s.KVHeads).T())
		d.ran("attention_delta")
		d.headDots(delta, dy, y, s)
		d.ran("attention_dscores")
		e.softmaxBackward(delta)
		e.products("attention_dqueries", e.queries(dqkv), e.squares(e.weights), e.keys(e.qkv, s.Heads))
		e.products("attention_dkeys", e.keys(sums, 0), e.squares(e.weights).T(), e.queries(e.qkv))
		d.ran("attention_store")
		d.storeRows(s.columns(dqkv, s.Heads, 2*s.KVHeads), sums)
	})
}

// each calls f with the first row of every sequence and the row after its last.
func (s AttentionSpec) each(f func(begin, end int)) {
	for i, begin := range s.CuSeqlens[:len(s.CuSeqlens)-1] {
		if end := s.CuSeqlens[i+1]; begin < end {
			f(int(begin), int(end))
		}
	}
}

// softmax computes weights and lse from the scores, which it overwrites.
func (e eager) softmax() {
	if e.d.gpu == nil {
		cpu.AttentionSoftmax(e.weights, e.lse, e.scores, e.Window, !e.Bidirectional, e.scale())
		return
	}
	m, g := e.rows()
	e.d.launch(kernel{"op_attention_eager.cu", "attention_softmax", m}, g,
		addr(e.weights), addrOf(e.lse), i32(e.lse.Stride), addr(e.scores), i32(e.lse.Cols), i32(e.Window),
		flag(!e.Bidirectional), f32(e.scale()))
}

// softmaxFromLSE recomputes the weights from the scores and lse.
func (e eager) softmaxFromLSE() {
	if e.d.gpu == nil {
		cpu.AttentionSoftmaxFromLSE(e.weights, e.lse, e.scores, e.Window, !e.Bidirectional, e.scale())
		return
	}
	m, g := e.rows()
	e.d.launch(kernel{"op_attention_eager.cu", "attention_softmax_from_lse", m}, g,
		addr(e.weights), addrOf(e.lse), i32(e.lse.Stride), addr(e.scores), i32(e.lse.Cols), i32(e.Window),
		flag(!e.Bidirectional), f32(e.scale()))
}

// softmaxBackward turns the weights into the gradients of the scores. On entry, scores holds the gradients of the
// weights.
func (e eager) softmaxBackward(delta tensor.Tensor) {
	if e.d.gpu == nil {
		cpu.AttentionSoftmaxBackward(e.weights, delta, e.scores, e.Window, !e.Bidirectional, e.scale())
		return
	}
	m, g := e.rows()
	e.d.launch(kernel{"op_attention_eager.cu", "attention_softmax_backward", m}, g, addr(e.weights), addr(delta),
		addr(e.scores), i32(e.lse.Cols), i32(e.Window), flag(!e.Bidirectional), f32(e.scale()))
}

// rows returns a grid with a thread block for each row of the weights.
func (e eager) rows() (macros, grid) {
	return vectorsOf(e.weights.Matrix()), grid{blocks: cuda.Dim3{X: e.lse.Cols, Y: e.Heads}, threads: cuda.Dim3{X: 128}}
}

// headDots multiplies each head of each row of a and b, into y [heads, rows].
func (d *Device) headDots(y, a, b tensor.Tensor, s AttentionSpec) {
	if d.gpu == nil {
		cpu.HeadDots(y, a, b)
		return
	}
	const threads = 8 // per head
	rows := a.Rows()
	d.launch(kernel{"op_attention_rows.cu", "head_dots", rowsOf(s.heads(a, s.Heads))}, each(rows*s.Heads*threads),
		addr(y), addr(a), addr(b), i32(rows), i32(s.Heads))
}

// storeRows rounds a, which is F32, into y.
func (d *Device) storeRows(y tensor.Matrix, a tensor.Tensor) {
	if d.gpu == nil {
		cpu.StoreRows(y, a, 1)
		return
	}
	wide := width(y.DType, y.Cols|y.Stride|int(y.Addr)/y.DType.Size()) // y's rows may be parts of longer ones
	m := define(macro{y.DType.String(), 1}, macro{"WIDTH", wide}, macro{"DIM", y.Cols})
	d.launch(kernel{"op_attention_rows.cu", "store_rows", m}, each(y.Rows*y.Cols/wide),
		addrOf(y), i32(y.Stride/wide), addr(a), i32(y.Rows))
}
