package kernels

import (
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// productRoom is the memory that products have for the sums of parts: what is cuBLASLt's own default on a GPU that has wgmma,
// and enough for all.
const productRoom = 32 << 20

// makeRoom allocates that memory, once.
func (d *Device) makeRoom() (err error) {
	if d.gpu.room == nil {
		if d.gpu.room, err = d.NewArena("the sums of products' parts", productRoom); err == nil {
			d.gpu.room.New("sums", tensor.U8, productRoom)
		}
	}
	return err
}

// product computes a matrix product: the one way to it for all operations.
//
// On a GPU a kernel of their own multiplies a few rows, for which cuBLASLt has no better one, and cuBLASLt what else it takes,
// where it is there. The rest is restyle's own: BF16 on tensor cores, F32 without them. Sums are in float32, and their order
// depends on the sizes and on the number of the GPU's multiprocessors alone. A batch is one launch, and one for each of those
// that are added up; cuBLASLt, which knows one dimension of it, has one for each of the shorter.
func (d *Device) product(p cpu.Product) {
	if d.gpu == nil {
		cpu.Gemm(p)
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
	case fewRows(p):
		d.matvec(p, rowNorm{}, false)
	case d.err == nil && d.gpu.blas.multiply(d, p): // it has queued it
	default:
		t, parts := d.gpu.tiling(p)
		d.tiled(p, t, parts)
	}
}

// fewRows says whether a product is one that matvec computes: up to eight rows by the transpose of a matrix, in BF16, in words
// of 16 bytes, and no batch.
func fewRows(p cpu.Product) bool {
	return batch(p) == 1 && p.A.DType == tensor.BF16 && !p.TransA && p.TransB && p.A.Rows <= 8 && aligned(p)
}

// batch is how many products p is.
func batch(p cpu.Product) int { return max(1, p.Batch[0].N) * max(1, p.Batch[1].N) }

// operations is the FLOPs of p.
func operations(p cpu.Product) float64 {
	return 2 * float64(batch(p)) * float64(p.C.Rows) * float64(p.C.Cols) * float64(depth(p))
}

// wide says whether every row of x, and of what lies so far from it, is whole groups of n elements, each at a multiple of its size.
func wide(x tensor.Matrix, n, outer, inner int) bool {
	return int(x.Addr)%(n*x.DType.Size()) == 0 && (x.Stride|x.Cols|outer|inner)%n == 0
}

// result is the macro that names the type of c.
func result(c tensor.Matrix) macro { return macro{"C_" + c.DType.String(), 1} }

// A rowNorm is what a single row goes through before it is multiplied: its RMSNorm. The zero value is nothing.
type rowNorm struct {
	w   tensor.Tensor
	eps float32
}

// matvec computes a product of a few rows: each block has 16 rows of b, which its warps take turns along, 128 elements each. With a
// norm, or gated, there is one row; gated, the sums of b's first half are gates and those of its second what belongs to them.
func (d *Device) matvec(p cpu.Product, n rowNorm, gated bool) {
	k, each := p.A.Cols, 16
	if gated {
		each = 8
	}
	g := line(blocks(p.C.Cols, each), 32*max(1, min(16, blocks(k, 128))))
	if n.w.Ok() {
		g.shared = k * tensor.BF16.Size()
	}
	d.sized(p.A.Rows, p.B.Rows, k)
	d.launch(kernel{"matvec.cu", "matvec", macros{result(p.C)}.with("NORMED", number(n.w.Ok())).with("GATED", number(gated))}, g,
		addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
		address(p.Bias), addr(n.w), f32(n.eps), i32(p.C.Rows), i32(p.C.Cols), i32(k), flag(p.Add))
}

// A tile is the rows and columns of c that a block computes, in steps of depth along k. So many steps of BF16 are in shared
// memory at a time. A multiprocessor has so many resident blocks, and together they do so many multiplications in a nanosecond.
type tile struct {
	m, n, depth, stages, threads, resident int
	rate                                   float64
}

// The tiles of each type. Larger ones read operands less often; smaller ones keep more multiprocessors busy. The rates of BF16 are
// those of an H200, on which 128x192 and 128x256 were slower; those of F32 are estimates.
var (
	tensorTiles = []tile{{128, 128, 32, 3, 128, 2, 1500}, {64, 128, 32, 4, 128, 3, 1330}, {64, 64, 32, 4, 128, 4, 1080}}
	floatTiles  = []tile{{128, 128, 8, 0, 256, 1, 220}, {64, 64, 8, 0, 256, 1, 160}}
)

// shared is the bytes of shared memory that a tile's steps of BF16 take.
func (t tile) shared() int { return t.stages * t.depth * (t.m + t.n) * tensor.BF16.Size() }

// part is how much of k each of so many parts has: whole steps.
func (t tile) part(k, parts int) int { return blocks(k, parts*t.depth) * t.depth }

// tilesFor are the tiles that a product may have: where operands are brought element by element, the smallest.
func tilesFor(p cpu.Product) []tile {
	switch {
	case p.A.DType == tensor.F32:
		return floatTiles
	case !aligned(p):
		return tensorTiles[len(tensorTiles)-1:]
	}
	return tensorTiles
}

// aligned says whether both operands, in BF16, are words of 16 bytes.
func aligned(p cpu.Product) bool {
	outer, inner := p.Batch[0], p.Batch[1]
	return wide(p.A, 8, outer.A, inner.A) && wide(p.B, 8, outer.B, inner.B)
}

// maxParts is how many parts k is cut into at most.
const maxParts = 32

// tiling chooses the tile of a product, and into how many parts k is cut, so that it should take the least time: that of the
// blocks that a multiprocessor has one after the other, each of which begins and ends with what takes as long as a few steps,
// and that of adding up the parts. A batch is not cut: it has blocks enough.
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

// depth is a product's k.
func depth(p cpu.Product) int {
	if p.TransA {
		return p.A.Rows
	}
	return p.A.Cols
}

// tiled computes a product, or a batch, tile by tile. Where k is cut into parts, they are a batch whose sums come to the workspace
// first; the last may be shorter.
func (d *Device) tiled(p cpu.Product, t tile, parts int) {
	m, n, k, all := p.C.Rows, p.C.Cols, depth(p), p
	part := 0
	if parts > 1 {
		if err := d.makeRoom(); err != nil {
			d.fail(err)
			return
		}
		p.C = tensor.Matrix{Addr: d.gpu.room.base, Rows: parts * m, Cols: n, Stride: n, DType: tensor.F32}
		p.Bias, p.Add = 0, false
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
	how := macros{result(p.C)}.with("TRANS_A", number(p.TransA)).with("TRANS_B", number(p.TransB))
	if p.A.DType == tensor.F32 {
		d.launch(kernel{"product.cu", "product", how.with("F32", 1).with("TILE", t.m)}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
			address(p.Bias), i32(m), i32(n), i32(k), i32(part), flag(p.Add),
			i64(outer.A), i64(outer.B), i64(outer.C), i64(inner.A), i64(inner.B), i64(inner.C))
	} else {
		g.shared = t.shared()
		width, words := 1, aligned(p)
		if words && wide(p.C, 4, outer.C, inner.C) {
			width = 4
		}
		how = how.with("ALIGNED", number(words)).with("C_WIDTH", width)
		how = how.with("TILE_M", t.m).with("TILE_N", t.n).with("DEPTH", t.depth).with("STAGES", t.stages)
		d.launch(kernel{"gemm.cu", "gemm", how}, g,
			addrOf(p.C).twice(p.Add), i64(p.C.Stride), addrOf(p.A), i64(p.A.Stride), addrOf(p.B), i64(p.B.Stride),
			address(p.Bias), i32(m), i32(n), i32(k), i32(part), flag(p.Add),
			i64(outer.A), i64(outer.B), i64(outer.C), i64(inner.A), i64(inner.B), i64(inner.C))
	}
	if parts > 1 {
		d.launch(kernel{"parts.cu", "sum_parts", macros{result(all.C), {p.A.DType.String(), 1}}}, each(m*n),
			addrOf(all.C).twice(all.Add), i64(all.C.Stride), addrOf(p.C), address(all.Bias), i32(m), i32(n), i32(parts), flag(all.Add))
	}
}
