package cpu

/*
#include "ops_optim.h"

#cgo noescape cpu_adamw
#cgo nocallback cpu_adamw
#cgo noescape cpu_quantize
#cgo nocallback cpu_quantize
#cgo noescape cpu_dequantize
#cgo nocallback cpu_dequantize
*/
import "C"

import (
	"math"

	"restyle/tensor"
)

func at(x tensor.Tensor) C.uintptr_t { return C.uintptr_t(x.Addr) }
func size(n int) C.int64_t           { return C.int64_t(n) }

// QuantBlockSize is the number of elements that share a scale if AdamW's state is 8-bit codes.
const QuantBlockSize = C.QUANT_BLOCK

// A Weight says what a step of AdamW does with the weight.
type Weight int

// The forms of weights.
const (
	WeightRounded    Weight = C.WEIGHT_ROUNDED    // rounded to nearest, if it is not F32
	WeightMaster     Weight = C.WEIGHT_MASTER     // BF16 or F16, with an F32 master
	WeightSplit8     Weight = C.WEIGHT_SPLIT8     // BF16 or F16, with an 8-bit residual
	WeightStochastic Weight = C.WEIGHT_STOCHASTIC // BF16 or F16, rounded stochastically
	WeightBNB        Weight = C.WEIGHT_BNB        // F32 or BF16, bitsandbytes' update
)

// AdamWFactors are the factors of a step of AdamW that all elements of a tensor share. kernels.AdamW has the formulas.
type AdamWFactors struct {
	GradScale            float32 // multiplies g
	DecayFactor          float32 // multiplies w
	Beta1, OneMinusBeta1 float32 // β₁, 1 − β₁
	Beta2, OneMinusBeta2 float32
	StepSize             float32 // lr / (1 − β₁ᵗ); for bitsandbytes −lr · √(1 − β₂ᵗ) / (1 − β₁ᵗ)
	Root                 float32 // 1 / √(1 − β₂ᵗ); for bitsandbytes √(1 − β₂ᵗ)
	Eps                  float32
	// If the state is codes, except for bitsandbytes, these three replace GradScale, OneMinusBeta1, Beta2 and
	// OneMinusBeta2.
	GainM     float32 // (1 − β₁) · GradScale: multiplies g in m
	GainRoot  float32 // √(1 − β₂) · GradScale: multiplies |g| in √v
	SqrtBeta2 float32 // √β₂
	Seed      uint64  // of stochastic rounding, for this tensor and step
}

// AdamWTensors are a parameter and its state. MScale and VScale are zero Tensors if M and V are F32, and so is Master
// if the weight has none. First is the index of the first element within the parameter, a multiple of QuantBlockSize.
type AdamWTensors struct {
	W, G, M, V, MScale, VScale, Master tensor.Tensor
	First                              int
}

// AdamW takes one step.
func AdamW(x AdamWTensors, weight Weight, f AdamWFactors, m, v *DynamicMap) {
	C.cpu_adamw(&C.adamw_tensors{
		w: at(x.W), g: at(x.G), m: at(x.M), v: at(x.V), m_scale: at(x.MScale), v_scale: at(x.VScale), master: at(x.Master),
		n: size(x.W.Len()), first: size(x.First), weight: C.int(weight),
		_type: C.dtype(x.W.DType), g_type: C.dtype(x.G.DType),
	}, &C.adamw_factors{
		grad_scale: C.float(f.GradScale), decay_factor: C.float(f.DecayFactor), beta1: C.float(f.Beta1),
		one_minus_beta1: C.float(f.OneMinusBeta1), beta2: C.float(f.Beta2), one_minus_beta2: C.float(f.OneMinusBeta2),
		step_size: C.float(f.StepSize), root: C.float(f.Root), eps: C.float(f.Eps),
		gain_m: C.float(f.GainM), gain_root: C.float(f.GainRoot), sqrt_beta2: C.float(f.SqrtBeta2),
		seed: [2]C.uint32_t{C.uint32_t(f.Seed), C.uint32_t(f.Seed >> 32)},
	}, &m.c, &v.c)
}

// A DynamicMap maps codes to numbers, and has tables to find the nearest number.
type DynamicMap struct {
	c      C.dynamic_map
	signed C.int
}

// NewDynamicMap prepares a map of 256 numbers in ascending order, as quant.DynamicMap returns them. In a map of roots,
// codes represent √v and numbers v, and only 0 itself has the code of 0.
func NewDynamicMap(values []float32, signed, roots bool) *DynamicMap {
	m := &DynamicMap{signed: flag(signed)}
	magnitudes, each, first := values, 2, 1 // size of the lowest decade, and the index of its first number
	if signed {
		magnitudes, each = values[127:], 1
	}
	for i, v := range values {
		m.c.value[i] = C.float(v)
		if roots {
			m.c.value[i] = C.float(v * v)
		}
	}
	for i, v := range magnitudes[:len(magnitudes)-1] {
		// Halfway, x gets the even code. In the signed map these are odd indices.
		middle := (v + magnitudes[i+1]) * 0.5
		if i%2 == 1 != signed {
			middle = math.Nextafter32(middle, 0)
		}
		m.c.above[i] = C.float(middle)
	}
	if roots {
		m.c.above[0] = 0
	}
	// Decade i is 0.1 to 1 times 10ⁱ⁻⁶, and has n = each · 2ⁱ numbers, each in the middle of a part of its own. Its first
	// index is first + n − each, and x adds n · (x · 10⁶⁻ⁱ − 0.1) / 0.9 to it. With ½ less, the integer part of that is
	// the index of x or one less.
	for i := range m.c.slope {
		n := float64(int(each) << i)
		m.c.slope[i] = C.float(n * math.Pow(10, float64(6-i)) / 0.9)
		m.c.offset[i] = C.float(float64(first) + n - float64(each) - n/9 - 0.5)
	}
	// By exponent: numbers from 2ᵉ to 2ᵉ⁺¹ with the seven bits after the first, e from -31 to 0. Lines are in 256ths, and
	// ¼ higher: truncation loses less than 0.56 of an index, so that the integer part is still the index or one less.
	decade := func(x float64) int { return min(max(int(math.Floor(math.Log10(x)))+7, 0), len(m.c.slope)-1) }
	for e := -31; e <= 0; e++ {
		at := (e + 127) % 32 // the low bits of the exponent in a float
		low := math.Ldexp(1, e)
		for k, i := range []int{decade(low), decade(2 * low)} {
			slope, offset := float64(m.c.slope[i]), float64(m.c.offset[i])
			m.c.base[k][at] = C.uint16_t(math.Round(256 * (slope*low + offset + 0.25)))
			m.c.rise[k][at] = C.uint16_t(math.Round(256 * slope * low)) // over the binade, of which a number has covered a part
		}
	}
	for i := range m.c.value {
		value, above := math.Float32bits(float32(m.c.value[i])), math.Float32bits(float32(m.c.above[i]))
		for k := range 4 {
			m.c.value_bytes[k][i], m.c.above_bytes[k][i] = C.uint8_t(value>>(8*k)), C.uint8_t(above>>(8*k))
		}
	}
	return m
}

// Quantize computes the codes of x, and the largest magnitude of each quantization block.
func Quantize(codes, scale, x tensor.Tensor, m *DynamicMap) {
	C.cpu_quantize(at(codes), at(scale), at(x), size(x.Len()), &m.c, m.signed)
}

// Dequantize reverses Quantize.
func Dequantize(x, codes, scale tensor.Tensor, m *DynamicMap) {
	C.cpu_dequantize(at(x), at(codes), at(scale), size(x.Len()), &m.c, m.signed)
}
