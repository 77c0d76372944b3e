package kernels

import "restyle/tensor"

// columnThreads is the number of threads of a block that adds up 32 columns, of elements or of vectors.
const columnThreads = 512

// columnGrid returns a grid with thread blocks for all vectors of a row, and cuts the rows into shares of share rows:
// as many as the threads of a block load at a time, or more, so that there are no more shares than keep a large GPU
// busy. While a thread block adds up the sums of its warps, none of them loads, so fewer and longer shares are faster.
func columnGrid(rows, vectors int) (g grid, share int) {
	const minShare, maxShares = 8 * columnThreads / 32, 32
	share = max(minShare, blocks(rows, maxShares))
	g = line(blocks(vectors, 32), columnThreads)
	g.blocks.Y = max(1, blocks(rows, share))
	return g, share
}

// columnScratch lays out the sums of the shares.
func columnScratch(cut cut, rows, columns int) tensor.Tensor {
	g, _ := columnGrid(rows, columns)
	return cut("sums of columns", tensor.F32, g.blocks.Y, columns)
}

// columnSums adds the sums of x's columns to to, which is F32, BF16 or F16, on a GPU.
func (d *Device) columnSums(to tensor.Tensor, x tensor.Matrix) {
	defer d.release(d.mark())
	sums := columnScratch(d.scratch, x.Rows, x.Cols)
	wide := width(x.DType, x.Cols|x.Stride|int(x.Addr)/x.DType.Size())
	g, share := columnGrid(x.Rows, x.Cols/wide)
	d.launch(kernel{"op_column_sums.cu", "column_sums", define(macro{x.DType.String(), 1}, macro{"WIDTH", wide})}, g,
		addr(sums), addrOf(x), i64(x.Stride), i32(x.Rows), i32(x.Cols), i32(share))
	d.addColumnSums(to, tensor.Tensor{}, sums.Matrix())
}

// addColumnSums adds the column sums of partials, F32, to to, on a GPU. If next is not the zero Tensor, partials has
// twice as many columns as to, and the sums of the second half are added to next.
func (d *Device) addColumnSums(to, next tensor.Tensor, partials tensor.Matrix) {
	m := define(macro{"F32", 1}, macro{"WIDTH", 1})
	if to.DType.Half() {
		m = m.with("TO_"+to.DType.String(), 1)
	}
	g := line(blocks(to.Len(), 32), columnThreads)
	g.blocks.Y = 1 + number(next.Ok())
	d.launch(kernel{"op_column_sums.cu", "add_column_sums", m}, g, addr(to).twice(true), addr(next).twice(true),
		addrOf(partials), i32(partials.Stride), i32(to.Len()), i32(partials.Rows))
}
