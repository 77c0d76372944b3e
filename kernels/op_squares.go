package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// AddSquares adds the squares of all elements of a tensor, F32, BF16 or F16, to c. Over all gradients, that is the
// square of their global norm:
//
//	Σ x²
//
// The sum is in float64, over parts that depend only on the sizes. So it neither overflows nor depends on the number of
// threads.
func (d *Device) AddSquares(c Control, x tensor.Tensor) {
	floating("AddSquares", "x", x)
	d.ran("add_squares")
	if d.gpu == nil {
		c.x.F64()[1] += cpu.SumSquares(x)
		return
	}
	defer d.release(d.mark())
	size, n := x.DType.Size(), x.Len()
	m := define(macro{x.DType.String(), 1}, macro{"WIDTH", width(x.DType, int(x.Addr)/size)})
	g := squaresGrid(n * size)
	sums := squaresScratch(d.scratch, g.blocks.X)
	d.launch(kernel{"op_squares.cu", "add_squares", m}, g, addr(sums), addr(x), i64(n))
	d.launch(kernel{"step_control.cu", "add_sums", macros{}}, line(1, controlThreads), addr(c.x), addr(sums),
		i32(g.blocks.X))
}

// maxSquaresBlocks is the maximum number of thread blocks that add squares: several per place on a GPU, so that the
// last blocks do not run by themselves for long.
const maxSquaresBlocks = 4096

// squaresGrid has each thread read eight 16-byte vectors at a time, and loop if the tensor is longer than that.
func squaresGrid(bytes int) grid { return line(min(blocks(bytes, 256*8*16), maxSquaresBlocks), 256) }

// squaresScratch lays out the sums of the thread blocks.
func squaresScratch(cut cut, blocks int) tensor.Tensor {
	return cut("sums of squares", tensor.F64, blocks)
}
