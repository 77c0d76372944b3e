package gguf

import "math"

// nearest rounds to an integer, ties to even. From 2²² on, it returns what ggml's way, by the mantissa of a sum, does:
// no error, but some bits of the number; of infinities and NaN −2²² and 0. The conversion keeps the sum from
// being fused with a product.
func nearest(x float32) int32 {
	return int32(math.Float32bits(float32(x)+12582912)&0x7FFFFF) - 0x400000
}

// encodeK finds scale and minimum of each sub-block of 32 elements, codes these with six bits, and then the elements
// with the scales as stored. A sub-block whose stored scale is 0 keeps the codes of the search.
func encodeK(b []byte, x []float32, bits int) {
	top, first, steps := int32(15), float32(-1), 20
	if bits == 5 {
		top, first, steps = 31, -0.5, 15
	}
	var codes [256]uint8
	var scales, minimums [8]float32
	maxScale, maxMinimum := float32(0), float32(0)
	for j := range 8 {
		scales[j], minimums[j] = fitRange(codes[32*j:][:32], (*[32]float32)(x[32*j:]), top, first, steps)
		maxScale, maxMinimum = max(maxScale, scales[j]), max(maxMinimum, minimums[j])
	}
	putHalf(b, maxScale/63)
	putHalf(b[2:], maxMinimum/63)
	d, dmin, toScale, toMinimum := half(b), half(b[2:]), float32(0), float32(0)
	if maxScale > 0 {
		toScale = 63 / maxScale
	}
	if maxMinimum > 0 {
		toMinimum = 63 / maxMinimum
	}
	for j := range 8 {
		scale := min(63, uint8(nearest(toScale*scales[j])))
		minimum := min(63, uint8(nearest(toMinimum*minimums[j])))
		putScaleK(b[4:], j, scale, minimum)
		s, m := float32(d*float32(scale)), float32(dmin*float32(minimum))
		if s == 0 {
			continue
		}
		for i := 32 * j; i < 32*j+32; i++ {
			codes[i] = uint8(min(max(nearest((x[i]+m)/s), 0), top))
		}
	}
	packK(b, &codes, bits)
}

// packK stores codes as decodeK reads them.
func packK(b []byte, codes *[256]uint8, bits int) {
	fifth, low := b[16:48], b[len(b)-128:]
	for i := range 32 {
		upper := uint8(0)
		for j := range 8 {
			upper |= codes[32*j+i] >> 4 << j
		}
		if bits == 5 {
			fifth[i] = upper
		}
		for j := 0; j < 8; j += 2 {
			low[16*j+i] = codes[32*j+i]&15 | codes[32*j+32+i]<<4
		}
	}
}

// fitRange finds scale and minimum, x ≈ scale·code − minimum, with the least sum of w·error², w = √mean(x²) +
// |x|. After a first guess it tries steps+1 units for the code: the codes follow from a unit, and scale and minimum
// from the codes by least squares. The unit depends on the best minimum so far. All sums go from the first element to
// the last.
func fitRange(codes []uint8, x *[32]float32, top int32, first float32, steps int) (scale, minimum float32) {
	var w, tried [32]float32
	squares := float32(0)
	for i := range x {
		squares += float32(x[i] * x[i])
	}
	mean := float32(math.Sqrt(float64(squares / 32)))
	sumW, sumX := float32(0), float32(0)
	least, greatest := x[0], x[0]
	for i, v := range x {
		w[i] = mean + abs(v)
		sumW += w[i]
		sumX += float32(w[i] * v)
		if v < least {
			least = v
		}
		if v > greatest {
			greatest = v
		}
	}
	if least > 0 {
		least = 0
	}
	if greatest == least {
		return 0, -least
	}
	unit := float32(top) / (greatest - least)
	scale = 1 / unit
	best := float32(0)
	for i, v := range x {
		code := min(max(nearest(unit*(v-least)), 0), top)
		codes[i] = uint8(code)
		diff := float32(scale*float32(code)) + least - v
		best += float32(w[i] * float32(diff*diff))
	}
	for step := range steps + 1 {
		unit := (first + float32(float32(0.1)*float32(step)) + float32(top)) / (greatest - least)
		sumL, sumLL, sumXL := float32(0), float32(0), float32(0)
		for i, v := range x {
			l := float32(min(max(nearest(unit*(v-least)), 0), top))
			tried[i] = l
			wl := float32(w[i] * l)
			sumL += wl
			sumLL += float32(wl * l)
			sumXL += float32(wl * v)
		}
		det := float32(sumW*sumLL) - float32(sumL*sumL)
		if !(det > 0) {
			continue
		}
		thisScale := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		thisLeast := (float32(sumLL*sumX) - float32(sumL*sumXL)) / det
		if thisLeast > 0 {
			thisLeast = 0
			thisScale = sumXL / sumLL
		}
		squared := float32(0)
		for i, v := range x {
			diff := float32(thisScale*tried[i]) + thisLeast - v
			squared += float32(w[i] * float32(diff*diff))
		}
		if squared < best {
			best, scale, least = squared, thisScale, thisLeast
			for i, l := range tried {
				codes[i] = uint8(l)
			}
		}
	}
	return scale, -least
}

// nothing is the limit below which ggml takes the elements of a sub-block of Q6_K, or the scales of a block, for
// zero.
const nothing = 1e-15

// encodeQ6K finds a scale of each sub-block of 16 elements, codes these with eight bits, and then the elements with the
// scales as stored. A sub-block whose stored scale is 0 keeps the codes of the search.
func encodeQ6K(b []byte, x []float32) {
	var codes [256]uint8
	var scales [16]float32
	for j := range scales {
		scales[j] = fitCentered(codes[16*j:][:16], (*[16]float32)(x[16*j:]))
	}
	maxScale := extreme(scales[:])
	if abs(maxScale) < nothing {
		clear(b)
		return
	}
	unit := -128 / maxScale
	putHalf(b[208:], 1/unit)
	d := half(b[208:])
	for j := range scales {
		scale := int8(min(127, nearest(unit*scales[j])))
		b[192+j] = uint8(scale)
		s := float32(d * float32(scale))
		if s == 0 {
			continue
		}
		for i := 16 * j; i < 16*j+16; i++ {
			codes[i] = uint8(min(max(nearest(x[i]/s), -32), 31) + 32)
		}
	}
	for part := range 2 {
		low, upper, codes := b[64*part:], b[128+32*part:], codes[128*part:]
		for l := range 32 {
			low[l] = codes[l]&15 | codes[l+64]<<4
			low[l+32] = codes[l+32]&15 | codes[l+96]<<4
			upper[l] = codes[l]>>4 | codes[l+32]>>4<<2 | codes[l+64]>>4<<4 | codes[l+96]>>4<<6
		}
	}
}

// fitCentered finds the scale, x ≈ scale·(code−32), with the least sum of x²·error². It tries 19 units of the code.
func fitCentered(codes []uint8, x *[16]float32) (scale float32) {
	most := extreme(x[:])
	if abs(most) < nothing {
		return 0
	}
	best, bestUnit := float32(0), float32(0)
	for try := range 19 {
		// The first is the unit that gives the extreme element the code 0, the others are from 9 steps below to 9 above.
		step := try - 10
		if step >= 0 {
			step++
		}
		unit := -32 / most
		if try > 0 {
			unit = -(32 + float32(float32(0.1)*float32(step))) / most
		}
		sumXL, sumLL := float32(0), float32(0)
		for _, v := range x {
			l := float32(min(max(nearest(unit*v), -32), 31))
			w := float32(v * v)
			sumXL += float32(float32(w*v) * l)
			sumLL += float32(float32(w*l) * l)
		}
		if try == 0 || sumLL > 0 && float32(sumXL*sumXL) > float32(best*sumLL) {
			scale = 0
			if sumLL != 0 {
				scale = sumXL / sumLL
			}
			best, bestUnit = float32(scale*sumXL), unit
		}
	}
	for i, v := range x {
		codes[i] = uint8(min(max(nearest(bestUnit*v), -32), 31) + 32)
	}
	return scale
}
