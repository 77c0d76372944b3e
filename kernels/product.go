package kernels

import (
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// productRoom is the size in bytes of the memory for partial sums of products: cuBLASLt's own default on a GPU that has
// wgmma, and enough for all.
const productRoom = 32 << 20

// maxArrived is the number of counters of product_few: for each lane of a warp, of all warps that have parts of k.
const maxArrived = 64 << 10

// makeRoom allocates that memory, and zeroed counters of parts, once.
func (d *Device) makeRoom() (err error) {
	if d.gpu.room != nil {
		return nil
	}
	lay := func(a *Arena) {
		a.New("sums", tensor.U8, productRoom)
		d.gpu.arrived = a.New("parts that have come", tensor.I32, maxArrived)
	}
	if d.gpu.room, err = d.NewArena("the sums of products' parts", SizeOf(lay)); err == nil {
		lay(d.gpu.room)
		d.Zero(d.gpu.arrived)
	}
	return err
}

// product computes a matrix product; all operations use it.
//
// On a GPU, kernels for few rows and for few columns compute products for which cuBLASLt has nothing better, and
// cuBLASLt, if installed, computes all others that it supports. restyle's own kernels compute the rest: BF16 and F16 on
// tensor cores, with the instructions that only compute capability 9.0 has where they can be used, and F32 without
// them. Sums are in float32; their order depends only on the sizes and on the GPU's number of multiprocessors. A batch
// is one launch, or one for each product if the products are added up; cuBLASLt, which supports one batch dimension,
// needs a launch for each index of the shorter one. cuBLASLt takes no second pair of operands: only if C is F32 does it
// compute the second product separately and add it.
func (d *Device) product(p cpu.Product) {
	if p.B.DType.Quantized() {
		d.productQuantized(p)
		return
	}
	if d.gpu == nil {
		if d.running != nil {
			d.running.FLOPs += operations(p)
		}
		d.gemm(p)
		return
	}
	for dimension, b := range p.Batch {
		if b.N > 1 && b.C == 0 {
			p.Along(dimension, d.product)
			return
		}
	}
	switch {
	case p.C.Rows == 0 || p.C.Cols == 0: // nothing to compute
	case p.Act != cpu.NoActivation:
		d.productActivated(p)
	case d.fewRows(p):
		d.matvec(p, rowNorm{}, false, expertRows{})
	case hasPair(p) && d.blas() != nil && p.C.DType == tensor.F32:
		first, second := p, cpu.Product{C: p.C, A: p.A2, B: p.B2, TransB: p.TransB, Add: true}
		first.A2, first.B2 = tensor.Matrix{}, tensor.Matrix{}
		d.product(first)
		d.product(second)
	case narrow(p) && d.wgmma(p, tensor.Matrix{}, false): // queued
	case d.err == nil && d.blas().multiply(d, p): // queued
	case d.wgmma(p, tensor.Matrix{}, false): // queued
	default:
		t, parts := d.tiling(p)
		d.tiled(p, t, parts)
	}
}

// SetRowsAlone sets whether a product gives a row the same bits whatever the number of rows is. That holds for Linear,
// GroupedLinear and the operations made of them, with quantized weights and with a Pair. So a row does not depend on
// what is computed along with it. It is off by default, because a few rows then take less time.
func (d *Device) SetRowsAlone(on bool) { d.rowsAlone = on }

// gemm computes a product of weights that are not quantized on the CPU.
func (d *Device) gemm(p cpu.Product) {
	p.Alone = d.rowsAlone
	cpu.Gemm(p)
}

// narrow reports whether a product reads a large matrix for few columns, as the products of low-rank adapters do. On an
// H200, product_wgmma took 0.7 to 0.99 of cuBLASLt's time with 16,384 rows. With 2,048 it took half of it, and then the
// parts of k are added up.
func narrow(p cpu.Product) bool {
	return p.C.Cols <= 64 && p.C.Rows >= 1024 && p.C.DType.Half()
}

// productActivated computes a product that an activation follows: in one kernel on compute capability 9.0, or if tensor
// cores compute it, without cuBLASLt, and not divided into parts.
func (d *Device) productActivated(p cpu.Product) {
	pre := p.C // the activation's input
	pre.Addr, pre.Stride = p.Pre, p.C.Cols
	if !d.fewRows(p) && d.wgmma(p, pre, false) {
		return
	}
	t, parts := d.tiling(p)
	if (d.blas() == nil || hasPair(p)) && !d.fewRows(p) && parts == 1 && p.A.DType.Half() && p.C.DType == p.A.DType {
		d.tiled(p, t, 1)
		return
	}
	act, y := p.Act, p.C
	if p.Pre == 0 {
		pre = y
	}
	p.C, p.Act, p.Pre = pre, cpu.NoActivation, 0
	d.product(p)
	d.activate(y, pre, act)
}

// activate computes y = act(x) on a GPU. Rows of y follow each other.
func (d *Device) activate(y, x tensor.Matrix, act cpu.Activation) {
	if act == cpu.ActSiLU {
		d.launch(kernel{"op_swiglu.cu", "silu", rowsOf(y)}, each(vectors(y)),
			addrOf(y), i32(y.Stride), addrOf(x), i32(x.Stride), i32(y.Rows))
		return
	}
	n := vectors(y)
	d.launch(kernel{"op_gelu.cu", "gelu", vectorsOf(y)}, each(n), addrOf(y), addrOf(x), i64(n),
		flag(act == cpu.ActGELUTanh))
}

// maxMatvecRows is the maximum number of rows that matvec multiplies.
const maxMatvecRows = 8

// fewRows reports whether matvec computes a product: up to eight rows times the transpose of a matrix, in BF16 or F16,
// in 16-byte words, without a batch, unless rows are alone.
func (d *Device) fewRows(p cpu.Product) bool {
	if d.rowsAlone {
		return false
	}
	words := false // operands consist of 16-byte words
	if p.B.DType.Quantized() {
		words = p.A.DType == tensor.BF16 && wide(p.A, 8, 0, 0) &&
			!(fine(p.B.DType) && fineRows(p)*p.A.Cols > maxFineRow)
	} else {
		words = p.A.DType.Half() && aligned(p)
	}
	return batch(p) == 1 && p.Factor() == 1 && !p.TransA && p.TransB && p.A.Rows <= maxMatvecRows && words && widePair(p)
}

// hasPair reports whether a product has a second pair of operands, and widePair whether that consists of 16-byte words
// if it has one.
func hasPair(p cpu.Product) bool { return p.B2.Addr != 0 }

func widePair(p cpu.Product) bool { return !hasPair(p) || wide(p.A2, 8, 0, 0) && wide(p.B2, 8, 0, 0) }

// batch returns the number of products of p.
func batch(p cpu.Product) int { return max(1, p.Batch[0].N) * max(1, p.Batch[1].N) }

// operations returns the FLOPs of p.
func operations(p cpu.Product) float64 {
	return 2 * float64(batch(p)) * float64(p.C.Rows) * float64(p.C.Cols) * float64(depth(p)+p.A2.Cols)
}

// wide reports whether every row of x, and of the matrices outer and inner elements further, consists of whole groups
// of n elements that are aligned to their size.
func wide(x tensor.Matrix, n, outer, inner int) bool {
	return int(x.Addr)%(n*x.DType.Size()) == 0 && (x.Stride|x.Cols|outer|inner)%n == 0
}

// result returns the macro that names the type of c.
func result(c tensor.Matrix) macro { return macro{"C_" + c.DType.String(), 1} }

// halfOf adds the macro for tensor cores that multiply F16 instead of BF16.
func halfOf(p cpu.Product, m macros) macros {
	if p.A.DType == tensor.F16 {
		return m.with("F16", 1)
	}
	return m
}

// withPair adds the macro for a second pair of operands, if there is one.
func withPair(p cpu.Product, m macros) macros {
	if hasPair(p) {
		return m.with("PAIR", 1)
	}
	return m
}

// A rowNorm is the RMSNorm that is applied to a single row before it is multiplied. The zero value is none.
type rowNorm struct {
	w   tensor.Tensor
	eps float32
}

// expertRows are rows each of which is multiplied by the weights of its expert; see GroupedLinear. The zero value is
// none.
type expertRows struct {
	n       int
	offsets tensor.Tensor // I32 [experts+1]
}

// maxFineRow is the maximum length of the rows that matvec_fine multiplies at once: they are in shared memory, of which
// every GPU with BF16 gives a thread block 99 KiB. fineRows returns their number.
const maxFineRow = 40 << 10

func fineRows(p cpu.Product) int {
	if p.A.Rows > 1 && p.B.DType.Coding().Group == 32 {
		return 2
	}
	return 1
}

// matvec computes a product of few rows: each thread block computes 16 rows of b, or several times as many of fine
// groups; its warps take turns, 128 elements each, or more of quantized ones. With a norm, or gated, there is one row.
// If gated, the sums of b's first half are gates, and the sums of its second half are the values that they gate. With
// experts, p is the product of the first row and the first expert, and a thread block finds the expert of its row.
func (d *Device) matvec(p cpu.Product, n rowNorm, gated bool, of expertRows) {
	k, t := p.A.Cols, p.B.DType
	word := 32 // weights that four lanes load at once
	outputs := 16
	experts := 0
	how := withPair(p, define(result(p.C)).with("NORMED", number(n.w.Ok())).with("GATED", number(gated)))
	if t.Quantized() {
		how = codingOf(t, how)
		word = tensor.GroupSize // whose low four bits of codes are 64 bytes
		if t.Coding().Bits == 8 {
			word = 64
		}
	}
	if gated {
		outputs = 8
	}
	g := line(blocks(p.C.Cols, outputs), 32*max(1, min(16, blocks(k, 4*word))))
	g.ahead = true
	if n.w.Ok() {
		g.shared = k * tensor.BF16.Size()
	}
	if of.offsets.Ok() {
		g.blocks.Y = of.n
		experts = of.offsets.Len() - 1
		how = how.with("GROUPED", 1)
	}
	d.sized(p.A.Rows, p.B.Rows, k)
	if fine(t) {
		g, how = d.fineGrid(g, p, 2*word, how)
		d.launch(kernel{"product_one_row_fine.cu", "matvec_fine", how}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), address(p.Bias),
			addr(n.w), f32(n.eps), i32(p.C.Rows), i32(p.C.Cols), flag(p.Add), address(d.prefetch.Addr),
			i32(d.prefetch.Bytes()/128), addr(of.offsets), i32(experts), addrOf(p.A2), i64(p.A2.Stride), addrOf(p.B2),
			i64(p.B2.Stride), i32(p.A2.Cols))
		return
	}
	if t.Quantized() {
		d.launch(kernel{"product_one_row_quantized.cu", "matvec_quantized", how}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), address(p.Bias),
			addr(n.w), f32(n.eps), i32(p.C.Rows), i32(p.C.Cols), i32(k), flag(p.Add), address(d.prefetch.Addr),
			i32(d.prefetch.Bytes()/128), addr(of.offsets), i32(experts), addrOf(p.A2), i64(p.A2.Stride), addrOf(p.B2),
			i64(p.B2.Stride), i32(p.A2.Cols))
		return
	}
	d.launch(kernel{"product_one_row.cu", "matvec", halfOf(p, how)}, g,
		addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
		address(p.Bias), addr(n.w), f32(n.eps), i32(p.C.Rows), i32(p.C.Cols), i32(k), flag(p.Add),
		address(d.prefetch.Addr), i32(d.prefetch.Bytes()/128), addr(of.offsets), i32(experts), addrOf(p.A2),
		i64(p.A2.Stride), addrOf(p.B2), i64(p.B2.Stride), i32(p.A2.Cols))
}

// fineGrid returns the grid of matvec_fine, and adds its macros. Its thread blocks compute one tile of columns after
// the other, so there are only as many as a GPU runs at once. A warp has two turns of each row of b, or more; if there
// are few tiles, as few as there can be.
func (d *Device) fineGrid(g grid, p cpu.Product, turn int, how macros) (grid, macros) {
	group, k, rows := p.B.DType.Coding().Group, p.A.Cols, fineRows(p)
	turns, each := blocks(k, turn), 2
	if g.blocks.X <= fewTiles {
		each = 1
	}
	g.threads.X = 32 * max(1, min(16, blocks(turns, each)))
	g.blocks.X = min(g.blocks.X, max(1, d.gpu.SMs)*min(maxFineBlocks, fineThreads/g.threads.X))
	g.shared = rows * turns * (turn*tensor.BF16.Size() + turn/group*tensor.F32.Size())
	return g, how.with("DEPTH", k).with("ROWS", rows)
}

// A multiprocessor runs fineThreads threads of matvec_fine at once, in up to maxFineBlocks thread blocks: RESIDENT of
// its source. fewTiles tiles leave multiprocessors idle.
const fineThreads, maxFineBlocks, fewTiles = 512, 8, 128

// A tile is the m × n part of c that a thread block computes, in steps of depth along k. stages steps of BF16 are in
// shared memory at a time. resident thread blocks run on a multiprocessor at once; together they do rate
// multiplications per nanosecond.
type tile struct {
	m, n, depth, stages, threads, resident int
	rate                                   float64
}

// The tiles of each type. Larger ones read operands less often; smaller ones keep more multiprocessors busy. The rates
// of BF16 were measured on an H200, on which 128x192 and 128x256 were slower; the rates of F32 are estimates.
var (
	tensorTiles = []tile{{128, 128, 32, 3, 128, 2, 1500}, {64, 128, 32, 4, 128, 3, 1330}, {64, 64, 32, 4, 128, 4, 1080}}
	floatTiles  = []tile{{128, 128, 8, 0, 256, 1, 220}, {64, 64, 8, 0, 256, 1, 160}}
)

// shared returns the bytes of shared memory that a tile's steps of BF16 take.
func (t tile) shared() int { return t.stages * t.depth * (t.m + t.n) * tensor.BF16.Size() }

// part returns how much of k each of a number of parts gets: whole steps.
func (t tile) part(k, parts int) int { return blocks(k, parts*t.depth) * t.depth }

// tilesFor returns the tiles that a product may use. If operands are copied element by element, only the smallest.
func tilesFor(p cpu.Product) []tile {
	switch {
	case p.A.DType == tensor.F32:
		return floatTiles
	case !aligned(p):
		return tensorTiles[len(tensorTiles)-1:]
	}
	return tensorTiles
}

// aligned reports whether all operands, of 16-bit elements, consist of 16-byte words.
func aligned(p cpu.Product) bool {
	outer, inner := p.Batch[0], p.Batch[1]
	return wide(p.A, 8, outer.A, inner.A) && wide(p.B, 8, outer.B, inner.B) && widePair(p)
}

// maxParts is the maximum number of parts that k is divided into.
const maxParts = 32

// tiling chooses the tile of a product, and the number of parts that k is divided into, to minimize an estimate of the
// time: the time of the thread blocks that a multiprocessor runs one after the other, each with an overhead of a few
// steps, plus the time to add up the parts. A batch is not divided: it has enough thread blocks.
//
// Neither the largest tile nor the fullest GPU is best. A large tile reads each operand less often, but the last round
// of thread blocks may leave most multiprocessors idle: a single tile more than they take at once costs a whole round.
// Dividing k fills them, and costs a second launch, and memory for sums that are written and read once more. So every
// tile is tried with every number of parts: 96 estimates at most. They are not measurements, because measurements
// differ from run to run: the order of sums, and with it the last bits of all results, would differ as well.
func (g *gpu) tiling(p cpu.Product) (best tile, parts int) {
	m, n, k := p.C.Rows, p.C.Cols, depth(p)
	minTime := math.Inf(1)
	for _, t := range tilesFor(p) {
		count := blocks(m, t.m) * blocks(n, t.n) * batch(p)
		for cuts := 1; cuts <= maxParts; cuts++ {
			size := cuts * m * n * 4
			if cuts > 1 && (batch(p) > 1 || k < cuts*8*t.depth || size > productRoom) {
				break
			}
			long := t.part(k, cuts) + 4*t.depth
			time := float64(blocks(cuts*count, t.resident*g.SMs)*t.resident*t.m*t.n*long) / t.rate
			if cuts > 1 {
				time += 3000 + 2*float64(size)/3000 // a launch, and what is written and read at 3 TB/s
			}
			if time < minTime {
				minTime, best, parts = time, t, cuts
			}
		}
	}
	return best, parts
}

// depth returns a product's k.
func depth(p cpu.Product) int {
	if p.TransA {
		return p.A.Rows
	}
	return p.A.Cols
}

// parts returns room for the sums of the parts of a product, [m, n] each.
func (d *Device) parts(m, n, count int) tensor.Matrix {
	if err := d.makeRoom(); err != nil {
		d.fail(err)
		return tensor.Matrix{}
	}
	return tensor.Matrix{Addr: d.gpu.room.base, Rows: count * m, Cols: n, Stride: n, DType: tensor.F32}
}

// sumParts adds up the parts of a product.
func (d *Device) sumParts(p cpu.Product, parts tensor.Matrix) {
	m, n := p.C.Rows, p.C.Cols
	d.launch(kernel{"product_sum.cu", "sum_parts", define(result(p.C), macro{p.A.DType.String(), 1})}, each(m*n),
		addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(parts), address(p.Bias), f32(p.Factor()), i32(m), i32(n),
		i32(parts.Rows/m), flag(p.Add))
}

// tiled computes a product, or a batch, tile by tile. If k is divided into parts, the parts are a batch whose sums go
// to the workspace first; the last part may be shorter, and takes a second pair of operands.
func (d *Device) tiled(p cpu.Product, t tile, parts int) {
	eachRoom(p, parts, func(p cpu.Product) { d.tiledGroups(p, t, parts, groups{}) })
}

// tiledGroups is tiled for a product whose outer batch may be one of groups.
func (d *Device) tiledGroups(p cpu.Product, t tile, parts int, of groups) {
	all := p
	m, n, k := p.C.Rows, p.C.Cols, depth(p)
	part := 0
	if parts > 1 {
		p.C = d.parts(m, n, parts)
		p.Bias, p.Add, p.Alpha = 0, false, 0
		part = t.part(k, parts)
		p.Batch[1] = cpu.Batch{N: parts, A: part, B: part, C: m * n}
		if p.TransA {
			p.Batch[1].A *= p.A.Stride
		}
		if !p.TransB {
			p.Batch[1].B *= p.B.Stride
		}
	}
	outer, inner := p.Batch[0], p.Batch[1]
	g := line(blocks(m, t.m)*blocks(n, t.n), t.threads)
	g.blocks.Y, g.blocks.Z = max(1, inner.N), max(1, outer.N)
	d.sized(m, n, k)
	d.next.flops = operations(all)
	if of.flops > 0 {
		d.next.flops = of.flops
	}
	how := withPair(p, define(result(p.C)).with("TRANS_A", number(p.TransA)).with("TRANS_B", number(p.TransB)))
	if of.kind > 0 {
		how = how.with("GROUPED", int(of.kind))
	}
	if p.A.DType == tensor.F32 {
		d.launch(kernel{"product.cu", "product", how.with("F32", 1).with("TILE", t.m)}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
			address(p.Bias), f32(p.Factor()), i32(m), i32(n), i32(k), i32(part), flag(p.Add),
			i64(outer.A), i64(outer.B), i64(outer.C), i64(inner.A), i64(inner.B), i64(inner.C), addr(of.offsets),
			addrOf(p.A2), i64(p.A2.Stride), addrOf(p.B2), i64(p.B2.Stride), i32(p.A2.Cols))
	} else {
		g.shared = t.shared()
		width, words := 1, aligned(p)
		if words && wide(p.C, 4, outer.C, inner.C) {
			width = 4
		}
		if p.Act != cpu.NoActivation {
			how = how.with("ACT", int(p.Act))
		}
		how = how.with("ALIGNED", number(words)).with("C_WIDTH", width)
		how = how.with("SCALED", number(p.Factor() != 1))
		how = how.with("TILE_M", t.m).with("TILE_N", t.n).with("DEPTH", t.depth).with("STAGES", t.stages)
		d.launch(kernel{"product_gemm.cu", "gemm", halfOf(p, how)}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
			address(p.Bias), address(p.Pre), f32(p.Factor()), i32(m), i32(n), i32(k), i32(part), flag(p.Add),
			i64(outer.A), i64(outer.B), i64(outer.C), i64(inner.A), i64(inner.B), i64(inner.C), addr(of.offsets),
			addrOf(p.A2), i64(p.A2.Stride), addrOf(p.B2), i64(p.B2.Stride), i32(p.A2.Cols))
	}
	if parts > 1 {
		d.sumParts(all, p.C)
	}
}
