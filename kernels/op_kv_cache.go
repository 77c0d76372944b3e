package kernels

import (
	"fmt"

	"restyle/tensor"
)

// AppendKV copies the keys and values of qkv [rows, (heads+2·kvHeads)·headDim] to the KV cache, k and v [capacity,
// kvHeads·headDim], from row at on.
func (d *Device) AppendKV(k, v, qkv tensor.Tensor, heads, kvHeads, at int) {
	floating("AppendKV", "qkv", qkv)
	rows, w := qkv.Rows(), k.Dim(-1)
	want("AppendKV", "k", k, qkv.DType, k.Rows(), w)
	want("AppendKV", "v", v, qkv.DType, k.Rows(), w)
	if heads < 1 || kvHeads < 1 || heads%kvHeads != 0 || w%kvHeads != 0 || qkv.Dim(-1) != w/kvHeads*(heads+2*kvHeads) ||
		at < 0 || at+rows > k.Rows() {
		panic(fmt.Sprintf("AppendKV: rows %d to %d of %v from %v with %d heads, %d key/value heads", at, at+rows, k, qkv,
			heads, kvHeads))
	}
	d.ran("append_kv")
	if d.gpu != nil {
		to := tensor.Matrix{Rows: rows, Cols: w, DType: k.DType}
		d.launch(kernel{"op_attention_rows.cu", "append_kv", rowsOf(to)}, each(2*vectors(to)), addr(k.Slice(at, at+rows)),
			addr(v.Slice(at, at+rows)), addr(qkv).moves(2*to.Rows*to.Cols*to.DType.Size()), i32(qkv.Dim(-1)/width(to.DType, w)),
			i32(rows))
		return
	}
	e := qkv.DType.Size()
	from, row := qkv.Dim(-1)*e, w*e
	src, kb, vb := qkv.Raw(), k.Raw()[at*row:], v.Raw()[at*row:]
	for r := range rows {
		kv := src[(r+1)*from-2*row:]
		copy(kb[r*row:][:row], kv)
		copy(vb[r*row:][:row], kv[row:])
	}
}

// AttentionCached is Attention for rows of one sequence that come after start earlier rows. The KV cache, k and v
// [capacity, kvHeads·headDim], holds the keys and values of the earlier rows and of these: row i of qkv sees the cache
// up to row start+i. CuSeqlens of s is not used. y is [rows, heads·headDim]. It is for chunks of a prompt and for
// single tokens; for a single token it reads the cache once, from start to end. It is one kernel, fused or not. It
// panics if s is Bidirectional.
func (d *Device) AttentionCached(y, qkv, k, v tensor.Tensor, start int, s AttentionSpec) {
	s = s.checked("AttentionCached")
	floating("AttentionCached", "qkv", qkv)
	rows, width := qkv.Rows(), s.KVHeads*s.HeadDim
	want("AttentionCached", "qkv", qkv, qkv.DType, rows, s.Width())
	want("AttentionCached", "y", y, qkv.DType, rows, s.Heads*s.HeadDim)
	want("AttentionCached", "k", k, qkv.DType, k.Rows(), width)
	want("AttentionCached", "v", v, qkv.DType, k.Rows(), width)
	if s.Bidirectional {
		panic("AttentionCached: Bidirectional attention needs keys that the cache does not hold yet")
	}
	if start < 0 || start+rows > k.Rows() {
		panic(fmt.Sprintf("AttentionCached: rows %d to %d of %v", start, start+rows, k))
	}
	d.ran("attention_cached")
	s.CuSeqlens, s.Offsets = []int32{0, int32(rows)}, tensor.Tensor{}
	if d.gpu != nil {
		if rows == 1 {
			d.attentionDecodeGPU(y, qkv, k, v, start, s)
			return
		}
		d.attentionGPU(y, tensor.Tensor{}, qkv, k.Matrix(), v.Matrix(), start, s)
		return
	}
	a := s.args(qkv, y, tensor.Tensor{})
	a.K, a.V, a.Ahead = k.Matrix(), v.Matrix(), start
	defer d.release(d.mark())
	if rows == 1 {
		a.Decode(attentionScratch(d.scratch, a.DecodeScratch()))
		return
	}
	a.Forward(attentionScratch(d.scratch, a.ForwardScratch()))
}
