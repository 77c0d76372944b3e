package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// While rows are alone (SetRowsAlone), a GPU computes every product with the kernels of product*.cu that multiply
// tiles, and how a tile is computed depends only on the weights, not on the number of rows: the size of the tile, and
// the parts that k is divided into. An element of c is the sum of products of 16 elements along k, in the order of k,
// and tensor cores compute each row of such a product only from that row and b. So a row has the same bits in any tile,
// and anywhere in it. On an H200, wgmma with 8 to 256 columns, with rows as either operand and from registers, and mma,
// which may have the 16 elements in any order, gave the same bits for random numbers, numbers of very different sizes,
// numbers that cancel, subnormal sums, infinities and NaNs. That is why product_few may compute a few rows in another
// way. cuBLASLt, and the kernels of product_one_row*.cu, add up in another order.

// aloneRows is the number of rows that tiles and parts are chosen for: the rows of a tile, for which weights are read
// once. A step of a server has as many or fewer, unless it reads a prompt.
const aloneRows = wgmmaRows

// alone reports whether rows of a product have to be alone. Gradients of weights are sums over rows.
func (d *Device) alone(p cpu.Product) bool { return d.rowsAlone && !p.TransA }

// ZeroPairMatters reports whether a product with weights of a type may have other bits with a Pair that is zero than
// without a Pair, while rows are alone.
func (d *Device) ZeroPairMatters(weights tensor.DType) bool {
	return weights.Quantized() && d.hasWGMMA() && !isStored(weights) || d.int8Activations && weights == tensor.INT8
}

// blas returns cuBLASLt, or nil if it must not multiply.
func (d *Device) blas() *blas {
	if d.rowsAlone {
		return nil
	}
	return d.gpu.blas
}

// tiling is gpu.tiling, unless rows are alone.
func (d *Device) tiling(p cpu.Product) (tile, int) {
	if d.alone(p) {
		p.C.Rows = aloneRows
	}
	return d.gpu.tiling(p)
}

// wgmmaTiling is gpu.wgmmaTiling, unless rows are alone. In that case, as in others, warpgroups may take turns, which
// takes more tiles than the GPU has multiprocessors.
func (d *Device) wgmmaTiling(p cpu.Product, down int, gated, whole bool) wgmmaTile {
	if !d.alone(p) {
		return d.gpu.wgmmaTiling(p, down, gated, whole)
	}
	p.C.Rows = aloneRows
	t := d.gpu.wgmmaTiling(p, 1, gated, whole)
	columns, _ := t.out(gated)
	t.turns = t.partSteps == 0 && down*blocks(p.C.Cols, columns) > d.gpu.SMs && t.inTurns()
	return t
}

// eachRoom calls f with a product or, if its parts have no room for the sums of all rows, with some rows of it at a
// time.
func eachRoom(p cpu.Product, parts int, f func(p cpu.Product)) {
	rows := p.C.Rows
	if parts == 1 || 4*parts*rows*p.C.Cols <= productRoom {
		f(p)
		return
	}
	step := productRoom / (4 * parts * p.C.Cols) / aloneRows * aloneRows // at least aloneRows: see tiling
	for from := 0; from < rows; from += step {
		to := min(from+step, rows)
		some := p
		some.A, some.C = rowsBetween(p.A, from, to), rowsBetween(p.C, from, to)
		if hasPair(p) {
			some.A2 = rowsBetween(p.A2, from, to)
		}
		f(some)
	}
}

// partsOf returns the number of parts that a tile divides k into.
func (t wgmmaTile) partsOf(k int) int {
	if t.partSteps == 0 {
		return 1
	}
	return blocks(blocks(k, wgmmaDepth), t.partSteps)
}
