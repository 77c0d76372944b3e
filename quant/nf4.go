package quant

import (
	"math"

	"restyle/tensor"
)

// NF4Block is the number of neighbors in a flattened matrix that share a scale in NF4, and NF4Nested the number of
// scales that share one if they are quantized in turn.
const NF4Block, NF4Nested = 64, 256

// nf4Midpoints are halfway between neighboring values.
var nf4Midpoints = func() (mid [15]float32) {
	values := tensor.NF4.Coding().Table
	for i := range mid {
		mid[i] = (values[i] + values[i+1]) / 2
	}
	return mid
}()

// nf4Code returns how many midpoints are less than x.
func nf4Code(x float32) (code int) {
	for step := 8; step > 0; step /= 2 {
		if x > nf4Midpoints[code+step-1] {
			code += step
		}
	}
	return code
}

// doubleNF4 replaces the scales of a matrix by what remains of them after NestNF4 and UnnestNF4.
func doubleNF4(rows []byte, in int) {
	size := tensor.NF4.RowBytes(in)
	row := func(i int) Row { return Row{tensor.NF4, in, rows[i*size:][:size]} }
	var scales []float32
	for i := range len(rows) / size {
		for g := range row(i).Groups() {
			scales = append(scales, row(i).Scale(g))
		}
	}
	offset, values := MeanNF4(scales), DynamicMap(true)
	codes, nested := NestNF4(scales, values, offset)
	for i, x := range UnnestNF4(codes, nested, values, offset) {
		groups := tensor.NF4.Groups(in)
		row(i/groups).setScale(i%groups, x)
	}
}

// NestNF4 quantizes the scales of NF4 once more: minus their mean, offset, in blocks of 256 with a scale each, to the
// nearest of the 256 values of the signed dynamic map.
func NestNF4(absmax, dynamicMap []float32, offset float32) (codes []byte, nested []float32) {
	for at := 0; at < len(absmax); at += NF4Nested {
		block := absmax[at:min(len(absmax), at+NF4Nested)]
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
		absmax[i] = float32(dynamicMap[c]*nested[i/NF4Nested]) + offset
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

// NF4Rows returns rows of in weights in NF4 with these codes and the scales of the flattened matrix. packed has two
// codes per byte, the first in the high four bits, as bitsandbytes has them. If they end before a row does, zeros
// follow. in is a multiple of NF4Block.
func NF4Rows(packed []byte, scales []float32, in int) []byte {
	size, groups := tensor.NF4.RowBytes(in), in/NF4Block
	rows := make([]byte, (2*len(packed)+in-1)/in*size)
	for i := range len(rows) / size {
		row := Row{tensor.NF4, in, rows[i*size:][:size]}
		for g := range groups {
			var scale float32
			if at := i*groups + g; at < len(scales) {
				scale = scales[at]
			}
			row.SetScale(g, scale, tensor.NF4.Coding().Zero)
		}
		for j := 0; j < in && (i*in+j)/2 < len(packed); j += 2 {
			pair := int(packed[(i*in+j)/2])
			row.SetCode(j, pair>>4)
			row.SetCode(j+1, pair&15)
		}
	}
	return rows
}
