package kernels

import "testing"

// TestColumnGrid checks that there is a partial for every 128 rows, and at most 128 partials.
func TestColumnGrid(t *testing.T) {
	for _, test := range [][4]int{
		{1, 1, 1, 128}, {128, 32, 1, 128}, {129, 33, 2, 128}, {16384, 64, 128, 128}, {16385, 64, 128, 129},
		{100000, 1, 128, 782},
	} {
		rows, vectors, shares, share := test[0], test[1], test[2], test[3]
		want := line(blocks(vectors, 32), 512)
		want.blocks.Y = shares
		if got, s := columnGrid(rows, vectors); got != want || s != share || s*shares < rows {
			t.Errorf("%d rows of %d: %v of %d, not %v of %d", rows, vectors, got, s, want, share)
		}
	}
}
