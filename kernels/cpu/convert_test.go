package cpu_test

import (
	"math"
	"testing"
	"unsafe"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// TestRoundToBF16 rounds every float32 near the corner cases of BF16, and some NaN of each kind, in whole and partial
// vectors: to nearest, ties to even, a NaN to a NaN.
func TestRoundToBF16(t *testing.T) {
	var x []float32
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF} {
			x = append(x, math.Float32frombits(high<<16|low))
		}
	}
	eachLevel(t, func(t *testing.T) {
		for _, columns := range []int{64, 3, 5, 15} {
			rows := len(x) / columns
			got := make([]uint16, rows*columns)
			cpu.StoreRows(tensor.Matrix{Addr: address(got), Rows: rows, Cols: columns, Stride: columns, DType: tensor.BF16},
				tensor.Tensor{Addr: address(x), DType: tensor.F32, Shape: []int{rows, columns}}, 1)
			for i, h := range got {
				want, exponent := tensor.BF16FromF32(x[i]), math.Float32bits(x[i])&0x7F800000
				switch nan := x[i] != x[i]; {
				case nan && h&0x7F80 == 0x7F80 && h&0x7F != 0, !nan && h == want:
				case exponent == 0 && h == want&0x8000 && cpu.Current() >= cpu.AVX512BF16: // the instruction treats these as zeros
				default:
					t.Fatalf("in rows of %d, %#08x became %#04x, not %#04x", columns, math.Float32bits(x[i]), h, want)
				}
			}
		}
	})
}

// TestF16 rounds every float32 next to an F16 or halfway between two, in whole and partial vectors, and widens every
// F16.
func TestF16(t *testing.T) {
	var x []float32
	for h := range uint32(1 << 16) {
		u := math.Float32bits(tensor.F16ToF32(uint16(h)))
		for _, by := range []uint32{0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF} {
			x = append(x, math.Float32frombits(u+by))
		}
		if h&0x7FFF <= 0x400 { // subnormal ones are 2⁻²⁴ apart
			half := tensor.F16ToF32(uint16(h)) + float32(math.Copysign(0x1p-25, float64(int16(h))))
			for _, by := range []uint32{math.MaxUint32, 0, 1} {
				x = append(x, math.Float32frombits(math.Float32bits(half)+by))
			}
		}
	}
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	eachLevel(t, func(t *testing.T) {
		for _, columns := range []int{64, 3, 5, 15} {
			rows := len(x) / columns
			got := make([]uint16, rows*columns)
			cpu.StoreRows(tensor.Matrix{Addr: address(got), Rows: rows, Cols: columns, Stride: columns, DType: tensor.F16},
				tensor.Tensor{Addr: address(x), DType: tensor.F32, Shape: []int{rows, columns}}, 1)
			for i, h := range got {
				if nan := x[i] != x[i]; nan != (h&0x7FFF > 0x7C00) || !nan && h != tensor.F16FromF32(x[i]) {
					t.Fatalf("in rows of %d, %#08x became %#04x, not %#04x", columns, math.Float32bits(x[i]), h,
						tensor.F16FromF32(x[i]))
				}
			}
		}
		wide := make([]float32, len(all))
		cpu.ColumnSums(floats(wide), tensor.Matrix{Addr: address(all), Rows: 1, Cols: len(all), DType: tensor.F16})
		for i, got := range wide {
			if want := tensor.F16ToF32(uint16(i)); got != want && (got == got || want == want) {
				t.Fatalf("%#04x became %v, not %v", i, got, want)
			}
		}
	})
}

// address returns the address of a slice's first element.
func address[T any](x []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }

// TestExp compares the exponential, which a gradient of log-softmax returns directly, with the exponential in float64.
// In float32 it must be within 2 ulp, also in gradual underflow, and for BF16 within 4e-6 before rounding. Lengths are
// not multiples of a vector.
func TestExp(t *testing.T) {
	var x []float32
	for i := float32(-110); i < 88.7; i += 0x1p-10 {
		x = append(x, i)
	}
	inf := float32(math.Inf(1))
	x = append(x, -104.5, -1e30, -inf, 0, 0, float32(math.NaN()))
	logp, target := floats(x), []int32{int32(len(x) - 2)} // the target's gradient differs
	eachLevel(t, func(t *testing.T) {
		single, half := make([]float32, len(x)), make([]uint16, len(x))
		at := tensor.Tensor{DType: tensor.I32, Shape: []int{1}, Addr: address(target)}
		cpu.NLLBackward(floats(single), logp, at, 1)
		h := tensor.Tensor{DType: tensor.BF16, Shape: []int{1, len(x)}, Addr: address(half)}
		cpu.NLLBackward(h, logp, at, 1)
		for i, x := range x {
			want := math.Exp(float64(x))
			switch {
			case i == len(single)-2:
				continue
			case x != x:
				if single[i] == single[i] || tensor.RoundBF16(tensor.BF16ToF32(half[i])) == tensor.BF16ToF32(half[i]) {
					t.Errorf("of NaN it is %v and %#04x", single[i], half[i])
				}
				continue
			}
			ulp := math.Max(math.Ldexp(1, math.Ilogb(want)-23), 0x1p-149)
			if off := math.Abs(float64(single[i]) - want); !(off <= 2*ulp) {
				t.Fatalf("e^%v is %v, want %v, %.2g ulp", x, single[i], want, off/ulp)
			}
			// Subnormal results may become 0.
			if off := math.Abs(float64(tensor.BF16ToF32(half[i])) - want); !(off <= (0x1p-8+4e-6)*want || want < 0x1p-126 &&
				off <= 0x1p-126) {
				t.Fatalf("e^%v is %v in BF16, want %v", x, tensor.BF16ToF32(half[i]), want)
			}
		}
	})
}

// floats returns a float32 row.
func floats(x []float32) tensor.Tensor {
	return tensor.Tensor{DType: tensor.F32, Shape: []int{1, len(x)}, Addr: address(x)}
}
