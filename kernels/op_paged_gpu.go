package kernels

import (
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// appendPagedGPU computes AppendPaged.
func (d *Device) appendPagedGPU(k, v, qkv, slots tensor.Tensor, heads, kvHeads int) {
	to := tensor.Matrix{Rows: qkv.Rows(), Cols: k.Dim(-1), DType: k.DType}
	moved := to.Rows * to.Cols * to.DType.Size()
	d.launch(kernel{"op_paged.cu", "append_paged", rowsOf(to)}, each(2*vectors(to)), addr(k).moves(moved),
		addr(v).moves(moved), addr(qkv).moves(2*moved), addr(slots), i32(qkv.Dim(-1)/width(to.DType, to.Cols)),
		i32(to.Rows))
}

// pagedSpan is the number of keys of a span of op_attention_paged.cu.
const pagedSpan = 256

// pagedSpans returns the maximum number of spans that queries at positions less than reach see, if up to tokens of them
// are consecutive.
func (s AttentionSpec) pagedSpans(reach, tokens int) int {
	n := blocks(reach, pagedSpan)
	if s.Window > 0 { // keys that start with the last one of a span
		n = min(n, blocks(s.Window+tokens-2, pagedSpan)+1)
	}
	return n
}

// maxPagedParts is the maximum size in bytes of the results of all spans. For more, a warp computes all spans of its
// rows.
var maxPagedParts = productRoom // tests set it

// attentionPagedGPU computes AttentionPaged. Rows that follow each other in a sequence share what they read. Their
// positions are on the device, so the grid has room for all: a row that the thread blocks of an earlier row compute
// has thread blocks that end at once.
func (d *Device) attentionPagedGPU(y, qkv, k, v, tables, places tensor.Tensor, reach int, s AttentionSpec) {
	h := s.headShape(qkv.DType)
	c, ok := flashForward[h]
	if !ok || s.share() > 16 || !qkv.DType.Half() && d.gpu.Major < 8 {
		d.launch(kernel{"op_attention_paged_plain.cu", "attention_paged_plain", rowsOf(s.heads(qkv, s.Heads))},
			each(32*qkv.Rows()*s.Heads), addr(y), addr(qkv), addr(k).movesSome(), addr(v).movesSome(), addr(tables),
			addr(places), i32(qkv.Rows()), i32(s.Heads), i32(s.KVHeads), i32(tables.Dim(-1)), i32(s.Window), f32(s.scale()))
		return
	}
	rows, row, keys := qkv.Rows(), s.HeadDim*qkv.DType.Size(), 32
	if row > 256 {
		keys = 16
	}
	m := rowsOf(s.heads(qkv, s.Heads)).with("HELD", c.held).with("KEYS", keys)
	tiles := 2 * 2 * keys * row // two of keys and two of values
	spans := s.pagedSpans(reach, 1)
	part := s.HeadDim + 8 // a Sums
	if rows*s.Heads*spans*part*tensor.F32.Size() > maxPagedParts || 4*rows*s.Heads > maxArrived {
		const warps = 4
		g := grid{blocks: cuda.Dim3{X: rows, Y: s.KVHeads}, threads: cuda.Dim3{X: 32 * warps},
			shared: warps*16*row + tiles}
		d.launch(kernel{"op_attention_paged.cu", "attention_paged", m}, g, addr(y), addr(qkv), addr(k).movesSome(),
			addr(v).movesSome(), addr(tables), addr(places), i32(rows), i32(s.Heads), i32(s.KVHeads), i32(tables.Dim(-1)),
			i32(s.Window), f32(s.scale()))
		return
	}
	parts := d.parts(rows*s.Heads*spans, part, 1)
	g := grid{blocks: cuda.Dim3{X: rows, Y: s.KVHeads, Z: s.pagedSpans(reach, 16/s.share())}, threads: cuda.Dim3{X: 32},
		shared: 16*row + tiles}
	d.launch(kernel{"op_attention_paged.cu", "attention_paged_parts", m}, g, addr(y), addrOf(parts).movesSome(),
		address(d.gpu.arrived.Addr), addr(qkv), addr(k).movesSome(), addr(v).movesSome(), addr(tables), addr(places),
		i32(rows), i32(s.Heads), i32(s.KVHeads), i32(tables.Dim(-1)), i32(spans), i32(s.Window), f32(s.scale()))
}
