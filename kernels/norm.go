package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// This file has what RMSNorm, LayerNorm and their fused forms share; include/norm.cuh is the CUDA side.

// normThreads returns the number of threads that share a row so that each has at most maxVectors of its vectors: a
// power of two, at most blockDim.
func normThreads(row tensor.Matrix, maxVectors, blockDim int) int {
	t, n := 8, vectors(row)
	for t < blockDim && t*maxVectors < n {
		t *= 2
	}
	return t
}

// normForward returns a grid with threads for all rows, one or two vectors each: enough threads to keep memory busy,
// and few enough per row that many rows are in progress at once.
func normForward(y, w tensor.Tensor) (macros, grid) {
	const blockDim = 256
	row := w.Matrix()
	threads := normThreads(row, 2, blockDim)
	return rowsOf(row).with("THREADS", threads), line(blocks(y.Rows()*threads, blockDim), blockDim)
}

// normBlockDim is the number of threads per block of the gradients of norms.
const normBlockDim = 512

// normResident returns the number of thread blocks of a norm's gradient for which a multiprocessor has enough
// registers.
func normResident(row tensor.Matrix) int {
	if vectors(row) <= normBlockDim {
		return 2
	}
	return 1
}

// normBackwardGrid returns a grid with as many thread blocks as run at once, or fewer if there are few rows.
func (d *Device) normBackwardGrid(dx, w tensor.Tensor) (macros, grid) {
	row := w.Matrix()
	threads := normThreads(row, 1, normBlockDim)
	count := min(normResident(row)*d.gpu.SMs, blocks(dx.Rows()*threads, normBlockDim))
	return rowsOf(row).with("THREADS", threads), line(count, normBlockDim)
}

// normRingGrid is normBackwardGrid for the gradient of RMSNorm and LayerNorm, which reads rows through a ring in shared
// memory. The ring has up to three stages, and none if the thread blocks of a multiprocessor have no room for two or
// the rows have no vectors of 16 bytes.
func (d *Device) normRingGrid(dx, w tensor.Tensor) (macros, grid) {
	m, g := d.normBackwardGrid(dx, w)
	row := w.Matrix()
	const reserved = 1 << 10  // by CUDA, for each thread block
	other := reserved + 1<<10 // for the sums of warps
	if rows := normBlockDim / normThreads(row, 1, normBlockDim); rows > 1 {
		other += rows * row.Cols * 4 // for sumRows
	}
	stage := 3 * 16 * normBlockDim * blocks(vectors(row), normBlockDim) // x, dy and dx
	stages := min(3, ((d.gpu.MaxShared()+reserved)/normResident(row)-other)/stage)
	if stages < 2 || width(row.DType, row.Cols)*row.DType.Size() < 16 {
		stages = 0
	}
	g.shared = stages * stage
	return m.with("STAGES", stages), g
}

// addPartials adds the column sums of partials on a GPU: the sums of the first columns to dw, and the sums of as many
// columns after them to db. If dw or db is the zero Tensor, its columns are left out.
func (d *Device) addPartials(partials, dw, db tensor.Tensor) {
	switch n := max(dw.Len(), db.Len()); {
	case dw.Ok():
		d.addColumnSums(dw, db, partials.Matrix())
	case db.Ok():
		d.addColumnSums(db, tensor.Tensor{}, partials.Columns(n, 2*n))
	}
}

// addNormScratch lays out the gradient through the norm, before it is added to the gradient of the residual stream.
func addNormScratch(cut cut, t tensor.DType, rows, dim int) tensor.Tensor {
	return cut("norm gradient", t, rows, dim)
}

// normScratch lays out the partial sums of the weights' gradients.
func normScratch(cut cut, partials, weights int) tensor.Tensor {
	return cut("dw partials", tensor.F32, partials, weights)
}

// maxNormPartials returns an upper bound on the number of partial sums for any r ≤ rows. On the CPU that is
// cpu.NormPartials(r, width). Above half its maximum NormPartials is not monotonic in r, so there the bound is the
// maximum.
func (d *Device) maxNormPartials(rows, width int) int {
	if d.gpu != nil {
		return 2 * d.gpu.SMs
	}
	n := cpu.NormPartials(rows, width)
	if n > cpu.MaxNormPartials/2 {
		return cpu.MaxNormPartials
	}
	return n
}

func checkNorm(op, name string, y, rstd, x, w tensor.Tensor) {
	floating(op, name, y)
	dim := y.Dim(-1)
	want(op, "x", x, y.DType, y.Rows(), dim)
	want(op, "w", w, y.DType, dim)
	want(op, "rstd", rstd, tensor.F32, y.Rows())
}

func checkNormGradient(op string, dw, dy, x, w tensor.Tensor) {
	want(op, "dy", dy, x.DType, x.Len())
	if dw.Ok() {
		want(op, "dw", dw, tensor.F32, w.Len())
	}
}
