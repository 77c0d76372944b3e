package kernels

import (
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A wgmmaCutting says how an attention kernel for compute capability 9.0 divides the scores: a thread block has 64 rows
// of scores for each of groups warpgroups, and goes through the columns, columns of them at a time. For the gradients
// of keys and values the rows are keys, otherwise queries. The macros of the kernels explain the rest.
type wgmmaCutting struct{ groups, columns, stages, owns, overlap int }

// wgmmaForward, wgmmaQueries and wgmmaKeys are the cuttings, by a head's dimension, for results, for the gradients of
// queries, and for the gradients of keys and values. They are the fastest cuttings that were tried on an H200, with
// eight sequences of 2,048. The first kernel has one tile of rows at a time.
var (
	wgmmaForward = map[int]wgmmaCutting{
		64:  {3, 128, 2, 1, 0}, // 385 TFLOP/s
		128: {2, 128, 2, 1, 1}, // 566
	}
	wgmmaQueries = map[int]wgmmaCutting{
		64:  {2, 128, 3, 2, 1}, // 498
		128: {2, 128, 2, 1, 0}, // 618
	}
	wgmmaKeys = map[int]wgmmaCutting{
		64:  {2, 128, 3, 1, 0}, // 550
		128: {2, 64, 3, 1, 2},  // 674
	}
)

// wgmmaShort is the length of the longest sequence up to which two warpgroups compute results: three waste more where a
// sequence ends. With 32 sequences of 512 and heads of 64, two reach 227 TFLOP/s, and three 207. Tests set it.
var wgmmaShort = 1024

func (c wgmmaCutting) rows() int { return 64 * c.groups }

// grid returns a grid of count thread blocks, in each of which one more warpgroup copies. Shared memory has tiles of
// rows and of columns, two of each at a time, which start at a multiple of 1,024 bytes, and more bytes after them.
func (c wgmmaCutting) grid(count, dim, more int) grid {
	g := line(count, 128*(c.groups+1))
	g.shared = 1024 + (c.owns*c.rows()+c.stages*c.columns)*2*dim*2 + more
	return g
}

// suitsWGMMA reports whether the kernels for compute capability 9.0 can attend. They need 16-bit elements, heads for
// which there are cuttings, at least one row, because without rows there is no map of tiles, and no more blocks of rows
// than an int can count.
func (d *Device) suitsWGMMA(s AttentionSpec, qkv tensor.Tensor) bool {
	const most = 1 << 30
	_, ok := wgmmaForward[s.HeadDim]
	longest := s.longest()
	return ok && d.hasWGMMA() && qkv.DType.Half() && longest > 0 && blocks(longest, 64)*s.Heads*len(s.CuSeqlens) < most
}

// attentionWGMMA computes attentionGPU on the tensor cores of compute capability 9.0, and reports whether it could.
func (d *Device) attentionWGMMA(y, lse, qkv tensor.Tensor, k, v tensor.Matrix, ahead int, s AttentionSpec) bool {
	q, _, _ := s.parts(qkv)
	if !d.suitsWGMMA(s, qkv) || !wide(q, 8, 0, 0) || !wide(k, 8, 0, 0) || !wide(v, 8, 0, 0) {
		return false
	}
	c, longest := wgmmaForward[s.HeadDim], s.longest()
	if longest <= wgmmaShort {
		c.groups = 2
	}
	rows := qkv.Rows()
	k.Rows, v.Rows = ahead+rows, ahead+rows // the last rows of a cache may still be empty
	down, sequences := blocks(longest, c.rows()), len(s.CuSeqlens)-1
	// as many thread blocks as run at the same time; a task and barriers are in shared memory too
	g := c.grid(min(down*sequences*s.Heads, d.gpu.SMs), s.HeadDim, 16+8*(3+4*c.stages))
	how := rowsOf(s.heads(qkv, s.Heads)).with("KEYS", c.columns).with("STAGES", c.stages).with("OVERLAP", c.overlap)
	d.launch(kernel{"op_attention_wgmma.cu", "attention_wgmma", how}, g,
		tiles(d.tileMap(q, c.rows(), 64), q), tiles(d.tileMap(k, c.columns, 64), k),
		tiles(d.tileMap(v, c.columns, 64), v), addr(y), addr(lse), addr(s.Offsets), i32(sequences), i32(rows),
		i32(s.Heads), i32(s.share()), i32(ahead), i32(s.Window), flag(!s.Bidirectional), i32(down), f32(s.scale()))
	return true
}

// gradientsWGMMA reports whether there are such kernels for the gradients of these queries, keys and values, given
// these gradients of y.
func (d *Device) gradientsWGMMA(s AttentionSpec, qkv, dy tensor.Tensor) bool {
	return d.suitsWGMMA(s, qkv) && int(qkv.Addr|dy.Addr)%16 == 0
}

// gradients returns the macros of a kernel of gradients, the bytes of shared memory for two floats per column and for
// barriers, and the number of blocks of rows of all heads, if all sequences were as long as the longest.
func (c wgmmaCutting) gradients(s AttentionSpec, qkv tensor.Tensor, heads int) (how macros, more, places int) {
	how = rowsOf(s.heads(qkv, s.Heads)).with("COLUMNS", c.columns).with("STAGES", c.stages).with("OWNS", c.owns)
	return how.with("OVERLAP", c.overlap), c.stages*2*c.columns*4 + (c.owns+c.stages)*16 + 8,
		blocks(s.longest(), c.rows()) * heads * (len(s.CuSeqlens) - 1)
}

// attentionMaps are the maps of tiles of the operands of gradients.
type attentionMaps struct{ q, k, v, dy cuda.TileMap }

// attentionMaps returns the maps for tiles of the given numbers of queries and keys.
func (d *Device) attentionMaps(q, k, v, dy tensor.Matrix, queries, keys int) attentionMaps {
	return attentionMaps{d.tileMap(q, queries, 64), d.tileMap(k, keys, 64), d.tileMap(v, keys, 64),
		d.tileMap(dy, queries, 64)}
}

// queriesWGMMA computes the gradient of the queries, which are columns of dqkv. There are only as many thread blocks as
// run at the same time: they take one block of queries after the other.
func (d *Device) queriesWGMMA(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	dys := s.columns(dy, 0, s.Heads)
	c := wgmmaQueries[s.HeadDim]
	maps := d.attentionMaps(q, k, v, dys, c.rows(), c.columns)
	how, more, places := c.gradients(s, qkv, s.Heads)
	d.launch(kernel{"op_attention_wgmma_dq.cu", "attention_wgmma_dq", how},
		c.grid(min(places, d.gpu.SMs), s.HeadDim, more),
		tiles(maps.q, q), tiles(maps.k, k), tiles(maps.v, v), tiles(maps.dy, dys), addr(dqkv), addr(lse), addr(delta),
		addr(s.Offsets), i32(len(s.CuSeqlens)-1), i32(places), i32(q.Rows), i32(s.Heads), i32(s.Width()),
		i32(s.share()), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
}

// keysWGMMA computes the gradients of the keys and values, which are columns of dqkv. Here a thread block for each
// block of keys is faster.
func (d *Device) keysWGMMA(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	_, dk, dv := s.parts(dqkv)
	dys := s.columns(dy, 0, s.Heads)
	c := wgmmaKeys[s.HeadDim]
	maps := d.attentionMaps(q, k, v, dys, c.columns, c.rows())
	how, more, places := c.gradients(s, qkv, s.KVHeads)
	d.launch(kernel{"op_attention_wgmma_dkv.cu", "attention_wgmma_dkv", how}, c.grid(places, s.HeadDim, more),
		tiles(maps.q, q), tiles(maps.k, k), tiles(maps.v, v), tiles(maps.dy, dys), addrOf(dk), addrOf(dv), addr(lse),
		addr(delta), addr(s.Offsets), i32(len(s.CuSeqlens)-1), i32(places), i32(q.Rows), i32(s.KVHeads), i32(s.Width()),
		i32(s.share()), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
}
