package quant

import (
	"math"
	"slices"
)

// DynamicMap returns the 256 numbers that 8-bit codes represent, in ascending order: the dynamic map of bitsandbytes
// (Dettmers 2016, arXiv 1511.04561; Dettmers et al. 2022, arXiv 2110.02861), equal to the bit.
//
// There are seven decades between 10⁻⁷ and 1. Each is divided into equal parts, twice as many as the decade below,
// whose midpoints are in the map: 1, 2, 4 … 64 of each sign in the signed map, 2, 4, 8 … 128 in the unsigned map. So
// the nearer a number is to the largest of its quantization block, the more precisely it is coded. 0 and 1 are added;
// −1 is missing. Zero is code 127 of the signed map and code 0 of the unsigned one.
func DynamicMap(signed bool) []float32 {
	list := []float32{0, 1}
	for i := range 7 {
		parts := 2 << i
		if signed {
			parts = 1 << i
		}
		// Each edge is rounded once, from whichever end is nearer, each midpoint once, and each of their products once.
		from, step := float64(float32(0.1)), float64((1-float32(0.1))/float32(parts))
		edge := func(k int) float32 {
			if k < (parts+1)/2 {
				return float32(from + step*float64(k))
			}
			return float32(1 - step*float64(parts-k))
		}
		scale := float32(math.Pow(10, float64(i-6)))
		for k := range parts {
			middle := float32(edge(k)+edge(k+1)) / 2
			list = append(list, float32(scale*middle))
			if signed {
				list = append(list, float32(-scale*middle))
			}
		}
	}
	slices.Sort(list)
	return list
}
