package expect

import "math"

// Weights returns 256 numbers of each of n blocks, a kind for each block: what quantizers find easy and hard. They are
// the same on every machine.
func Weights(n int) []float32 {
	x := make([]float32, 256*n)
	state := uint64(1)
	next := func() float32 { // from -0.5 to 0.5
		state = state*6364136223846793005 + 1442695040888963407
		return float32(int64(state)>>40) / (1 << 24)
	}
	for i := range x {
		block, v := i/256, next()
		switch block % 12 {
		case 0: // about normal
			v += next() + next() + next()
		case 1: // a few are large
			v *= v * v * v * 1000
		case 2: // next to one number, above or below zero
			v = v/1000 - float32(block%3) + 1
		case 3: // ties, at many scales
			v = float32(int(v*32)) / 4
		case 4: // scales of sub-blocks differ
			v *= float32(math.Ldexp(1, -i/32%16))
		case 5: // scales are subnormal, or zero
			v *= float32(math.Ldexp(1, -20-block%120))
		case 6: // half the sub-blocks are zero, some of them negative zeros
			if i/32%2 == 0 {
				v *= 0
			}
		case 7:
			v = float32(math.Abs(float64(v)))
		case 8:
			v *= -v
		case 9:
			v *= float32(math.Ldexp(1, block%17))
		case 10: // constant
			v = float32(block%5) - 2
		case 11: // one is large
			if i%256 == block%256 {
				v *= 1e4
			}
		}
		x[i] = v
	}
	return x
}
