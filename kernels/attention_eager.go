package kernels

import (
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// eager is attention unfused, one sequence at a time: its scores lie in memory whole, [heads, len, len] in F32, and so do
// their weights, in the type of qkv.
type eager struct {
	m       Mask
	qkv     tensor.Tensor // of the sequence: [len, width]
	scores  tensor.Tensor
	weights tensor.Tensor
	args    cpu.Scores
}

// eager makes room for a sequence and computes its scores.
func (d *Device) eager(qkv, lse tensor.Tensor, m Mask, begin, end int) eager {
	n, rows := end-begin, qkv.Rows()
	e := eager{m: m, qkv: qkv.View(rows, m.width()).Slice(begin, end)}
	e.scores, e.weights = m.eagerScratch(d.scratch, qkv.DType, n)
	e.args = cpu.Scores{
		Scores: e.scores.Addr, Weights: e.weights.Addr, Heads: m.Heads, Len: n, Window: m.Window,
		Scale: float32(1 / math.Sqrt(float64(m.HeadDim))), Type: qkv.DType,
		LSE: lse.Addr + uintptr(4*begin), LSEStride: rows,
	}
	d.ran("attention_scores")
	e.products(func(h int) cpu.Product {
		return cpu.Product{C: matrix(e.scores, h), A: e.head(e.qkv, h), B: transposed(e.head(e.qkv, m.key(h))), M: n, N: n, K: m.HeadDim}
	})
	return e
}

// eagerScratch lays out the scores and weights of a sequence of n rows.
func (m Mask) eagerScratch(cut cut, t tensor.DType, n int) (scores, weights tensor.Tensor) {
	return cut("attention scores", tensor.F32, m.Heads, n, n), cut("attention weights", t, m.Heads, n, n)
}

// eagerBackwardScratch lays out what the gradient of a sequence of n rows needs besides: the sums for its keys and values, and
// dy·y.
func (m Mask) eagerBackwardScratch(cut cut, n int) (sums, delta tensor.Tensor) {
	return cut("gradients of keys and values", tensor.F32, n, 2*m.KVHeads*m.HeadDim), cut("dy·y", tensor.F32, m.Heads, n)
}

// key and value are the columns of qkv, in heads, that a query head reads.
func (m Mask) key(h int) int   { return m.Heads + h/(m.Heads/m.KVHeads) }
func (m Mask) value(h int) int { return m.key(h) + m.KVHeads }

// products computes one product a query head.
func (e eager) products(of func(h int) cpu.Product) {
	for h := range e.m.Heads {
		p := of(h)
		p.BF16 = e.args.Type == tensor.BF16
		cpu.Gemm(p)
	}
}

// head is a head's columns of rows.
func (e eager) head(x tensor.Tensor, h int) cpu.Operand {
	return cpu.Operand{Addr: x.Addr + uintptr(h*e.m.HeadDim*x.DType.Size()), Stride: x.Dim(-1)}
}

// matrix is a head's of scores or weights.
func matrix(x tensor.Tensor, h int) cpu.Operand {
	n := x.Dim(-1)
	return cpu.Operand{Addr: x.Addr + uintptr(h*n*n*x.DType.Size()), Stride: n}
}

func transposed(o cpu.Operand) cpu.Operand {
	o.Transposed = true
	return o
}

// attentionEager is Attention as its steps: scores, softmax, values.
func (d *Device) attentionEager(y, lse, qkv tensor.Tensor, m Mask) {
	m.each(func(begin, end int) {
		defer d.release(d.mark())
		e, n := d.eager(qkv, lse, m, begin, end), end-begin
		y := y.View(qkv.Rows(), m.Heads*m.HeadDim).Slice(begin, end)
		d.ran("attention_softmax")
		e.args.Softmax()
		d.ran("attention_values")
		e.products(func(h int) cpu.Product {
			return cpu.Product{C: e.head(y, h), A: matrix(e.weights, h), B: e.head(e.qkv, m.value(h)), M: n, N: m.HeadDim, K: n, CBF16: e.args.Type == tensor.BF16}
		})
	})
}

// attentionEagerBackward is AttentionBackward as its steps: scores and weights once more, the gradients of values, weights,
// scores, queries and keys. Those of keys and values are added up over query heads in F32 before they are stored.
func (d *Device) attentionEagerBackward(dqkv, dy, y, lse, qkv tensor.Tensor, m Mask) {
	m.each(func(begin, end int) {
		defer d.release(d.mark())
		e, n, rows, width := d.eager(qkv, lse, m, begin, end), end-begin, qkv.Rows(), m.Heads*m.HeadDim
		y, dy := y.View(rows, width).Slice(begin, end), dy.View(rows, width).Slice(begin, end)
		dqkv := dqkv.View(rows, m.width()).Slice(begin, end)
		sums, delta := m.eagerBackwardScratch(d.scratch, n)
		share := m.Heads / m.KVHeads

		d.ran("attention_weights")
		e.args.SoftmaxAgain()
		d.ran("attention_dvalues")
		e.products(func(h int) cpu.Product {
			return cpu.Product{C: e.head(sums, m.value(h)-m.Heads), A: transposed(matrix(e.weights, h)), B: e.head(dy, h), M: n, N: m.HeadDim, K: n, Add: h%share > 0}
		})
		d.ran("attention_dweights")
		e.products(func(h int) cpu.Product {
			return cpu.Product{C: matrix(e.scores, h), A: e.head(dy, h), B: transposed(e.head(e.qkv, m.value(h))), M: n, N: n, K: m.HeadDim}
		})
		d.ran("attention_delta")
		cpu.HeadDots(delta.Addr, dy.Addr, y.Addr, m.Heads, n, m.HeadDim, e.args.Type)
		d.ran("attention_dscores")
		e.args.SoftmaxBackward(delta.Addr)
		d.ran("attention_dqueries")
		e.products(func(h int) cpu.Product {
			return cpu.Product{C: e.head(dqkv, h), A: matrix(e.weights, h), B: e.head(e.qkv, m.key(h)), M: n, N: m.HeadDim, K: n, CBF16: e.args.Type == tensor.BF16}
		})
		d.ran("attention_dkeys")
		e.products(func(h int) cpu.Product {
			return cpu.Product{C: e.head(sums, m.key(h)-m.Heads), A: transposed(matrix(e.weights, h)), B: e.head(e.qkv, h), M: n, N: m.HeadDim, K: n, Add: h%share > 0}
		})
		d.ran("attention_store")
		cpu.StoreRows(e.head(dqkv, m.Heads), sums.Addr, n, sums.Dim(-1), e.args.Type)
	})
}

// each calls f with the first row of every sequence, and the first behind it.
func (m Mask) each(f func(begin, end int)) {
	for s, begin := range m.CuSeqlens[:len(m.CuSeqlens)-1] {
		if end := m.CuSeqlens[s+1]; begin < end {
			f(int(begin), int(end))
		}
	}
}
