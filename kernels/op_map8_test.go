package kernels_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// TestDynamicMap compares all bits of the maps with bitsandbytes 0.50.2's create_dynamic_map.
func TestDynamicMap(t *testing.T) {
	for signed, want := range map[bool]string{
		true:  "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c",
		false: "305f002cc11278fb769d13b25b9fd0c7c83c8402c40a878fe086f4039fde6398",
	} {
		var all []byte
		for _, v := range quant.DynamicMap(signed) {
			all = binary.LittleEndian.AppendUint32(all, math.Float32bits(v))
		}
		if sum := sha256.Sum256(all); hex.EncodeToString(sum[:]) != want {
			t.Errorf("signed %v: the map is another: %v", signed, quant.DynamicMap(signed))
		}
	}
}

// search returns the nearest code as bitsandbytes finds it: seven halvings from code 127, and then the neighbor on x's
// side if x is beyond the midpoint.
func search(x float32, code []float32, signed bool) byte {
	pivot, lowerPivot, upperPivot := 127, 0, 255
	lower, upper := float32(0), float32(1)
	if signed {
		lower = -1
	}
	for i := 64; i > 0; i /= 2 {
		if x > code[pivot] {
			lowerPivot, lower = pivot, code[pivot]
			pivot += i
		} else {
			upperPivot, upper = pivot, code[pivot]
			pivot -= i
		}
	}
	switch value := code[pivot]; {
	case x > value && x > (upper+value)*0.5:
		return byte(upperPivot)
	case !(x > value) && x < (lower+value)*0.5:
		return byte(lowerPivot)
	}
	return byte(pivot)
}

// TestQuantize compares with a search, for numbers around every midpoint and every number of the maps, where one unit
// in the last place decides, and for other numbers. It also checks dequantizing.
func TestQuantize(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, signed := range []bool{true, false} {
			code := quant.DynamicMap(signed)
			var x []float32
			about := func(v float32) {
				down, up := v, v
				x = append(x, v)
				for range 4 {
					down, up = math.Nextafter32(down, -2), math.Nextafter32(up, 2)
					x = append(x, down, up)
				}
			}
			for i := range 255 {
				about((code[i] + code[i+1]) * 0.5)
				about(code[i])
			}
			rng := rand.New(rand.NewPCG(8, 9))
			for range 1 << 16 {
				x = append(x, float32(math.Pow(10, -8*rng.Float64()))*float32(1-2*rng.IntN(2)))
			}
			for bits := uint32(0); bits < math.Float32bits(1); bits += 7919 { // a prime: no bit keeps its value
				x = append(x, math.Float32frombits(bits|bits<<31)) // every second one is negative
			}
			x = append(x, 0, float32(math.Copysign(0, -1)), 1, -1, 1e-38, 1e-45, -1e-45, math.Nextafter32(1, 0),
				math.Nextafter32(-1, 0))
			for i, v := range x {
				if !signed && v < 0 || v > 1 || v < -1 {
					x[i] = 0.25
				}
			}
			// Each quantization block starts with its largest magnitude, 1, so that nothing is scaled.
			var in []float32
			for i := 0; i < len(x); i += kernels.QuantBlockSize - 1 {
				in = append(append(in, 1), x[i:min(len(x), i+kernels.QuantBlockSize-1)]...)
			}
			n, blocks := len(in), kernels.QuantBlocks(len(in))
			a := arena(t, d, 16*n+1<<12)
			xs, codes := a.New("x", tensor.F32, n), a.New("codes", tensor.U8, n)
			scale, back := a.New("scale", tensor.F32, blocks), a.New("back", tensor.F32, n)
			d.Upload(xs, in)
			d.Quantize(codes, scale, xs, signed)
			d.Dequantize(back, codes, scale, signed)
			got, values := bytesOf(t, d, codes), floats(t, d, back)
			for i, v := range in {
				if want := search(v, code, signed); got[i] != want {
					t.Fatalf("signed %v: %v has code %d, want %d", signed, v, got[i], want)
				}
				if values[i] != float64(code[got[i]]) {
					t.Fatalf("signed %v: code %d is %v, want %v", signed, got[i], values[i], code[got[i]])
				}
			}
		}
	})
}

// TestQuantizeBlocks codes quantization blocks of several scales, one of zeros, one with a NaN, and an incomplete one.
func TestQuantizeBlocks(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		const n = 4*kernels.QuantBlockSize + 17
		in := filled(n, func(i int) float64 {
			switch i / kernels.QuantBlockSize {
			case 0:
				return 0
			case 1:
				return 1e-20 * math.Sin(float64(i))
			case 2:
				return -3e20 * float64(i%kernels.QuantBlockSize)
			case 3:
				return map[bool]float64{true: math.NaN(), false: 1e30}[i%kernels.QuantBlockSize == 9]
			}
			return float64(i%2) - 0.5
		})
		a := arena(t, d, 16*n+1<<12)
		x, codes := a.New("x", tensor.F32, n), a.New("codes", tensor.U8, n)
		scale, back := a.New("scale", tensor.F32, 5), a.New("back", tensor.F32, n)
		d.Upload(x, in)
		d.Quantize(codes, scale, x, true)
		d.Dequantize(back, codes, scale, true)
		s, y := floats(t, d, scale), floats(t, d, back)
		if s[0] != 0 || !math.IsNaN(s[3]) || s[4] != 0.5 {
			t.Errorf("scales %v", s)
		}
		for _, b := range bytesOf(t, d, codes)[:kernels.QuantBlockSize] {
			if b != 0 {
				t.Fatalf("a block of zeros has code %d", b)
			}
		}
		for i, v := range in {
			b := i / kernels.QuantBlockSize
			// The widest step of the map is 9/2⁶ of the decade, and the error at most half of that. −1 is not in the map.
			if b != 3 && !(math.Abs(y[i]-float64(v)) <= s[b]*0.0071) {
				t.Fatalf("element %d, %v, came back as %v", i, v, y[i])
			}
		}
		kernels.MustPanic(t, "too few scales", "Quantize: scale is", func() { d.Quantize(codes, scale.Slice(0, 4), x, true) })
	})
}
