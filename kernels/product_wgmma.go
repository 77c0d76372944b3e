package kernels

import (
	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// The kernel in wgmma.cu, for compute capability 9.0: its tiles have wgmmaRows rows, and are multiplied in steps of
// wgmmaDepth along k.
const wgmmaRows, wgmmaDepth, wgmmaThreads = 128, 64, 384

// A wgmmaTile is what a thread block of wgmma.cu computes at a time: columns of the product, of which so many steps are
// in shared memory at a time as fit. In turns, its two warpgroups compute different tiles, if both sums have room in
// registers.
type wgmmaTile struct {
	columns, stages int
	turns           bool
}

const maxInTurns = 128 // columns

var wgmmaTiles = []wgmmaTile{{columns: 64, stages: 8}, {columns: 96, stages: 6}, {columns: 128, stages: 6},
	{columns: 192, stages: 4}}

// out returns the number of columns of the result of a tile, and how many of them are stored at once, or 0 if the tile
// does not suit.
func (t wgmmaTile) out(gated bool) (columns, atOnce int) {
	columns = t.columns
	if gated {
		columns /= 2
	}
	for _, atOnce = range []int{64, 32} {
		if columns%atOnce == 0 {
			return columns, atOnce
		}
	}
	return columns, 0
}

// shared returns the bytes of shared memory that a tile needs: its stages, which start at a multiple of 1,024 bytes,
// two or more buffers for the results of 64 rows of each of two warpgroups, two barriers per stage, and two for turns.
func (t wgmmaTile) shared(gated bool) int {
	columns, atOnce := t.out(gated)
	return 1024 + t.stages*((wgmmaRows+t.columns)*wgmmaDepth*2+16) + 2*64*max(columns, 2*atOnce)*2
}

// wgmmaTiling chooses the tile of a product of m rows and n columns, or of n gates and as many ups, to minimize an
// estimate of the time of a step: that of the tiles that a multiprocessor computes one after the other. Of each, a step
// takes the tensor cores' time, which was measured on an H200, or that of its bytes, of which 64 come from the cache in
// a clock. If there is a tile for each multiprocessor at most, its warpgroups share it.
func (g *gpu) wgmmaTiling(m, n int, gated bool) (best wgmmaTile) {
	least := 0
	for _, t := range wgmmaTiles {
		columns, atOnce := t.out(gated)
		tiles := blocks(m, wgmmaRows) * blocks(n, columns)
		if atOnce == 0 || tiles > g.SMs && t.columns > maxInTurns {
			continue
		}
		clocks := max(44*t.columns/10, 2*(wgmmaRows+t.columns)) * blocks(tiles, g.SMs)
		if least == 0 || clocks < least {
			least, best = clocks, t
			best.turns = tiles > g.SMs
		}
	}
	return best
}

// wgmma computes the product of a matrix and a transposed one, and what follows it, on the tensor cores of compute
// capability 9.0: p's activation or, if it is gated, SwiGLU of gates and ups, the rows of p.B, of which p.C has half as
// many columns. keep gets the product before that, if it is not the zero Matrix. wgmma reports whether it could: for
// BF16 and F16, without a batch, if rows consist of 16-byte words.
func (d *Device) wgmma(p cpu.Product, keep tensor.Matrix, gated bool) bool {
	half := p.A.DType.Half() && p.C.DType == p.A.DType && p.B.DType == p.A.DType
	if d.gpu.Major != 9 || d.gpu.Minor != 0 || !half || p.TransA || !p.TransB || p.Add || batch(p) > 1 ||
		p.Factor() != 1 || p.Bias%4 != 0 || !gated && p.Act == cpu.NoActivation || min(p.C.Rows, p.C.Cols, p.A.Cols) == 0 {
		return false
	}
	kept := keep.Addr != 0
	if !kept {
		keep = p.C
	}
	for _, x := range []tensor.Matrix{p.A, p.B, p.C, keep} {
		if !wide(x, 8, 0, 0) {
			return false
		}
	}
	t := d.gpu.wgmmaTiling(p.C.Rows, p.C.Cols, gated)
	if _, atOnce := t.out(gated); gated && kept && p.C.Cols%atOnce != 0 {
		return false // the last gates would be stored over the first ups
	}
	d.wgmmaTiled(p, keep, kept, gated, t)
	return true
}

// wgmmaTiled is wgmma with a tile. If nothing is kept, keep is any matrix.
func (d *Device) wgmmaTiled(p cpu.Product, keep tensor.Matrix, kept, gated bool, t wgmmaTile) {
	m, n := p.C.Rows, p.C.Cols
	columns, atOnce := t.out(gated)
	how := macros{result(p.C)}.with("TILE_N", t.columns).with("STAGES", t.stages).with("TURNS", number(t.turns)).with(
		"GATED", number(gated))
	if p.Act != cpu.NoActivation {
		how = how.with("ACT", int(p.Act))
	}
	g := line(min(d.gpu.SMs, blocks(m, wgmmaRows)*blocks(n, columns)), wgmmaThreads)
	g.shared = t.shared(gated)
	d.sized(m, p.B.Rows, p.A.Cols)
	d.next.flops = 2 * float64(m) * float64(p.B.Rows) * float64(p.A.Cols)
	d.launch(kernel{"wgmma.cu", "product_wgmma", halfOf(p, how)}, g,
		tiles(d.tileMap(p.A, wgmmaRows, wgmmaDepth), p.A),
		tiles(d.tileMap(p.B, min(t.columns, columns), wgmmaDepth), p.B),
		tiles(d.tileMap(p.C, 64, atOnce), p.C),
		tiles(d.tileMap(keep, 64, atOnce), keep).moves(number(kept)*keep.Rows*keep.DType.RowBytes(keep.Cols)),
		address(p.Bias), i32(m), i32(n), i32(p.A.Cols), flag(kept))
}

// tileMap describes tiles of a matrix. If launches are only recorded, there is no driver that could.
func (d *Device) tileMap(x tensor.Matrix, rows, columns int) (m cuda.TileMap) {
	if d.gpu.launched != nil || d.err != nil {
		return m
	}
	m, err := d.gpu.TileMap(cuda.Tiles{Address: x.Addr, Rows: x.Rows, Columns: x.Cols, Stride: x.Stride * x.DType.Size(),
		TileRows: rows, TileColumns: columns})
	d.fail(err)
	return m
}
