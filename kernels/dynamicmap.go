package kernels

import (
	"math"
	"slices"
	"sync"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// QuantBlockSize is how many elements have one scale in quantised optimiser state.
const QuantBlockSize = cpu.QuantBlockSize

// DynamicMap is the 256 numbers that codes of 8 bits stand for, in their order: the dynamic map of bitsandbytes (Dettmers
// 2016, arXiv 1511.04561; Dettmers et al. 2022, arXiv 2110.02861), equal to the bit.
//
// Between 10⁻⁷ and 1 lie seven decades. Each is cut into equal parts, twice as many as the one below it, of which the middles
// are in the map: 1, 2, 4 … 64 of each sign in the signed map, 2, 4, 8 … 128 in the unsigned. So numbers are coded the more
// precisely the nearer they are to the block's largest. 0 and 1 are added; −1 is not there. Zero is code 127 of the signed
// map and code 0 of the unsigned.
func DynamicMap(signed bool) []float32 {
	list := []float32{0, 1}
	for i := range 7 {
		parts := 2 << i
		if signed {
			parts = 1 << i
		}
		// The edges are rounded once each, from whichever end is nearer, the middles once and their products once.
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

// dynamicMaps are the maps of m, signed, of v, unsigned, and of √v, where only 0 becomes 0.
var dynamicMaps = sync.OnceValue(func() (maps struct{ m, v, root *cpu.DynamicMap }) {
	maps.m = cpu.NewDynamicMap(DynamicMap(true), true, false)
	maps.v = cpu.NewDynamicMap(DynamicMap(false), false, false)
	maps.root = cpu.NewDynamicMap(DynamicMap(false), false, true)
	return maps
})

func dynamicMap(signed bool) *cpu.DynamicMap {
	if signed {
		return dynamicMaps().m
	}
	return dynamicMaps().v
}

// Quantize codes a tensor in 8 bits, in blocks of QuantBlockSize elements that lie behind each other:
//
//	scale[b] = max |x| of block b
//	codes[i] = the code of the number in the dynamic map that is nearest to x[i] / scale[i / QuantBlockSize]
//
// Halfway between two, it is the even code. x is F32, codes U8 of its length, scale [blocks] F32. A block of zeros has codes
// 0. In the unsigned map what is below zero is coded as 0. A block with a NaN or an infinity has such a scale.
func (d *Device) Quantize(codes, scale, x tensor.Tensor, signed bool) {
	checkQuantized("Quantize", codes, scale, x)
	d.ran("quantize")
	if d.gpu != nil {
		d.launch(kernel{"quantize.cu", "quantize", signMacro(signed)}, d.codesGrid(QuantBlocks(x.Len())),
			addr(codes), addr(scale), addr(x), i64(x.Len()))
		return
	}
	cpu.Quantize(codes, scale, x, dynamicMap(signed))
}

// Dequantize is the way back from Quantize: x[i] = map[codes[i]] · scale[i / QuantBlockSize].
func (d *Device) Dequantize(x, codes, scale tensor.Tensor, signed bool) {
	checkQuantized("Dequantize", codes, scale, x)
	d.ran("dequantize")
	if d.gpu != nil {
		d.launch(kernel{"quantize.cu", "dequantize", signMacro(signed)}, d.codesGrid(QuantBlocks(x.Len())),
			addr(x), addr(codes), addr(scale), i64(x.Len()))
		return
	}
	cpu.Dequantize(x, codes, scale, dynamicMap(signed))
}

func signMacro(signed bool) macros { return macros{{"SIGNED", number(signed)}} }

// codesGrid has a warp for each of n blocks of codes, or fewer: each block of threads makes tables first, and there are a few times
// as many as run at once, three on a multiprocessor, so that the last are not alone for long.
func (d *Device) codesGrid(n int) grid {
	const threads = 256
	return line(min(blocks(32*n, threads), 4*3*d.gpu.SMs), threads)
}

func checkQuantized(op string, codes, scale, x tensor.Tensor) {
	want(op, "x", x, tensor.F32, x.Len())
	want(op, "codes", codes, tensor.U8, x.Len())
	want(op, "scale", scale, tensor.F32, QuantBlocks(x.Len()))
}

// QuantBlocks is how many blocks n elements make, and so how many scales.
func QuantBlocks(n int) int { return (n + QuantBlockSize - 1) / QuantBlockSize }
