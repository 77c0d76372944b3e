package quant

import "math"

// NF4 is the 4-bit format of bitsandbytes (Dettmers et al. 2023): 16 values, and a scale per block of 64 weights of the
// flattened matrix. restyle compares its codes with recorded ones, but has no products by it.

// nf4Values are the values of the codes.
var nf4Values = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
	-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
	0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}

const nf4Block, nf4Nested, nf4Zero = 64, 256, 7

// NF4Values returns the values of the 16 codes.
func NF4Values() []float32 { return nf4Values[:] }

// NF4 quantizes a flattened matrix: two codes per byte, the first in the high four bits, and the largest magnitude of
// each block of 64. A number halfway between two values gets the lower code. An odd number of codes is padded with that
// of zero.
func NF4(w []float32) (packed []byte, absmax []float32) {
	packed = make([]byte, (len(w)+1)/2)
	if len(w)%2 == 1 {
		packed[len(packed)-1] = nf4Zero
	}
	for at := 0; at < len(w); at += nf4Block {
		block := w[at:min(len(w), at+nf4Block)]
		var largest float32
		for _, x := range block {
			largest = max(largest, abs(x))
		}
		absmax = append(absmax, largest)
		inverse := 1 / largest
		for i, x := range block {
			code := nf4Zero
			if largest > 0 {
				code = nf4Code(x * inverse)
			}
			packed[(at+i)/2] |= byte(code) << (4 - (at+i)%2*4)
		}
	}
	return packed, absmax
}

// nf4Code returns how many midpoints between values are less than x.
func nf4Code(x float32) (code int) {
	for code < 15 && x > (nf4Values[code]+nf4Values[code+1])/2 {
		code++
	}
	return code
}

// DequantizeNF4 computes the n weights of packed codes.
func DequantizeNF4(packed []byte, absmax []float32, n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = nf4Values[packed[i/2]>>(4-i%2*4)&15] * absmax[i/nf4Block]
	}
	return w
}

// NestNF4 quantizes the scales of NF4 once more: minus their mean, offset, in blocks of 256, each with a scale of its
// own, to the nearest of the 256 values of the signed dynamic map.
func NestNF4(absmax, dynamicMap []float32, offset float32) (codes []byte, nested []float32) {
	for at := 0; at < len(absmax); at += nf4Nested {
		block := absmax[at:min(len(absmax), at+nf4Nested)]
		var largest float32
		for _, x := range block {
			largest = max(largest, abs(x-offset))
		}
		nested = append(nested, largest)
		inverse := 1 / largest
		for _, x := range block {
			code := 0
			if largest > 0 {
				code = nearest((x-offset)*inverse, dynamicMap)
			}
			codes = append(codes, byte(code))
		}
	}
	return codes, nested
}

// nearest returns the index of the value nearest to x, as bitsandbytes' kernel for GPUs finds it: seven halvings, and
// then the nearer neighbor on x's side.
func nearest(x float32, values []float32) int {
	pivot, lower, upper := 127, 0, 255
	for step := 64; step > 0; step /= 2 {
		if x > values[pivot] {
			lower = pivot
			pivot += step
		} else {
			upper = pivot
			pivot -= step
		}
	}
	middle := func(i int) float32 { return float32((float64(values[i]) + float64(values[pivot])) / 2) }
	switch {
	case x > values[pivot] && x > middle(upper):
		return upper
	case x <= values[pivot] && x < middle(lower):
		return lower
	}
	return pivot
}

// UnnestNF4 computes the scales that NestNF4 has quantized.
func UnnestNF4(codes []byte, nested, dynamicMap []float32, offset float32) []float32 {
	absmax := make([]float32, len(codes))
	for i, c := range codes {
		absmax[i] = float32(dynamicMap[c]*nested[i/nf4Nested]) + offset
	}
	return absmax
}

// MeanNF4 returns the mean of scales, the offset of NestNF4.
func MeanNF4(absmax []float32) float32 {
	var sum float64
	for _, x := range absmax {
		sum += float64(x)
	}
	return float32(sum / math.Max(1, float64(len(absmax))))
}
