package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Matrices is a view of memory as a batch of matrices of the same size, along an outer and an inner axis.
type Matrices struct {
	First tensor.Matrix // as it is stored
	Count [2]int        // number of matrices along each axis
	Apart [2]int        // elements from one matrix to the next along each axis
	Trans bool          // the matrices are the transposes of those in memory
}

// MatricesOf returns a tensor of two to four axes as matrices of its last two.
func MatricesOf(x tensor.Tensor) Matrices {
	n := len(x.Shape)
	if n < 2 || n > 4 {
		panic(fmt.Sprintf("MatricesOf: %v: must have two to four axes", x))
	}
	m := Matrices{First: x.Matrix(), Count: [2]int{1, 1}}
	m.First.Rows = x.Shape[n-2]
	size := m.First.Rows * m.First.Cols
	if n > 2 {
		m.Count[1], m.Apart[1] = x.Shape[n-3], size
	}
	if n > 3 {
		m.Count[0], m.Apart[0] = x.Shape[0], x.Shape[1]*size
	}
	return m
}

// T returns the transposes.
func (m Matrices) T() Matrices {
	m.Trans = !m.Trans
	return m
}

// size returns the number of rows and columns of each matrix.
func (m Matrices) size() (rows, cols int) {
	if m.Trans {
		return m.First.Cols, m.First.Rows
	}
	return m.First.Rows, m.First.Cols
}

func (m Matrices) String() string {
	rows, cols := m.size()
	return fmt.Sprintf("%v[%d, %d, %d, %d]", m.First.DType, m.Count[0], m.Count[1], rows, cols)
}

// BatchedProduct multiplies batches of matrices:
//
//	c[i,j] = alpha · a[i,j]·b[i,j]    or, with add,    c[i,j] += …
//
// a is [m, k], b [k, n] and c [m, n], each for the outer and the inner index. a and b are of one type; c is F32, BF16
// or F16 and must not overlap them. If an operand has one matrix along an axis and another operand has more, that
// matrix is used for all of them. If that operand is c, c becomes the sum over that axis, which is computed in float32
// and rounded once; with add, c must then be F32. Sums are in float32. With add and a BF16 c, cuBLASLt rounds alpha ·
// a·b to BF16 before it adds it. alpha must not be 0.
func (d *Device) BatchedProduct(c, a, b Matrices, alpha float32, add bool) {
	const op = "BatchedProduct"
	m, k := a.size()
	rows, n := b.size()
	cRows, cCols := c.size()
	fits := cRows == m && cCols == n && k == rows && a.First.DType == b.First.DType && alpha != 0
	sums := false
	for axis := range c.Count {
		most := max(c.Count[axis], a.Count[axis], b.Count[axis])
		for _, x := range []Matrices{c, a, b} {
			fits = fits && (x.Count[axis] == 1 || x.Count[axis] == most)
		}
		sums = sums || c.Count[axis] < most
	}
	if !fits || sums && add && c.First.DType != tensor.F32 {
		panic(fmt.Sprintf("%s: %v·%v in %v, times %g, add %t: do not fit each other", op, a, b, c, alpha, add))
	}
	d.ran("batched_product")
	if !sums || c.First.DType == tensor.F32 {
		d.products(c, a, b, alpha, add)
		return
	}
	defer d.release(d.mark())
	wide := d.scratch("sums of products", tensor.F32, c.Count[0], c.Count[1], c.First.Rows, c.First.Cols)
	w := MatricesOf(wide)
	w.Trans = c.Trans
	d.products(w, a, b, alpha, false)
	for i := range c.Count[0] {
		for j := range c.Count[1] {
			d.storeRows(c.at(i, j), wide.View(c.Count[0]*c.Count[1], c.First.Rows, c.First.Cols).
				Slice(i*c.Count[1]+j, i*c.Count[1]+j+1).View(c.First.Rows, c.First.Cols))
		}
	}
}

// BatchedProductBackward computes both gradients of c = alpha · a·b, by the same operation with other views:
//
//	da = alpha · dc·bᵀ
//	db = alpha · aᵀ·dc
//
// da has the shape of a, and db the shape of b. The gradient of an operand that was repeated is the sum over the
// repetitions.
func (d *Device) BatchedProductBackward(da, db, dc, a, b Matrices, alpha float32) {
	d.BatchedProduct(da, dc, b.T(), alpha, false)
	d.BatchedProduct(db, a.T(), dc, alpha, false)
}

// at returns one of the matrices as it is stored.
func (m Matrices) at(i, j int) tensor.Matrix {
	x := m.First
	x.Addr += uintptr((i*m.Apart[0] + j*m.Apart[1]) * x.DType.Size())
	return x
}

// products computes c = alpha · a·b, or adds it to c. An operand that has one matrix along an axis is used, or added
// to, for all of that axis.
func (d *Device) products(c, a, b Matrices, alpha float32, add bool) {
	if c.Trans { // cᵀ = bᵀ·aᵀ
		c, a, b = c.T(), b.T(), a.T()
	}
	p := cpu.Product{C: c.First, A: a.First, B: b.First, TransA: a.Trans, TransB: b.Trans, Add: add, Alpha: alpha}
	for axis := range p.Batch {
		n := c.Count[axis]
		if n < 2 { // c gets the sum of several
			n *= max(a.Count[axis], b.Count[axis])
		}
		if n == 0 {
			return
		}
		apart := func(x Matrices) int {
			if x.Count[axis] == 1 {
				return 0
			}
			return x.Apart[axis]
		}
		p.Batch[axis] = cpu.Batch{N: n, A: apart(a), B: apart(b), C: apart(c)}
	}
	d.product(p)
}
