package kernels

import (
	"math"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

// scale returns the factor by which products of queries and keys are multiplied.
func (s AttentionSpec) scale() float32 { return float32(1 / s.divisor()) }

func (s AttentionSpec) divisor() float64 {
	if s.Divisor == 0 {
		return math.Sqrt(float64(s.HeadDim))
	}
	return s.Divisor
}

// share returns the number of query heads that share a key head.
func (s AttentionSpec) share() int { return s.Heads / s.KVHeads }

// heads returns the matrix of n heads for each of rows: its rows, and so DIM, have the length of a head.
func (s AttentionSpec) heads(rows tensor.Tensor, n int) tensor.Matrix {
	return tensor.Matrix{Rows: rows.Rows() * n, Cols: s.HeadDim, DType: rows.DType}
}

// A cutting says how a tensor-core kernel divides the scores: into thread blocks whose warps have tiles times 16 rows
// each and process columns columns at a time, resident blocks per multiprocessor. If held is 1, warps keep what belongs
// to their rows in registers.
type cutting struct{ warps, tiles, columns, resident, held int }

func (c cutting) rows() int { return c.warps * c.tiles * 16 }

// A headShape is what the cuttings depend on: a head's dimension, and the bytes of an element.
type headShape struct{ dim, bytes int }

func (s AttentionSpec) headShape(t tensor.DType) headShape { return headShape{s.HeadDim, t.Size()} }

// flashForward has the head shapes for which there are tensor-core kernels. For others the operands would not fit the
// registers, or heads would not start at multiples of 16 bytes.
var flashForward = map[headShape]cutting{
	{32, 2}: {4, 2, 64, 2, 1}, {64, 2}: {4, 2, 64, 2, 1}, {96, 2}: {4, 2, 64, 2, 0}, {128, 2}: {4, 2, 64, 2, 0},
	{32, 4}: {4, 2, 32, 2, 0}, {64, 4}: {4, 2, 32, 2, 0}, {96, 4}: {4, 1, 32, 2, 0}, {128, 4}: {4, 1, 32, 2, 0},
}

// flashQueries and flashKeys are the cuttings for the gradients of queries, and of keys and values.
var (
	flashQueries = map[headShape]cutting{
		{32, 2}: {4, 2, 64, 2, 1}, {64, 2}: {4, 2, 64, 2, 0}, {96, 2}: {4, 2, 32, 2, 0}, {128, 2}: {4, 2, 32, 2, 0},
		{32, 4}: {4, 2, 32, 2, 0}, {64, 4}: {4, 1, 64, 2, 0}, {96, 4}: {4, 1, 32, 2, 0}, {128, 4}: {4, 1, 16, 2, 0},
	}
	flashKeys = map[headShape]cutting{
		{32, 2}: {4, 2, 64, 2, 0}, {64, 2}: {4, 2, 32, 2, 0}, {96, 2}: {4, 1, 32, 2, 0}, {128, 2}: {8, 1, 32, 1, 0},
		{32, 4}: {4, 2, 32, 2, 0}, {64, 4}: {4, 1, 32, 2, 0}, {96, 4}: {4, 1, 16, 2, 0}, {128, 4}: {4, 1, 16, 2, 0},
	}
)

// flash reports whether there are tensor-core kernels for queries, keys and values like these, and the GPU has the
// shared memory that they take, and tensor cores for their type.
func (d *Device) flash(s AttentionSpec, qkv tensor.Tensor) bool {
	h := s.headShape(qkv.DType)
	_, ok := flashForward[h]
	return ok && (qkv.DType.Half() || d.gpu.Major >= 8) &&
		max(flashForward[h].shared(h, 1), flashQueries[h].shared(h, 2), flashKeys[h].sharedKeys(h)) <= d.gpu.MaxShared()
}

// shared returns the bytes of shared memory of a thread block: a number of tiles of rows of its own, and two of keys
// and values, or of queries and dy.
func (c cutting) shared(h headShape, own int) int {
	return (own*c.rows() + 4*c.columns) * h.dim * h.bytes
}

// sharedKeys is shared for the kernel of the gradients of keys and values, which also has two floats per query.
func (c cutting) sharedKeys(h headShape) int { return c.shared(h, 2) + 4*c.columns*4 }

// cut returns the macros of a tensor-core kernel.
func (s AttentionSpec) cut(qkv tensor.Tensor, c cutting, columns string) macros {
	m := rowsOf(s.heads(qkv, s.Heads))
	return m.with(columns, c.columns).with("TILES", c.tiles).with("RESIDENT", c.resident).with("HELD", c.held)
}

// tiles returns the grid of a tensor-core kernel.
func (s AttentionSpec) tiles(c cutting, heads, shared int) grid {
	g := s.blocksOf(c.rows(), heads, 32*c.warps)
	g.shared = shared
	return g
}

// plain returns the macros and the grid of a kernel without tensor cores that computes a number of products of its rows
// and other rows, and keeps a number of sums per row. A thread has as many rows as it has room for the sums of, and a
// multiprocessor has three thread blocks if its registers suffice.
func (s AttentionSpec) plain(qkv tensor.Tensor, heads, products, sums int) (macros, grid) {
	const threads, room, columns = 128, 64, 8
	mine, each := 4, sums*4*blocks(s.HeadDim, 32)
	for mine > 1 && mine*each > room {
		mine /= 2
	}
	resident := 2
	if mine*(products*columns+each) <= 96 {
		resident = 3
	}
	m := rowsOf(s.heads(qkv, s.Heads)).with("MINE", mine).with("RESIDENT", resident)
	return m, s.blocksOf(16*mine, heads, threads)
}

// blocksOf returns a grid with a thread block for each head and each block of rows of every sequence. In sequences
// shorter than the longest, some thread blocks have nothing to do.
func (s AttentionSpec) blocksOf(rows, heads, threads int) grid {
	return grid{
		blocks:  cuda.Dim3{X: heads * (len(s.CuSeqlens) - 1), Y: blocks(s.longest(), rows)},
		threads: cuda.Dim3{X: threads},
	}
}

// longest returns the length of the longest sequence.
func (s AttentionSpec) longest() (n int) {
	s.each(func(begin, end int) { n = max(n, end-begin) })
	return n
}

// attentionGPU computes Attention, fused. Keys and values come from qkv, or from caches with ahead of them before the
// first query's own. If lse is the zero Tensor, it is not stored.
func (d *Device) attentionGPU(y, lse, qkv tensor.Tensor, k, v tensor.Matrix, ahead int, s AttentionSpec) {
	rows := qkv.Rows()
	d.multiplies(s, ahead, 2)
	if d.attentionWGMMA(y, lse, qkv, k, v, ahead, s) {
		return
	}
	if d.flash(s, qkv) {
		h := s.headShape(qkv.DType)
		c := flashForward[h]
		d.launch(kernel{"op_attention_flash.cu", "flash", s.cut(qkv, c, "KEYS")}, s.tiles(c, s.Heads, c.shared(h, 1)),
			addr(y), addr(lse), addr(qkv), addrOf(k), addrOf(v), addr(s.Offsets), i32(rows), i32(s.Heads),
			i32(s.Width()), i32(k.Stride), i32(s.share()), i32(ahead), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
		return
	}
	m, g := s.plain(qkv, s.Heads, 1, 1)
	d.launch(kernel{"op_attention.cu", "attention", m}, g,
		addr(y), addr(lse), addr(qkv), addrOf(k), addrOf(v), addr(s.Offsets), i32(rows), i32(s.Heads), i32(s.Width()),
		i32(k.Stride), i32(s.share()), i32(ahead), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
}

// attentionDelta lays out dy·y for each head and row.
func (s AttentionSpec) attentionDelta(cut cut, rows int) tensor.Tensor {
	return cut("dy·y", tensor.F32, s.Heads, rows)
}

// attentionBackwardGPU computes AttentionBackward, fused.
func (d *Device) attentionBackwardGPU(dqkv, dy, y, lse, qkv tensor.Tensor, s AttentionSpec) {
	defer d.release(d.mark())
	delta := s.attentionDelta(d.scratch, qkv.Rows())
	d.headDots(delta, dy, y, s)
	d.attentionQueries(dqkv, dy, lse, delta, qkv, s)
	d.attentionKeys(dqkv, dy, lse, delta, qkv, s)
}

// attentionQueries computes the gradient of the queries, which are columns of dqkv.
func (d *Device) attentionQueries(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	d.multiplies(s, 0, 3)
	if d.gradientsWGMMA(s, qkv, dy) {
		d.queriesWGMMA(dqkv, dy, lse, delta, qkv, s)
		return
	}
	if d.flash(s, qkv) {
		h := s.headShape(qkv.DType)
		c := flashQueries[h]
		d.launch(kernel{"op_attention_flash_dq.cu", "flash_dq", s.cut(qkv, c, "KEYS")}, s.tiles(c, s.Heads, c.shared(h, 2)),
			addr(dqkv), addr(dy), addr(lse), addr(delta), addrOf(q), addrOf(k), addrOf(v), addr(s.Offsets),
			i32(q.Rows), i32(s.Heads), i32(s.Width()), i32(s.share()), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
		return
	}
	m, g := s.plain(qkv, s.Heads, 2, 1)
	d.launch(kernel{"op_attention_dq.cu", "attention_dq", m}, g,
		addr(dqkv), addr(dy), addr(lse), addr(delta), addrOf(q), addrOf(k), addrOf(v), addr(s.Offsets),
		i32(q.Rows), i32(s.Heads), i32(s.Width()), i32(s.share()), i32(s.Window), flag(!s.Bidirectional),
		f32(s.scale()))
}

// attentionKeys computes the gradients of the keys and values, which are columns of dqkv.
func (d *Device) attentionKeys(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	_, dk, dv := s.parts(dqkv)
	d.multiplies(s, 0, 4)
	if d.gradientsWGMMA(s, qkv, dy) {
		d.keysWGMMA(dqkv, dy, lse, delta, qkv, s)
		return
	}
	if d.flash(s, qkv) {
		h := s.headShape(qkv.DType)
		c := flashKeys[h]
		d.launch(kernel{"op_attention_flash_dkv.cu", "flash_dkv", s.cut(qkv, c, "QUERIES")},
			s.tiles(c, s.KVHeads, c.sharedKeys(h)),
			addrOf(dk), addrOf(dv), addr(dy), addr(lse), addr(delta), addrOf(q), addrOf(k), addrOf(v),
			addr(s.Offsets), i32(q.Rows), i32(s.KVHeads), i32(s.Width()), i32(s.share()), i32(s.Window), flag(!s.Bidirectional),
			f32(s.scale()))
		return
	}
	m, g := s.plain(qkv, s.KVHeads, 2, 2)
	d.launch(kernel{"op_attention_dkv.cu", "attention_dkv", m}, g,
		addrOf(dk), addrOf(dv), addr(dy), addr(lse), addr(delta), addrOf(q), addrOf(k), addrOf(v),
		addr(s.Offsets), i32(q.Rows), i32(s.KVHeads), i32(s.Width()), i32(s.share()), i32(s.Window),
		flag(!s.Bidirectional), f32(s.scale()))
}

// multiplies tells the profile that the next launch computes products matrix products between the queries and the keys
// that they see.
func (d *Device) multiplies(s AttentionSpec, ahead, products int) {
	if !d.opts.Sync {
		return
	}
	pairs := 0
	s.each(func(begin, end int) {
		for i := range end - begin {
			first, last := s.seen(ahead + i)
			if s.Bidirectional {
				last = end - begin - 1
			}
			pairs += last - first + 1
		}
	})
	d.next.flops = float64(products) * 2 * float64(s.HeadDim) * float64(s.Heads) * float64(pairs)
}

// If there is one query, a thread block has decodeBlockDim threads and a span of at least decodeMinSpan cached keys.
// The span is longer only if a head would otherwise have more thread blocks than decodePartsLimit, the maximum that one
// thread block can combine.
const (
	decodeBlockDim   = 128
	decodeMinSpan    = 64
	decodePartsLimit = 64
)

// decodeSpan returns the number of keys per thread block, given the number of all keys.
func decodeSpan(keys int) int {
	return decodeMinSpan * max(1, blocks(keys, decodeMinSpan*decodePartsLimit))
}

// decodeParts returns the number of thread blocks per head that have keys. It is not monotonic; maxDecodeParts returns
// its maximum for up to that many keys.
func decodeParts(keys int) int    { return blocks(keys, decodeSpan(keys)) }
func maxDecodeParts(keys int) int { return min(decodePartsLimit, blocks(keys, decodeMinSpan)) }

// seen returns the first and the last key that a query at a position sees.
func (s AttentionSpec) seen(position int) (first, last int) {
	if s.Window > 0 {
		first = max(0, position-s.Window+1)
	}
	return first, position
}

// attentionParts lays out the results of the key blocks that a query at a position sees.
func (s AttentionSpec) attentionParts(cut cut, position int) tensor.Tensor {
	first, last := s.seen(position)
	return cut("attention parts", tensor.F32, s.Heads, maxDecodeParts(last-first+1), s.HeadDim+2)
}

// attentionDecodeGPU computes AttentionCached for a single query.
func (d *Device) attentionDecodeGPU(y, qkv, k, v tensor.Tensor, position int, s AttentionSpec) {
	defer d.release(d.mark())
	parts := s.attentionParts(d.scratch, position)
	first, last := s.seen(position)
	m, g := s.decoding(qkv, decodeParts(last-first+1))
	seen := k.Slice(first, last+1).Bytes()
	d.launch(kernel{"op_attention_decode.cu", "attention_decode", m}, g,
		addr(parts), addr(qkv), addr(k).moves(seen), addr(v).moves(seen), i32(first), i32(last),
		i32(decodeSpan(last-first+1)), i32(k.Dim(-1)), i32(s.share()), f32(s.scale()))
	d.launch(kernel{"op_attention_decode.cu", "attention_combine", m},
		line(g.blocks.Y, decodeBlockDim), addr(y), addr(parts),
		i32(g.blocks.X))
}

// decoding returns the macros and the grid for attention of a single query, with a number of thread blocks per head.
func (s AttentionSpec) decoding(qkv tensor.Tensor, parts int) (macros, grid) {
	heads := 8 // per thread block: their sums are in registers, and in shared memory
	for s.share()%heads != 0 || heads > 1 && heads*s.HeadDim > 1024 {
		heads--
	}
	return rowsOf(s.heads(qkv, s.Heads)).with("HEADS", heads), grid{
		blocks: cuda.Dim3{X: parts, Y: s.Heads / heads}, threads: cuda.Dim3{X: decodeBlockDim},
	}
}
