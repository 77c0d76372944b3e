package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// A Pair is a second product that is added to the sums of a layer's product before they are rounded, such as a low-rank
// adapter's (Hu et al. 2021). X and W have the type of the layer's input; the layer's weights may be quantized. If the
// second product is zero, the result has the bits of a layer without it that the same kernel computes: on a GPU,
// cuBLASLt and the kernels that convert codes as they multiply compute no pairs in 16 bits.
//
// For Linear and the layers made of it, X is [rows, rank] and W [out, rank]: y = x·wᵀ + X·Wᵀ + bias. For the gradients
// of their input, X is [rows, rank] and W [rank, in]: dx = dy·w + X·W.
type Pair struct{ X, W tensor.Tensor }

// PairDepth is the number of columns of a Pair that a CPU adds up before it adds them to the sum of the earlier
// columns.
const PairDepth = 256

// rowsOfPair returns the pair of the rows lo to hi of a layer's input.
func rowsOfPair(pair []Pair, lo, hi int) []Pair {
	if len(pair) == 0 {
		return nil
	}
	return []Pair{{pair[0].X.Slice(lo, hi), pair[0].W}}
}

// partOfPair returns the pair of n outputs of a layer, from output from on.
func partOfPair(pair []Pair, from, n int) []Pair {
	if len(pair) == 0 {
		return nil
	}
	return []Pair{{pair[0].X, pair[0].W.Slice(from, from+n)}}
}

// paired returns p with a second pair of operands, if there is one. It panics with the operation's name if the pair
// does not fit.
func paired(op string, p cpu.Product, pair []Pair) cpu.Product {
	switch len(pair) {
	case 0:
		return p
	case 1:
	default:
		panic(fmt.Sprintf("%s: %d pairs: at most one", op, len(pair)))
	}
	x, w := pair[0].X, pair[0].W
	want(op, "the pair's x", x, p.A.DType, p.A.Rows, x.Dim(-1))
	if p.TransB {
		want(op, "the pair's w", w, p.A.DType, p.B.Rows, x.Dim(-1))
	} else {
		want(op, "the pair's w", w, p.A.DType, x.Dim(-1), p.B.Cols)
	}
	p.A2, p.B2 = x.Matrix(), w.Matrix()
	return p
}

// A Factor is a part of one of a Pair's factors, in which the factors of several adapters are joined side by side:
//
//	w[:, column:column+rank] = scale·x
//
// X is [out, rank] F32; W is [out, n].
type Factor struct {
	W, X   tensor.Tensor
	Column int
	Scale  float32
}

// A FactorList is a list of factors that PairFactors rounds together.
type FactorList struct {
	factors []Factor
	ranges  tensor.Tensor // on a GPU, of op_pair.cu's Factor
	blocks  int
	macros  macros
	moved   int // bytes that are read and written
}

// factorRange is the size in bytes of op_pair.cu's Factor.
const factorRange = 40

// FactorListSize returns the bytes of memory that NewFactorList needs for a number of factors.
func FactorListSize(factors int) int { return factors * factorRange }

// NewFactorList makes a list of at least one factor, which is valid as long as its tensors stay where they are. Every W
// has the same type: F32, BF16 or F16. memory is U8 of FactorListSize and belongs to the list; the CPU does not use it.
func (d *Device) NewFactorList(memory tensor.Tensor, list []Factor) *FactorList {
	const op = "NewFactorList"
	want(op, "memory", memory, tensor.U8, FactorListSize(len(list)))
	l := &FactorList{factors: list, ranges: memory}
	vector := 4
	for _, f := range list {
		floating(op, "w", f.W)
		want(op, "w", f.W, list[0].W.DType, f.W.Shape...)
		want(op, "x", f.X, tensor.F32, f.W.Rows(), f.X.Dim(-1))
		part := outputs(op, f.W, f.Column, f.X.Dim(-1))
		vector = min(vector, width(part.DType, part.Cols|part.Stride|int(part.Addr)/part.DType.Size()))
		l.moved += f.X.Bytes() + f.X.Len()*f.W.DType.Size()
	}
	if d.gpu == nil {
		return l
	}
	l.macros = define(macro{list[0].W.DType.String(), 1}, macro{"WIDTH", vector})
	var raw []byte
	for _, f := range list {
		part := outputs(op, f.W, f.Column, f.X.Dim(-1))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(part.Addr))
		raw = binary.LittleEndian.AppendUint64(raw, uint64(f.X.Addr))
		for _, n := range []int{l.blocks, part.Stride, part.Cols, part.Rows} {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f.Scale))
		raw = append(raw, 0, 0, 0, 0)
		l.blocks += blocks(f.X.Len()/vector, factorThreads)
	}
	d.UploadBytes(memory, raw)
	return l
}

// factorThreads is the number of threads per block of pair_factors: a block belongs to one factor.
const factorThreads = 256

// PairFactors rounds all factors of a list. A GPU needs one launch.
func (d *Device) PairFactors(l *FactorList) {
	d.ran("pair_factors")
	if d.gpu == nil {
		for _, f := range l.factors {
			cpu.StoreRows(outputs("PairFactors", f.W, f.Column, f.X.Dim(-1)), f.X, f.Scale)
		}
		return
	}
	d.launch(kernel{"op_pair.cu", "pair_factors", l.macros}, line(l.blocks, factorThreads),
		addr(l.ranges).moves(l.moved), i32(len(l.factors)))
}

// PairGradient computes the gradient of a factor that PairFactors has rounded, or adds it to dw:
//
//	dw = scale·dy[:, from:from+out]ᵀ·x[:, column:column+rank]    or    dw += …
//
// dy is [rows, …] and x, the Pair's X, [rows, …] of its type; dw is [out, rank] F32.
func (d *Device) PairGradient(dw, dy, x tensor.Tensor, from, column int, scale float32, add bool) {
	const op = "PairGradient"
	floating(op, "dy", dy)
	want(op, "dw", dw, tensor.F32, dw.Rows(), dw.Dim(-1))
	want(op, "x", x, dy.DType, dy.Rows(), x.Dim(-1))
	d.ran("linear_dw")
	d.product(cpu.Product{C: dw.Matrix(), A: outputs(op, dy, from, dw.Rows()), TransA: true,
		B: outputs(op, x, column, dw.Dim(-1)), Add: add, Alpha: scale})
}

// AddPair adds the product of the factors of a Pair to the weights of a layer, each sum rounded once:
//
//	w += scale·b·a
//
// b is [out, rank] and a [rank, in], F32; w is [out, in], F32, BF16 or F16.
func (d *Device) AddPair(w, b, a tensor.Tensor, scale float32) {
	const op = "AddPair"
	floating(op, "w", w)
	want(op, "b", b, tensor.F32, w.Rows(), b.Dim(-1))
	want(op, "a", a, tensor.F32, b.Dim(-1), w.Dim(-1))
	d.ran("add_pair")
	p := cpu.Product{C: w.Matrix(), A: b.Matrix(), B: a.Matrix(), Add: true, Alpha: scale}
	if d.gpu == nil {
		d.product(p)
		return
	}
	t, parts := d.gpu.tiling(p) // not cuBLASLt, which rounds the product before it adds it
	d.tiled(p, t, parts)
}
