package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/tensor"
)

// rounded returns a weight after a step whose exact result is x: w, m and v start at 0, m loses half of itself, a rate
// of 2 compensates for it, and the denominator is 1.
func rounded(t *testing.T, d *kernels.Device, f form, x []float32, edit func(*stepper)) *stepper {
	t.Helper()
	s := f.stepper(t, d, make([]float32, len(x)))
	m := make([]float32, len(x))
	for i, v := range x {
		m[i] = -v
	}
	d.Upload(s.s.M, m)
	s.c.Beta1, s.c.LR, s.c.Eps, s.c.Decay = 0.5, 1, 1, 0
	if edit != nil {
		edit(s)
	}
	s.step(make([]float32, len(x)))
	return s
}

// awkward returns float32 values at every corner case of rounding to 16 and 24 bits, of both signs: ties, carries into
// the exponent, subnormal numbers, the largest, infinity and NaN. It adds some others.
func awkward() (x []float32) {
	for _, high := range []uint32{0x0000, 0x0001, 0x007F, 0x0080, 0x3F7F, 0x3F80, 0x3F81, 0x7EFF, 0x7F00, 0x7F7F} {
		for _, low := range []uint32{0, 2, 0x7E, 0x80, 0x82, 0xFE, 0x100, 0x102, 0x180, 0x7F00, 0x7F7E, 0x7F80, 0x7F82,
			0x7FFE, 0x8000, 0x8002,
			0x8080, 0x80FE, 0xFF00, 0xFF7E, 0xFF80, 0xFF82, 0xFFFE} {
			for _, sign := range []uint32{0, 0x80000000} {
				x = append(x, math.Float32frombits(sign|high<<16|low)) // even, so that half of it is exact
			}
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		x = append(x, float32(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(60)-30))))
	}
	inf := float32(math.Inf(1))
	full := math.Float32frombits(0x7FFFFFFF) // a NaN that a carry would turn into a zero
	return append(x, inf, -inf, float32(math.NaN()), full, -full, 0)
}

// TestSplit8 compares the 24 bits that are kept of any result with their definition on integers. It checks that the
// bits can be read back, and that they stay the same if nothing else changes.
func TestSplit8(t *testing.T) {
	f := form{name: "split8", weight: tensor.BF16, master: tensor.U8}
	x := awkward()
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		s := rounded(t, d, f, x, nil)
		w, residual := make([]uint16, len(x)), bytesOf(t, d, s.s.Master)
		for i, b := range bytesOf(t, d, s.w) {
			w[i/2] |= uint16(b) << (8 * (i % 2))
		}
		for i, v := range x {
			u := uint64(math.Float32bits(v))
			if math.IsNaN(float64(v)) {
				u = 0x7FC00000
			}
			if v == 0 {
				u = 0 // w − u of zeros is +0
			}
			f24 := u >> 8
			if rest := u & 0xFF; rest > 0x80 || rest == 0x80 && f24&1 == 1 {
				f24++
			}
			want := (f24 + 0x80) >> 8
			if uint64(w[i]) != want || int(int8(residual[i])) != int(f24)-int(want<<8) {
				t.Fatalf("%v (%#08x) became %#04x and %d, want %#04x and %d", v, math.Float32bits(v), w[i], int8(residual[i]), want,
					int(f24)-int(want<<8))
			}
		}
		before := append(bytesOf(t, d, s.w), residual...)
		d.Zero(s.s.M)
		s.step(make([]float32, len(x)))
		if !bytes.Equal(append(bytesOf(t, d, s.w), bytesOf(t, d, s.s.Master)...), before) {
			t.Error("a step of nothing changes weights")
		}
	})
}

// TestSplit8F16 checks the same for F16, by values: the 24 bits have the nearest number, ties to even, and w is the
// nearest F16 to that, ties away from zero. Everything from 65,536 on is infinite.
func TestSplit8F16(t *testing.T) {
	f := form{name: "split8", weight: tensor.F16, master: tensor.U8}
	var x []float32
	for _, v := range awkward() { // over F16's range, with its subnormal numbers
		x = append(x, v, float32(math.Mod(math.Log(1+math.Abs(float64(v))), 1)*0x1p-13), v*0x1p-24, v*0x1p-100)
	}
	for _, v := range []float32{0x1p16, 0x1.fffffep15, 0x1.ffff0p15, 65519, 65520, 65504, 0x1p-14, 0x1p-24, 0x1p-32,
		0x1p-33} {
		for _, by := range []int32{-2, 0, 2} { // even, so that half of it is exact
			x = append(x, math.Float32frombits(uint32(int32(math.Float32bits(v))&^1+by)))
		}
	}
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		s := rounded(t, d, f, x, nil)
		w, residual := make([]uint16, len(x)), bytesOf(t, d, s.s.Master)
		for i, b := range bytesOf(t, d, s.w) {
			w[i/2] |= uint16(b) << (8 * (i % 2))
		}
		for i, v := range x {
			bits := int32(w[i])<<8 + int32(int8(residual[i]))
			switch magnitude := math.Abs(float64(v)); {
			case v != v:
				if w[i]&0x7FFF <= 0x7C00 {
					t.Fatalf("NaN became %#04x", w[i])
				}
			case magnitude >= 65536-0x1p-4: // half of the last place of 24 bits
				if w[i]&0x7FFF != 0x7C00 || residual[i] != 0 {
					t.Fatalf("%v became %#04x and %d", v, w[i], int8(residual[i]))
				}
			default:
				_, e := math.Frexp(max(magnitude, 0x1p-14))
				last := math.Ldexp(1, e-19) // of 18 bits of mantissa
				got, want := f16and8(bits), math.RoundToEven(float64(v)/last)*last
				// Below 2⁻¹⁴, v is rounded to a multiple of 2⁻³⁷ before.
				if got != want && !(e <= -13 && math.Abs(got-float64(v)) <= last/2+0x1p-38) {
					t.Fatalf("%v became %#04x and %d, which is %v, not %v", v, w[i], int8(residual[i]), got, want)
				}
			}
		}
		before := append(bytesOf(t, d, s.w), residual...)
		d.Zero(s.s.M)
		s.step(make([]float32, len(x)))
		if !bytes.Equal(append(bytesOf(t, d, s.w), bytesOf(t, d, s.s.Master)...), before) {
			t.Error("a step of nothing changes weights")
		}
	})
}

// TestStochasticF16 checks that a result becomes one of the two adjacent F16 numbers, in proportion to how near they
// are, also among the subnormal ones.
func TestStochasticF16(t *testing.T) {
	f := form{name: "stochastic", weight: tensor.F16, stochastic: true}
	const n = 1 << 14
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, c := range []struct{ down, last, share float64 }{
			{1, 0x1p-10, 0.25}, {0x1p-14, 0x1p-24, 0.5}, {3 * 0x1p-24, 0x1p-24, 0.75}, {-0x1p-24, -0x1p-24, 0.5},
			{2, 0x1p-9, 0},
		} {
			x := filled(n, func(int) float64 { return c.down + c.share*c.last })
			ups := 0.0
			for _, got := range floats(t, d, rounded(t, d, f, x, nil).w) {
				switch got {
				case c.down + c.last:
					ups++
				case c.down:
				default:
					t.Fatalf("%v became %v", x[0], got)
				}
			}
			if limit := 5 * math.Sqrt(c.share*(1-c.share)/n); !(math.Abs(ups/n-c.share) <= limit) { // five standard deviations
				t.Errorf("of %v, %v are rounded away from 0; limit %v", x[0], ups/n, limit)
			}
		}
		inf := float32(math.Inf(1))
		got := floats(t, d, rounded(t, d, f, []float32{inf, -inf, float32(math.NaN()), 0x1p17}, nil).w)
		if !math.IsInf(got[0], 1) || !math.IsInf(got[1], -1) || got[2] == got[2] || !math.IsInf(got[3], 1) {
			t.Errorf("infinities, NaN and 2¹⁷ became %v", got)
		}
	})
}

// TestStochasticNeighbors checks that a result becomes one of the two adjacent BF16 numbers, or itself if it is a BF16
// number, that infinities and NaN are kept, and that the bits are the same at every level.
func TestStochasticNeighbors(t *testing.T) {
	f := form{name: "stochastic", weight: tensor.BF16, stochastic: true}
	x := awkward()
	var first string
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for seed := range uint64(3) {
			s := rounded(t, d, f, x, func(s *stepper) { s.c.Seed = seed })
			for i, got := range floats(t, d, s.w) {
				u := math.Float32bits(x[i])
				down := float64(math.Float32frombits(u &^ 0xFFFF))
				up := float64(math.Float32frombits((u + 0xFFFF) &^ 0xFFFF))
				if math.IsNaN(float64(x[i])) {
					if !math.IsNaN(got) {
						t.Fatalf("NaN became %v", got)
					}
				} else if got != down && got != up {
					t.Fatalf("%v became %v, which is neither %v nor %v", x[i], got, down, up)
				}
			}
			if seed > 0 {
				continue
			}
			if all := fmt.Sprint(floats(t, d, s.w)); first == "" { // all NaN are equal, whatever their bits
				first = all
			} else if all != first {
				t.Error("another level rounds in another way")
			}
		}
	})
}

// swapped returns x with each pair of elements whose indices differ only in the given bit exchanged.
func swapped(x []float64, bit int) (y []float64) {
	for i := range x {
		y = append(y, x[i^bit])
	}
	return y
}

// TestStochasticUnbiased checks that the share of elements rounded up is the distance from the lower number, and that
// the rounding of one element is independent of the rounding of other elements, tensors, seeds and steps.
func TestStochasticUnbiased(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	f := form{name: "stochastic", weight: tensor.BF16, stochastic: true}
	const n = 1 << 18
	// ups returns which elements are rounded up, all of the same value between 1 and the next BF16, 1 + 2⁻⁷.
	ups := func(share float64, edit func(*stepper)) []float64 {
		x := filled(n, func(int) float64 { return 1 + share*0x1p-7 })
		w := floats(t, d, rounded(t, d, f, x, edit).w)
		for i, v := range w {
			w[i] = (v - 1) * 0x1p7
		}
		return w
	}
	for _, share := range []float64{0, 0x1p-12, 0.125, 0.5, 0.75, 1 - 0x1p-12} {
		var sum float64
		for _, up := range ups(share, nil) {
			sum += up
		}
		// The limit is five standard deviations of a binomial distribution.
		if limit := 5 * math.Sqrt(share*(1-share)/n); !(math.Abs(sum/n-share) <= limit) {
			t.Errorf("of %v, %v are rounded up; limit %v", share, sum/n, limit)
		}
	}
	first := ups(0.5, nil)
	for name, other := range map[string][]float64{
		"the next step":          ups(0.5, func(s *stepper) { s.c.Step++; s.c.LR *= 1.5 }), // the rate is LR / (1 − ½²)
		"another tensor":         ups(0.5, func(s *stepper) { s.number = 1 }),
		"another seed":           ups(0.5, func(s *stepper) { s.c.Seed = 1 }),
		"the next element":       append(first[1:n:n], first[0]),
		"two elements on":        append(first[2:n:n], first[:2]...),
		"16 elements on":         append(first[16:n:n], first[:16]...),
		"256 elements on":        append(first[256:n:n], first[:256]...),
		"2048 elements on":       append(first[2048:n:n], first[:2048]...),
		"65536 elements on":      append(first[65536:n:n], first[:65536]...),
		"every second, twice":    swapped(first, 1),
		"the block's other half": swapped(first, kernels.QuantBlockSize/2), // the two halves share 32-bit random numbers
	} {
		var both float64
		for i := range first {
			both += (2*first[i] - 1) * (2*other[i] - 1)
		}
		if both /= n; !(math.Abs(both) <= 5/math.Sqrt(n)*math.Sqrt2) { // five deviations; pairs may be counted twice
			t.Errorf("%s goes along with this one: correlation %v", name, both)
		}
	}
	// Runs of four: all sixteen patterns must be equally frequent.
	var patterns [16]float64
	for i := 0; i < n; i += 4 {
		patterns[int(first[i])+2*int(first[i+1])+4*int(first[i+2])+8*int(first[i+3])]++
	}
	var chi float64
	for _, p := range patterns {
		chi += (p - n/64) * (p - n/64) / (n / 64)
	}
	if chi > 44 { // 15 degrees of freedom, one in 10,000
		t.Errorf("patterns of four are uneven: χ² is %v, %v", chi, patterns)
	}
}

// TestAdamWRanges checks that steps range by range, in any order, leave the bits of steps on the whole tensor.
func TestAdamWRanges(t *testing.T) {
	const n = 5*kernels.QuantBlockSize + 77
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func() []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	w, g := draw(), draw()
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, f := range forms {
			whole, parts := f.stepper(t, d, w), f.stepper(t, d, w)
			for range 3 {
				whole.step(g)
				parts.c.Step++
				d.Upload(parts.g, g)
				for _, r := range [][2]int{{3 * kernels.QuantBlockSize, n}, {0, kernels.QuantBlockSize},
					{kernels.QuantBlockSize, 3 * kernels.QuantBlockSize}} {
					d.AdamW(parts.tensor().Part(r[0], r[1]-r[0]), parts.c)
				}
			}
			if !bytes.Equal(whole.bytes(t), parts.bytes(t)) {
				t.Errorf("%s: the bits differ", f.name)
			}
		}
	})
}
