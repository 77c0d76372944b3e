package kernels

import (
	"fmt"

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
	sums := d.scratch("sums of squares", tensor.F64, g.blocks.X)
	d.launch(kernel{"op_squares.cu", "add_squares", m}, g, addr(sums), addr(x), i64(n))
	d.AddSums(c, sums)
}

// maxSquaresBlocks is the maximum number of thread blocks that add squares: several per place on a GPU, so that the
// last blocks do not run by themselves for long.
const maxSquaresBlocks = 4096

// squaresGrid has each thread read eight 16-byte vectors at a time, and loop if the tensor is longer than that.
func squaresGrid(bytes int) grid { return line(min(blocks(bytes, 256*8*16), maxSquaresBlocks), 256) }

// SquaresUnit returns the number of elements of a unit of a tensor of n elements: the smallest multiple of
// QuantBlockSize with which there are at most 1,024 units. The last one may be shorter.
func SquaresUnit(n int) int { return QuantBlockSize * max(1, blocks(n, 1024*QuantBlockSize)) }

// SquaresUnits returns the number of units of a tensor of n elements.
func SquaresUnits(n int) int { return blocks(n, SquaresUnit(n)) }

// SquaresAll computes the sum of the squares of each unit of the gradients of a list, and stores it in Sums. A sum's
// order depends only on the unit: it has the same bits whether the list has the whole tensor or ranges, so that ranks
// can share the work. AddSums adds the sums up. A GPU needs one launch per form of tensor.
func (d *Device) SquaresAll(l *AdamWList) {
	d.ran("squares")
	for _, x := range l.tensors {
		checkSums(x)
		if d.gpu == nil {
			unit := SquaresUnit(x.of())
			cpu.SquaresByUnit(x.Sums.Part(x.First/unit, blocks(x.G.Len(), unit)), x.G, unit)
		}
	}
	for _, r := range l.runs {
		d.launch(kernel{"op_adamw.cu", "adamw_squares", r.macros}, line(min(r.units, maxSquaresBlocks), 256),
			addr(r.ranges).moves(r.gradients+8*r.units), i32(r.units))
	}
}

// checkSums panics unless the partial sums of a tensor are there and fit it.
func checkSums(x AdamWTensor) {
	n, of, unit := x.W.Len(), x.of(), SquaresUnit(x.of())
	want("SquaresAll", "sums", x.Sums, tensor.F64, SquaresUnits(of))
	if last := x.First + n; x.First%unit != 0 || last > of || last%unit != 0 && last != of {
		panic(fmt.Sprintf("SquaresAll: elements %d to %d of %d: must be whole units of %d, or end with the tensor", x.First,
			last, of, unit))
	}
}
