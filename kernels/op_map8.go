package kernels

import (
	"sync"

	"restyle/kernels/cpu"
	"restyle/quant"
	"restyle/tensor"
)

// QuantBlockSize is the number of elements that share a scale in quantized optimizer state: a quantization block.
const QuantBlockSize = cpu.QuantBlockSize

// dynamicMaps are the maps of m (signed), of v (unsigned), and of √v, in which only 0 becomes 0.
var dynamicMaps = sync.OnceValue(func() (maps struct{ m, v, root *cpu.DynamicMap }) {
	maps.m = cpu.NewDynamicMap(quant.DynamicMap(true), true, false)
	maps.v = cpu.NewDynamicMap(quant.DynamicMap(false), false, false)
	maps.root = cpu.NewDynamicMap(quant.DynamicMap(false), false, true)
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
