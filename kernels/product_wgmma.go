package kernels

import (
	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// The tiles of the kernels of product_wgmma*.cu, for compute capability 9.0, have wgmmaRows rows, and are multiplied in
// steps of wgmmaDepth along k.
const wgmmaRows, wgmmaDepth = 128, 64

// A wgmmaTile is what a thread block of such a kernel computes at a time: columns of the product. Shared memory has
// room for stages steps of it at a time and, for quantized weights, for pieces pieces, each of 64 bytes per row.
// With turns, its two warpgroups compute different tiles, if there is room for both sums in registers.
type wgmmaTile struct {
	columns, stages, pieces int
	turns                   bool
	partSteps               int    // of each of the parts that k is divided into; 0: it is not divided
	gradient                bool   // what follows is the gradient of the activation, whose input was p.Pre
	groups                  groups // the products of experts
}

var wgmmaTiles = []wgmmaTile{{columns: 64, stages: 8}, {columns: 96, stages: 6}, {columns: 128, stages: 6},
	{columns: 192, stages: 4}}

var wgmmaQuantizedTiles = []wgmmaTile{{columns: 64, stages: 6, pieces: 8}, {columns: 96, stages: 5, pieces: 8},
	{columns: 128, stages: 4, pieces: 8}}

const maxInTurns = 128 // columns

// threads returns the number of threads of a thread block: three warpgroups or, for quantized weights, five.
func (t wgmmaTile) threads() int { return 128 * (3 + 2*number(t.pieces > 0)) }

// inTurns reports whether its warpgroups can take turns. With quantized weights, registers are fewer.
func (t wgmmaTile) inTurns() bool { return t.columns <= maxInTurns && t.pieces == 0 }

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
// its pieces, two or more buffers for the results of 64 rows of each of two warpgroups, two barriers per stage and per
// piece, and two for turns.
func (t wgmmaTile) shared(gated bool) int {
	columns, atOnce := t.out(gated)
	return 1024 + t.stages*((wgmmaRows+t.columns)*wgmmaDepth*2+16) + t.pieces*(t.columns*64+16) +
		2*64*max(columns, 2*atOnce)*2
}

// wgmmaTiling chooses the tile of a product and, unless it must stay whole, divides k, to minimize an estimate of the
// time, in clocks: the time of the tiles, down rows of them, that a multiprocessor computes one after the other. A step
// takes the tensor cores' time, which was measured on an H200, or, if that is longer, the time for its bytes, 64 of
// which come from the cache per clock. If there is at most one tile for each multiprocessor, its warpgroups share the
// tile.
func (g *gpu) wgmmaTiling(p cpu.Product, down int, gated, whole bool) (best wgmmaTile) {
	m, n, k := p.C.Rows, p.C.Cols, depth(p)
	of, bytes := wgmmaTiles, 2*wgmmaDepth // of a step, per column
	if c := p.B.DType.Coding(); c.Bits > 0 {
		of, bytes = wgmmaQuantizedTiles, wgmmaDepth
		if c.Bits == 5 && c.Offsets { // values take too many registers
			of = of[:2]
		}
	}
	least := 0
	for _, t := range of {
		columns, atOnce := t.out(gated)
		tiles := down * blocks(n, columns)
		if atOnce == 0 || tiles > g.SMs && t.columns > maxInTurns || !p.TransB && t.columns%64 > 0 {
			continue
		}
		step := max(44*t.columns/10, (2*wgmmaDepth*wgmmaRows+bytes*t.columns)/64)
		t.turns = tiles > g.SMs && t.inTurns()
		all := 2 * blocks(k, 2*wgmmaDepth)
		for parts := 1; parts == 1 || !whole && parts*tiles <= g.SMs && parts*minPartSteps <= all; parts++ {
			steps, size := 2*blocks(all, 2*parts), parts*m*n*4
			if parts > 1 && size > productRoom {
				break
			}
			clocks := step * blocks(tiles, g.SMs) * (steps + 4)
			if parts > 1 {
				t.partSteps = steps
				clocks += 5000 + size/1000 // a launch, and what is written and read at 3.5 TB/s
			}
			if least == 0 || clocks < least {
				least, best = clocks, t
			}
		}
	}
	return best
}

// maxConvertedRows is the maximum number of rows of a product with quantized weights: each tile of rows computes the
// values of all weights. From 512 on, it was faster to do so once, and to store them.
const maxConvertedRows = 3 * wgmmaRows

// isStored reports whether the values of a quantized type are always stored before they are multiplied, because no
// kernel computes them as it multiplies more than a few rows.
func isStored(t tensor.DType) bool { return t == tensor.NF4 }

// minPartSteps is the minimum number of steps of a part of k.
const minPartSteps = 8

// wgmma computes a product, and what follows it, on the tensor cores of compute capability 9.0: p's activation or, if
// gated is true, SwiGLU of gates and ups, which are the rows of p.B; then p.C has half as many columns. keep, if it is
// not the zero Matrix, gets the product before that. wgmma reports whether it could: it can for BF16, also with
// quantized weights except NF4, and for F16, without a batch, if rows consist of 16-byte words. If nothing follows the
// product, p.C may be F32. Quantized weights have no second pair of operands.
func (d *Device) wgmma(p cpu.Product, keep tensor.Matrix, gated bool) bool {
	return d.wgmmaFollowed(p, keep, gated, false)
}

// actSwiGLU is an activation whose gradient may follow a product, numbered as in package cpu.
const actSwiGLU = cpu.ActSiLU + 1

// wgmmaFollowed is wgmma or, with gradient, a product times the derivative of p.Act at p.Pre, which is as wide as p.C.
// For SwiGLU, p.Pre has gates and ups, p.C is the gradient of gates, and keep gets the gradient of ups.
func (d *Device) wgmmaFollowed(p cpu.Product, keep tensor.Matrix, gated, gradient bool) bool {
	return d.wgmmaOf(p, keep, gated, gradient, coded{})
}

// wgmmaOf is wgmmaFollowed for p or, if p is the pairs of a coded product, for the coded product, whose codes it
// computes.
func (d *Device) wgmmaOf(p cpu.Product, keep tensor.Matrix, gated, gradient bool, of coded) bool {
	if p.B.DType.Quantized() && (p.A.Rows > maxConvertedRows && !d.rowsAlone || isStored(p.B.DType) || hasPair(p)) {
		return false
	}
	kept := keep.Addr != 0
	follows := gated || kept || p.Act != cpu.NoActivation
	if !kept {
		keep = p.C
	}
	if !d.wgmmaTakes(p, keep, follows) {
		return false
	}
	undivided := follows || d.alone(p) && of.scales.Ok() // eachRoom does not know the rows of codes
	t := d.wgmmaTiling(p, blocks(p.C.Rows, wgmmaRows), gated, undivided)
	if d.alone(p) && !kept && !of.scales.Ok() && d.few(p, gated, t) {
		return true
	}
	t.gradient = gradient
	if kept && t.overlaps(p, gated) {
		return false
	}
	whole, halves := p, 1+number(gated)
	if of.scales.Ok() {
		d.quantizeINT8(of)
		whole = of.Product
	}
	eachRoom(p, t.partsOf(depth(p)), func(some cpu.Product) {
		d.sized(some.C.Rows, some.C.Cols*halves, depth(whole))
		d.next.flops = operations(whole) * float64(halves*some.C.Rows) / float64(p.C.Rows)
		d.wgmmaTiled(some, keep, kept, gated, t, of)
	})
	return true
}

// hasWGMMA reports whether this is a GPU that product_wgmma*.cu are for.
func (d *Device) hasWGMMA() bool { return d.gpu != nil && d.gpu.Major == 9 && d.gpu.Minor == 0 }

// overlaps reports whether the last gates would be stored over the first ups.
func (t wgmmaTile) overlaps(p cpu.Product, gated bool) bool {
	_, atOnce := t.out(gated)
	return gated && p.C.Cols%atOnce != 0
}

// wgmmaGroups is wgmma for products of experts whose rows are groups: see grouped. p.B is the first expert's matrix.
func (d *Device) wgmmaGroups(p cpu.Product, keep tensor.Matrix, gated bool, of groups) bool {
	kept := keep.Addr != 0
	if !kept {
		keep = p.C
	}
	if of.kind != groupRows || !p.TransB || p.B.DType.Quantized() || !d.wgmmaTakes(p, keep, gated) {
		return false
	}
	// Each expert has a last tile, which is half full as a rule.
	experts := of.offsets.Len() - 1
	down := max(blocks(2*p.C.Rows+experts*wgmmaRows, 2*wgmmaRows), min(experts, p.C.Rows))
	t := d.wgmmaTiling(p, down, gated, true)
	if t.groups = of; kept && t.overlaps(p, gated) {
		return false
	}
	d.sized(p.C.Rows, p.B.Rows, depth(p))
	d.next.flops = of.operations(p) * float64(1+number(gated))
	d.wgmmaTiled(p, keep, kept, gated, t, coded{})
	return true
}

// wgmmaTakes reports whether product_wgmma*.cu can compute a product and what follows it, if anything does, and keep
// the product in a matrix.
func (d *Device) wgmmaTakes(p cpu.Product, keep tensor.Matrix, follows bool) bool {
	quantized := p.B.DType.Quantized()
	types := p.A.DType.Half() && (p.B.DType == p.A.DType || quantized && p.A.DType == tensor.BF16) &&
		(p.C.DType == p.A.DType || p.C.DType == tensor.F32 && !follows)
	if !d.hasWGMMA() || !types || p.Add && follows || batch(p) > 1 || p.Factor() != 1 ||
		(p.Bias|p.Pre)%4 != 0 || !widePair(p) || min(p.C.Rows, p.C.Cols, depth(p)) == 0 {
		return false
	}
	for _, x := range []tensor.Matrix{p.A, wgmmaWeights(p.B), p.C, keep} {
		if !wide(x, 8, 0, 0) {
			return false
		}
	}
	return true
}

// wgmmaTiled is wgmma with a tile. If nothing is kept, keep is any matrix. If p is the pairs of a coded product, of is
// that product; otherwise of is the zero value.
func (d *Device) wgmmaTiled(p cpu.Product, keep tensor.Matrix, kept, gated bool, t wgmmaTile, of coded) {
	m, n, k := p.C.Rows, p.C.Cols, depth(p)
	down, experts := blocks(m, wgmmaRows), 0 // rows of tiles, at most
	if t.groups.kind > 0 {
		experts = t.groups.offsets.Len() - 1
		down = m/wgmmaRows + min(m, experts)
		p.B.Rows *= experts
	}
	columns, _ := t.out(gated)
	maps := d.wgmmaMaps(p, keep, gated, t)
	// k is not divided, or in parts whose sums follow.
	steps := blocks(k, wgmmaDepth)
	count, partSteps, parts := 1, steps+1, tensor.Matrix{}
	if t.partSteps > 0 {
		count, partSteps = blocks(steps, t.partSteps), t.partSteps
		parts = d.parts(m, n, count)
	}
	g := line(min(d.gpu.SMs, count*down*blocks(n, columns)), t.threads())
	g.shared = t.shared(gated)
	how := t.macros(p, gated)
	keptBytes := number(kept) * keep.Rows * keep.DType.RowBytes(keep.Cols)
	switch {
	case p.B.DType.Quantized():
		how = codingOf(p.B.DType, how).with("PIECES", t.pieces)
		d.launch(kernel{"product_wgmma_quantized.cu", "product_wgmma_quantized", how}, g,
			tiles(maps.a, p.A), tiles(maps.b, p.B), tiles(maps.c, p.C).twice(p.Add), tiles(maps.keep, keep).moves(keptBytes),
			address(p.C.Addr), i64(p.C.Stride), address(p.Bias), address(p.B.Addr), addrOf(parts), i32(m), i32(n), i32(k),
			i32(partSteps), flag(kept), flag(p.Add))
	case of.scales.Ok():
		d.launch(kernel{"product_wgmma_int8.cu", "product_wgmma_int8", halfOf(p, how.with("TURNS", number(t.turns)))}, g,
			tiles(maps.a, p.A), tiles(maps.b, p.B), tiles(maps.c, p.C).twice(p.Add), tiles(maps.keep, keep).moves(keptBytes),
			address(p.C.Addr), i64(p.C.Stride), address(p.Bias), address(of.B.Addr), addrOf(parts), i32(m), i32(n), i32(k),
			i32(partSteps), flag(kept), flag(p.Add), addr(of.scales))
	default:
		how = how.with("TURNS", number(t.turns)).with("TRANS_A", number(p.TransA)).with("TRANS_B", number(p.TransB))
		how = withPair(p, how)
		inputs := tensor.Matrix{DType: p.C.DType}
		switch {
		case t.gradient:
			how = how.with("GRADIENT", 1)
			inputs = tensor.Matrix{Addr: p.Pre, Rows: m, Cols: n * (1 + number(p.Act == actSwiGLU)), DType: p.C.DType}
			inputs.Stride = inputs.Cols
		case t.groups.kind > 0:
			how = how.with("GROUPED", 1)
			inputs = tensor.Matrix{Addr: keep.Addr, Stride: keep.Stride, DType: keep.DType} // whose bytes the map counts
		}
		d.launch(kernel{"product_wgmma.cu", "product_wgmma", halfOf(p, how)}, g,
			tiles(maps.a, p.A), tiles(maps.b, p.B), tiles(maps.c, p.C).twice(p.Add), tiles(maps.keep, keep).moves(keptBytes),
			tiles(maps.a2, p.A2), tiles(maps.b2, p.B2), address(p.C.Addr), i64(p.C.Stride), address(p.Bias),
			addrOf(parts), i32(m), i32(n), i32(k), i32(partSteps),
			flag(kept), flag(p.Add), addrOf(inputs), i64(inputs.Stride), addr(t.groups.offsets), i32(experts),
			i32(p.A2.Cols))
	}
	switch {
	case count == 1: // p.C has the result
	case of.scales.Ok():
		d.sumINT8(of, parts)
	default:
		d.sumParts(p, parts)
	}
}

// macros returns the macros of all three kernels.
func (t wgmmaTile) macros(p cpu.Product, gated bool) macros {
	act := p.Act
	if gated {
		act = cpu.ActSiLU
	}
	how := define(result(p.C)).with("TILE_N", t.columns).with("STAGES", t.stages)
	return how.with("GATED", number(gated)).with("ACT", int(act))
}

// wgmmaMaps are the maps of tiles of a product's operands.
type wgmmaMaps struct{ a, b, c, keep, a2, b2 cuda.TileMap }

// wgmmaMaps returns the maps for a tile. If a has fewer rows, a tile has only these; with groups, it is copied as two
// halves.
func (d *Device) wgmmaMaps(p cpu.Product, keep tensor.Matrix, gated bool, t wgmmaTile) (maps wgmmaMaps) {
	columns, atOnce := t.out(gated)
	rows := wgmmaRows
	if t.groups.kind > 0 {
		rows /= 2
	}
	left := [2]int{min(rows, blocks(p.C.Rows, 8)*8), wgmmaDepth} // rows and columns of a tile
	if p.TransA {
		left = [2]int{wgmmaDepth, 64}
	}
	right := [2]int{min(t.columns, columns), wgmmaDepth}
	switch {
	case !p.TransB:
		right = [2]int{wgmmaDepth, 64}
	case p.B.DType.Quantized():
		right[1] = 32
	}
	maps.a, maps.b = d.tileMap(p.A, left[0], left[1]), d.tileMap(wgmmaWeights(p.B), right[0], right[1])
	if hasPair(p) {
		maps.a2, maps.b2 = d.tileMap(p.A2, left[0], left[1]), d.tileMap(p.B2, right[0], right[1])
	}
	if p.C.DType != tensor.F32 {
		maps.c = d.tileMap(p.C, 64, atOnce)
		maps.keep = d.tileMap(keep, 64, atOnce)
	}
	return maps
}

// wgmmaWeights returns what is copied of weights: if they are quantized, their codes, or the low four bits of these,
// two bytes as one element.
func wgmmaWeights(w tensor.Matrix) tensor.Matrix {
	if !w.DType.Quantized() {
		return w
	}
	row, head, codes := w.DType.RowBytes(w.Cols), w.DType.HeadBytes(w.Cols), w.DType.LowBytes(w.Cols)
	return tensor.Matrix{Addr: w.Addr + uintptr(head), Rows: w.Rows, Cols: codes / 2, Stride: row / 2, DType: tensor.BF16}
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
