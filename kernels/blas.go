package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// blas is cuBLASLt on a GPU, where it is there.
type blas struct {
	*cuda.BLAS
	workspace uintptr
	plans     map[cuda.Shape]*cuda.Plan // nil where it has no algorithm
	shapes    []cuda.Shape              // that Precompile found
	choices   cuda.Choices              // of algorithms; nil before there are any
	rehearsed func(cuda.Shape)          // in a rehearsal: is told of every product, of which none is computed
}

// openBLAS takes cuBLASLt into use. Without it, products are restyle's own.
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

// minBLASSize is the least size that cuBLASLt is asked for. Of products with sizes of one, and of rows that no 16 bytes divide, its
// version 13.1 fails to launch some, and rounds others before it adds the bias.
const minBLASSize = 16

// multiply queues a product, or says that there is no cuBLASLt, or that it has no algorithm for it.
func (b *blas) multiply(d *Device, p cpu.Product) bool {
	if b == nil || p.Bias != 0 && p.C.DType != p.A.DType { // its bias is of the result's type
		return false
	}
	few, many := 0, 1 // the dimension of a batch that is gone along, and that which cuBLASLt knows
	if p.Batch[few].N > p.Batch[many].N {
		few, many = many, few
	}
	outer, inner := p.Batch[few], p.Batch[many]
	s := cuda.Shape{
		M: p.C.Rows, N: p.C.Cols, K: p.A.Cols, LDA: p.A.Stride, LDB: p.B.Stride, LDC: p.C.Stride, TransA: p.TransA, TransB: p.TransB,
		Batch: inner.N, NextA: inner.A, NextB: inner.B, NextC: inner.C, Bias: p.Bias != 0, Type: p.A.DType, Result: p.C.DType,
		AlignA: alignment(p.A, outer.A, inner.A), AlignB: alignment(p.B, outer.B, inner.B), AlignC: alignment(p.C, outer.C, inner.C),
		Workspace: productRoom,
	}
	if p.TransA {
		s.K = p.A.Rows
	}
	if min(s.M, s.N, s.K) < minBLASSize || min(s.AlignA, s.AlignB, s.AlignC, rowAlignment(p.A), rowAlignment(p.B), rowAlignment(p.C)) < 16 {
		return false
	}
	if b.rehearsed != nil {
		if s.Batch <= 1 { // attention's products, of as many sizes as sequences have, are not timed
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
	form := map[[2]bool]string{{false, true}: "x·wᵀ", {false, false}: "dy·w", {true, false}: "dyᵀ·x"}[[2]bool{p.TransA, p.TransB}]
	name := fmt.Sprintf("product %s %dx%dx%d", form, s.M, s.N, s.K)
	d.timed(d.counted(name, work{flops: operations(p)}), queue)
	return true
}

// plan is that of a product by the algorithm that was chosen for it, or else the library's first. It is nil if there is none.
func (b *blas) plan(s cuda.Shape) (*cuda.Plan, error) {
	plan, err := b.Plan(s)
	if choice := b.choices[s.String()]; plan != nil && choice != "" {
		if err = plan.Use(choice, s.Workspace); err != nil {
			plan.Discard()
			return nil, fmt.Errorf("the algorithm that was kept for the product %v: %w", s, err)
		}
	}
	return plan, err
}

// alignment is the largest power of two up to align that a matrix's address, and those of matrices so many elements further, are
// multiples of.
func alignment(m tensor.Matrix, further ...int) int {
	either := int(m.Addr) | align
	for _, n := range further {
		either |= n * m.DType.Size()
	}
	return either & -either
}

// rowAlignment is that of a matrix's rows in bytes.
func rowAlignment(m tensor.Matrix) int {
	m.Addr = 0
	return alignment(m, m.Stride)
}
