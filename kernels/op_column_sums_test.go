package kernels

import "testing"

// TestColumnGrid checks that there is a partial for every 128 rows, and at most 32 partials.
func TestColumnGrid(t *testing.T) {
	for _, test := range [][4]int{
		{1, 1, 1, 128}, {128, 32, 1, 128}, {129, 33, 2, 128}, {4096, 64, 32, 128}, {4097, 64, 32, 129}, {16384, 64, 32, 512},
		{100000, 1, 32, 3125},
	} {
		rows, vectors, shares, share := test[0], test[1], test[2], test[3]
		want := line(blocks(vectors, 32), 512)
		want.blocks.Y = shares
		if got, s := columnGrid(rows, vectors); got != want || s != share || s*shares < rows {
			t.Errorf("%d rows of %d: %v of %d, not %v of %d", rows, vectors, got, s, want, share)
		}
	}
}
