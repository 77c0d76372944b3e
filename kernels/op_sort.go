package kernels

import "restyle/tensor"

// sortTile is the number of ids that a thread block sorts.
const sortTile = 2048

// sortIDs writes the keys of all rows, as sort_key.cuh defines them, to sorted, I64, in ascending order: by id, and
// rows with the pad last. Thread blocks sort tiles of ids; then each key finds its place among all keys by counting the
// keys of each tile that come before it.
func (d *Device) sortIDs(sorted, ids tensor.Tensor, pad int) {
	n := ids.Len()
	defer d.release(d.mark())
	tiles := sortScratch(d.scratch, n)
	m := define(macro{"TILE", sortTile})
	d.launch(kernel{"op_sort.cu", "sort_ids", m}, line(blocks(n, sortTile), sortTile/2), addr(tiles), addr(ids), i32(n),
		i32(pad))
	d.launch(kernel{"op_sort.cu", "merge_ids", m}, line(tiles.Len()/128, 128), addr(sorted), addr(tiles), i32(n))
}

// sortScratch lays out the tiles.
func sortScratch(cut cut, n int) tensor.Tensor {
	return cut("tiles of ids", tensor.I64, blocks(n, sortTile)*sortTile)
}
