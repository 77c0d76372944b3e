package kernels

import (
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A grouping says how a kernel of gradients for compute capability 9.0 divides the scores: blocks of rows, 64 for each
// of some warpgroups, go through the columns, so many at a time. See the macros of flash_wgmma_backward.cuh. If
// lasting, thread blocks take one block of rows after the other, and there are only as many as run at the same time.
type grouping struct {
	groups, columns, stages, owns, held, overlap, ordered, copying, multiplying int
	lasting                                                                     bool
}

// groupedQueries and groupedKeys are the groupings for the gradients of queries, and of keys and values, by a head's
// dimension.
var (
	groupedQueries = map[int]grouping{
		64:  {2, 128, 3, 2, 0, 1, 1, 40, 232, true},
		128: {2, 96, 3, 1, 0, 1, 1, 40, 232, true},
	}
	groupedKeys = map[int]grouping{
		64:  {2, 64, 4, 1, 1, 1, 1, 40, 232, true},
		128: {2, 64, 3, 1, 0, 2, 1, 40, 232, true},
	}
)

// groupedRows is the length from which on the longest sequence makes these kernels faster than the others.
const groupedRows = 1

// rows returns the rows of a thread block.
func (g grouping) rows() int { return 64 * g.groups }

// shared returns the bytes of shared memory of a thread block: tiles of its own rows and of columns, two of each at a
// time, which start at a multiple of 1,024 bytes, two floats per column, and barriers.
func (g grouping) shared(dim int) int {
	return 1024 + (g.owns*g.rows()+g.stages*g.columns)*2*dim*2 + g.stages*2*g.columns*4 + (g.owns+g.stages)*16 + 8
}

// attentionGrouped reports whether the kernels for compute capability 9.0 compute gradients for queries, keys and
// values, and gradients of y, like these.
func (d *Device) attentionGrouped(s AttentionSpec, qkv, dy tensor.Tensor) bool {
	_, ok := groupedKeys[s.HeadDim]
	return ok && d.hasWGMMA() && qkv.DType.Half() && s.longest() >= groupedRows && int(qkv.Addr|dy.Addr)%16 == 0
}

// places returns the number of blocks of rows of all heads, if all sequences were as long as the longest, and the grid
// whose thread blocks process them one after the other.
func (d *Device) places(s AttentionSpec, g grouping, heads int) (int, grid) {
	places := blocks(s.longest(), g.rows()) * heads * (len(s.CuSeqlens) - 1)
	count := places
	if g.lasting {
		count = min(count, d.gpu.SMs)
	}
	grid := line(count, 128*(g.groups+1))
	grid.shared = g.shared(s.HeadDim)
	return places, grid
}

// macros returns the macros of a kernel.
func (g grouping) macros(s AttentionSpec, qkv tensor.Tensor) macros {
	m := rowsOf(s.heads(qkv, s.Heads)).with("COLUMNS", g.columns).with("STAGES", g.stages).with("OWNS", g.owns)
	m = m.with("HELD", g.held).with("OVERLAP", g.overlap).with("ORDERED", g.ordered)
	return m.with("COPYING", g.copying).with("MULTIPLYING", g.multiplying)
}

// attentionMaps are the maps of tiles of the operands of gradients.
type attentionMaps struct{ q, k, v, dy cuda.TileMap }

// attentionMaps returns the maps for tiles of so many queries and keys.
func (d *Device) attentionMaps(q, k, v, dy tensor.Matrix, queries, keys int) attentionMaps {
	return attentionMaps{d.tileMap(q, queries, 64), d.tileMap(k, keys, 64), d.tileMap(v, keys, 64),
		d.tileMap(dy, queries, 64)}
}

// groupedQueries computes the gradient of the queries, which are columns of dqkv.
func (d *Device) groupedQueries(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	dys := s.columns(dy, 0, s.Heads)
	g := groupedQueries[s.HeadDim]
	maps := d.attentionMaps(q, k, v, dys, g.rows(), g.columns)
	places, grid := d.places(s, g, s.Heads)
	d.launch(kernel{"op_attention_wgmma_dq.cu", "wgmma_dq", g.macros(s, qkv)}, grid,
		tiles(maps.q, q), tiles(maps.k, k), tiles(maps.v, v), tiles(maps.dy, dys), addr(dqkv), addr(lse), addr(delta),
		addr(s.Offsets), i32(len(s.CuSeqlens)-1), i32(places), i32(q.Rows), i32(s.Heads), i32(s.Width()),
		i32(s.share()), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
}

// groupedKeys computes the gradients of the keys and values, which are columns of dqkv.
func (d *Device) groupedKeys(dqkv, dy, lse, delta, qkv tensor.Tensor, s AttentionSpec) {
	q, k, v := s.parts(qkv)
	_, dk, dv := s.parts(dqkv)
	dys := s.columns(dy, 0, s.Heads)
	g := groupedKeys[s.HeadDim]
	maps := d.attentionMaps(q, k, v, dys, g.columns, g.rows())
	places, grid := d.places(s, g, s.KVHeads)
	d.launch(kernel{"op_attention_wgmma_dkv.cu", "wgmma_dkv", g.macros(s, qkv)}, grid,
		tiles(maps.q, q), tiles(maps.k, k), tiles(maps.v, v), tiles(maps.dy, dys), addrOf(dk), addrOf(dv), addr(lse),
		addr(delta), addr(s.Offsets), i32(len(s.CuSeqlens)-1), i32(places), i32(q.Rows), i32(s.KVHeads), i32(s.Width()),
		i32(s.share()), i32(s.Window), flag(!s.Bidirectional), f32(s.scale()))
}
