package kernels

import (
	"math"
	"slices"
	"sync"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// QuantBlockSize is the number of elements that share a scale in quantized optimizer state: a quantization block.
const QuantBlockSize = cpu.QuantBlockSize

// DynamicMap returns the 256 numbers that 8-bit codes stand for, in ascending order: the dynamic map of bitsandbytes
// (Dettmers 2016, arXiv 1511.04561; Dettmers et al. 2022, arXiv 2110.02861), equal to the bit.
//
// There are seven decades between 10⁻⁷ and 1. Each is divided into equal parts, twice as many as the decade below,
// whose midpoints are in the map: 1, 2, 4 … 64 of each sign in the signed map, 2, 4, 8 … 128 in the unsigned map. So a
// number is coded the more precisely, the nearer it is to the largest of its quantization block. 0 and 1 are added; −1
// is missing. Zero is code 127 of the signed map and code 0 of the unsigned one.
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

// dynamicMaps are the maps of m (signed), of v (unsigned), and of √v, in which only 0 becomes 0.
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

// Quantize codes a tensor in 8 bits, in quantization blocks of QuantBlockSize consecutive elements:
//
//	scale[b] = max |x| of quantization block b
//	codes[i] = the code of the number in the dynamic map that is nearest to x[i] / scale[i / QuantBlockSize]
//
// Halfway between two numbers, the even code is taken. x is F32, codes U8 of its length, scale [QuantBlocks(n)] F32. A
// quantization block of zeros has codes 0. In the unsigned map, values below zero are coded as 0. The scale of a
// quantization block with a NaN or an infinity is NaN or infinite.
func (d *Device) Quantize(codes, scale, x tensor.Tensor, signed bool) {
	checkQuantized("Quantize", codes, scale, x)
	d.ran("quantize")
	if d.gpu != nil {
		d.launch(kernel{"op_map8.cu", "quantize", signMacro(signed)}, d.codesGrid(QuantBlocks(x.Len())),
			addr(codes), addr(scale), addr(x), i64(x.Len()))
		return
	}
	cpu.Quantize(codes, scale, x, dynamicMap(signed))
}

// Dequantize reverses Quantize: x[i] = map[codes[i]] · scale[i / QuantBlockSize].
func (d *Device) Dequantize(x, codes, scale tensor.Tensor, signed bool) {
	checkQuantized("Dequantize", codes, scale, x)
	d.ran("dequantize")
	if d.gpu != nil {
		d.launch(kernel{"op_map8.cu", "dequantize", signMacro(signed)}, d.codesGrid(QuantBlocks(x.Len())),
			addr(x), addr(codes), addr(scale), i64(x.Len()))
		return
	}
	cpu.Dequantize(x, codes, scale, dynamicMap(signed))
}

func signMacro(signed bool) macros { return define(macro{"SIGNED", number(signed)}) }

// codesGrid returns a grid with a warp for each of n quantization blocks, or fewer: every thread block builds tables
// first. There are a few times as many thread blocks as run at once, three per multiprocessor, so that the last ones do
// not run by themselves for long.
func (d *Device) codesGrid(n int) grid {
	const threads = 256
	return line(min(blocks(32*n, threads), 4*3*d.gpu.SMs), threads)
}

func checkQuantized(op string, codes, scale, x tensor.Tensor) {
	want(op, "x", x, tensor.F32, x.Len())
	want(op, "codes", codes, tensor.U8, x.Len())
	want(op, "scale", scale, tensor.F32, QuantBlocks(x.Len()))
}

// QuantBlocks returns the number of quantization blocks, and so of scales, of n elements.
func QuantBlocks(n int) int { return (n + QuantBlockSize - 1) / QuantBlockSize }
