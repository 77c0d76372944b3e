package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// blas is cuBLASLt on a GPU, if it is installed.
type blas struct {
	*cuda.BLAS
	workspace uintptr
	plans     map[cuda.Shape]*cuda.Plan // nil if it has no algorithm
	shapes    []cuda.Shape              // found by Precompile
	choices   cuda.Choices              // chosen algorithms; nil before there are any
	rehearsed func(cuda.Shape)          // during a rehearsal: gets the shape of every product; none is computed
}

// openBLAS opens cuBLASLt. Without it, restyle's own kernels multiply.
func (d *Device) openBLAS(open func(*cuda.GPU) (*cuda.BLAS, error)) error {
	library, err := open(d.gpu.GPU)
	if err != nil {
		return err
	}
	if err := d.makeRoom(); err != nil {
		_ = library.Close()
		return err
	}
	d.gpu.blas = &blas{BLAS: library, workspace: d.gpu.room.base, plans: map[cuda.Shape]*cuda.Plan{}}
	return nil
}

func (b *blas) close() error {
	if b == nil {
		return nil
	}
	for _, p := range b.plans {
		if p != nil {
			p.Discard()
		}
	}
	return b.BLAS.Close()
}

// minBLASSize is the smallest size for which cuBLASLt is used. For sizes of one, and for rows that are not multiples of
// 16 bytes, its version 13.1 fails to launch some products, and rounds others before it adds the bias.
const minBLASSize = 16

// multiply queues a product. It returns false if there is no cuBLASLt, or if cuBLASLt has no algorithm for the product.
func (b *blas) multiply(d *Device, p cpu.Product) bool {
	if b == nil || hasPair(p) || p.Bias != 0 && p.C.DType != p.A.DType { // its bias has the type of the result
		return false
	}
	few, many := 0, 1 // the batch dimension that is looped over, and the one that cuBLASLt handles
	if p.Batch[few].N > p.Batch[many].N {
		few, many = many, few
	}
	outer, inner := p.Batch[few], p.Batch[many]
	s := cuda.Shape{
		M: p.C.Rows, N: p.C.Cols, K: p.A.Cols, LDA: p.A.Stride, LDB: p.B.Stride, LDC: p.C.Stride, TransA: p.TransA,
		TransB: p.TransB, Batch: inner.N, NextA: inner.A, NextB: inner.B, NextC: inner.C, Bias: p.Bias != 0, Type: p.A.DType,
		Result: p.C.DType, AlignA: alignment(p.A, outer.A, inner.A), AlignB: alignment(p.B, outer.B, inner.B),
		AlignC: alignment(p.C, outer.C, inner.C), Workspace: productRoom, Alpha: p.Alpha,
	}
	if p.TransA {
		s.K = p.A.Rows
	}
	if min(s.M, s.N, s.K) < minBLASSize || min(s.AlignA, s.AlignB, s.AlignC, rowAlignment(p.A), rowAlignment(p.B),
		rowAlignment(p.C)) < 16 {
		return false
	}
	if b.rehearsed != nil {
		if s.Batch <= 1 { // attention's products, whose sizes vary with the sequences, are not timed
			b.rehearsed(s)
		}
		return true
	}
	plan, planned := b.plans[s]
	if !planned {
		var err error
		plan, err = b.plan(s)
		d.fail(err)
		b.plans[s] = plan
	}
	if plan == nil {
		return false
	}
	queue := func() {
		p.Along(few, func(p cpu.Product) {
			plan.Multiply(0, p.A.Addr, p.B.Addr, p.C.Addr, p.Bias, p.Add, b.workspace, productRoom)
		})
	}
	if !d.opts.Sync {
		queue()
		return true
	}
	forms := map[[2]bool]string{{false, true}: "x·wᵀ", {false, false}: "dy·w", {true, false}: "dyᵀ·x"}
	form := forms[[2]bool{p.TransA, p.TransB}]
	name := fmt.Sprintf("product %s %dx%dx%d", form, s.M, s.N, s.K)
	d.timed(d.counted(name, work{flops: operations(p)}), queue)
	return true
}

// plan returns the plan of a product, with the algorithm chosen for it or else the library's first, or nil if there is
// none.
func (b *blas) plan(s cuda.Shape) (*cuda.Plan, error) {
	plan, err := b.Plan(s)
	if choice := b.choices[s.String()]; plan != nil && choice != "" {
		if err = plan.Use(choice, s.Workspace); err != nil {
			plan.Discard()
			return nil, fmt.Errorf("stored algorithm for product %v: %w", s, err)
		}
	}
	return plan, err
}

// alignment returns the largest power of two up to align that divides a matrix's address, and the addresses of the
// matrices that are further elements away.
func alignment(m tensor.Matrix, further ...int) int {
	either := int(m.Addr) | align
	for _, n := range further {
		either |= n * m.DType.Size()
	}
	return either & -either
}

// rowAlignment returns the alignment of a matrix's rows in bytes.
func rowAlignment(m tensor.Matrix) int {
	m.Addr = 0
	return alignment(m, m.Stride)
}
