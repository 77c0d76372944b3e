package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/tensor"
)

// evenRules are the rules whose rows may have any length.
var evenRules = []Rule{INT8, INT4Sym7, INT4Sym8, INT4Asym}

// quantized returns a matrix quantized by a rule.
func quantized(t testing.TB, r Rule, w []float32, in int) []byte {
	t.Helper()
	rows := make([]byte, len(w)/in*r.DType().RowBytes(in))
	expect.OK(t, r.Quantize(rows, w, in))
	expect.OK(t, Check(rows, r.DType(), in))
	return rows
}

func codes(r Row) (list []int) {
	for i := range r.In {
		list = append(list, r.Code(i))
	}
	return list
}

func TestTiesGoToEven(t *testing.T) {
	w := []float32{127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5}
	row := Row{tensor.INT8, len(w), quantized(t, INT8, w, len(w))}
	if want := []int{127, 0, 2, 2, 0, -2, -2, 126}; !slices.Equal(codes(row), want) || row.Scale(0) != 1 {
		t.Errorf("int8: codes %v, scale %v: want %v and 1", codes(row), row.Scale(0), want)
	}
	w = []float32{7, 0.5, 1.5, -0.5, -1.5, -7}
	row = Row{tensor.INT4, len(w), quantized(t, INT4Sym7, w, len(w))}
	if want := []int{15, 8, 10, 8, 6, 1}; !slices.Equal(codes(row), want) {
		t.Errorf("int4_sym7: codes %v: want %v", codes(row), want)
	}
	w = []float32{8, 0.5, 1.5, -2.5, 7, -8} // the first of two largest: the scale is negative
	row = Row{tensor.INT4, len(w), quantized(t, INT4Sym8, w, len(w))}
	if want := []int{0, 8, 6, 10, 1, 15}; !slices.Equal(codes(row), want) || row.Scale(0) != -1 {
		t.Errorf("int4_sym8: codes %v, scale %v: want %v and -1", codes(row), row.Scale(0), want)
	}
	w = []float32{-2.5, 12.5, 0.5, 1.5}
	row = Row{tensor.INT4Z, len(w), quantized(t, INT4Asym, w, len(w))}
	if want := []int{0, 14, 2, 4}; !slices.Equal(codes(row), want) || row.Zero(0) != 2 {
		t.Errorf("int4_asym: codes %v, zero point %d: want %v and 2", codes(row), row.Zero(0), want)
	}
}

// TestOneSidedGroup has a group without positive weights: its range ends at 0.
func TestOneSidedGroup(t *testing.T) {
	w := []float32{-15, -0.5, -1.5}
	row := Row{tensor.INT4Z, len(w), quantized(t, INT4Asym, w, len(w))}
	if want := []int{0, 15, 13}; !slices.Equal(codes(row), want) || row.Zero(0) != 15 || row.Scale(0) != 1 {
		t.Errorf("codes %v, zero point %d, scale %v: want %v, 15 and 1", codes(row), row.Zero(0), row.Scale(0), want)
	}
}

// TestDivisionByTheStoredScale has a weight whose code differs if it is divided by the scale before the scale is
// rounded to F16, and one whose code differs if it is multiplied by the scale's reciprocal.
func TestDivisionByTheStoredScale(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	unrounded, reciprocal := 0, 0
	for range 3000 {
		w := make([]float32, 128)
		for i := range w {
			w[i] = float32(random.IntN(255) - 127)
		}
		row := Row{tensor.INT4, 128, quantized(t, INT4Sym7, w, 128)}
		scale := row.Scale(0)
		for i, x := range w {
			want := int(rint(x/scale)) + 8
			if got := row.Code(i); got != min(15, want) {
				t.Fatalf("code of %v with scale %v: %d, want %d", x, scale, got, want)
			}
			var largest float32
			for _, y := range w {
				largest = max(largest, abs(y))
			}
			if int(rint(x/(largest/7)))+8 != want {
				unrounded++
			}
		}
		eight := Row{tensor.INT8, 128, quantized(t, INT8, w, 128)}
		for i, x := range w {
			if int(rint(x*(1/eight.Scale(0)))) != eight.Code(i) {
				reciprocal++
			}
		}
	}
	if unrounded == 0 || reciprocal == 0 {
		t.Errorf("of the weights, %d and %d tell the divisors apart: want some of each", unrounded, reciprocal)
	}
}

func TestZeroScale(t *testing.T) {
	tiny := math.Float32frombits(1)
	for _, r := range evenRules {
		for _, w := range [][]float32{{0, 0, 0}, {tiny, -tiny, 0}, {float32(math.Copysign(0, -1)), 0, 0}} {
			rows := quantized(t, r, w, 3)
			back := make([]float32, 3)
			expect.OK(t, Dequantize(back, rows, r.DType(), 3))
			row := Row{r.DType(), 3, rows}
			for i, x := range back {
				if x != 0 || r != INT8 && row.Scale(0) == 0 && row.Code(i) != row.Zero(0) {
					t.Errorf("%s: weight %d of %v is %v, with code %d", r, i, w, x, row.Code(i))
				}
			}
		}
	}
}

// TestLayout_OfARow fixes the bytes of a row.
func TestLayout_OfARow(t *testing.T) {
	w := make([]float32, 130)
	for i := range w {
		w[i] = float32(i%15 - 7)
	}
	rows := quantized(t, INT4Sym7, w, 130)
	if len(rows) != 16+64+64 || !bytes.Equal(rows[:2], []byte{0x00, 0x3C}) { // 1 in F16
		t.Errorf("a row of %d bytes starts with % x", len(rows), rows[:2])
	}
	// Elements 0 and 64 are -7 and 64%15-7 = -3: codes 1 and 5.
	if rows[16] != 0x51 {
		t.Errorf("the first codes are %#x: want 0x51", rows[16])
	}
	if rows[16+64+2] != 0x88 || rows[len(rows)-1] != 0x88 {
		t.Errorf("padding is %#x and %#x: want 0x88", rows[16+64+2], rows[len(rows)-1])
	}
	for _, r := range evenRules {
		if n := r.DType().RowBytes(130); n%16 != 0 {
			t.Errorf("%s: a row has %d bytes: want a multiple of 16", r, n)
		}
	}
}

// TestGroupsDoNotMix quantizes odd sizes: each group as if it were a matrix of its own.
func TestGroupsDoNotMix(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, in := range []int{1, 2, 15, 63, 64, 65, 127, 128, 129, 255, 300} {
		const out = 3
		w := make([]float32, in*out)
		for i := range w {
			w[i] = float32(random.NormFloat64())
		}
		for _, r := range evenRules {
			row, back := r.DType().RowBytes(in), make([]float32, len(w))
			rows := quantized(t, r, w, in)
			expect.OK(t, Dequantize(back, rows, r.DType(), in))
			for o := range out {
				for g := range r.DType().Groups(in) {
					lo, hi := Row{r.DType(), in, rows[o*row:][:row]}.Group(g)
					part := w[o*in+lo : o*in+hi]
					alone := make([]float32, hi-lo)
					expect.OK(t, Dequantize(alone, quantized(t, r, part, hi-lo), r.DType(), hi-lo))
					if !slices.Equal(alone, back[o*in+lo:o*in+hi]) {
						t.Fatalf("%s: row %d of %d, group %d differs from the group alone", r, o, in, g)
					}
					steps := map[Rule]float64{INT8: 254, INT4Sym7: 14, INT4Sym8: 15, INT4Asym: 15}[r]
					for i, x := range part {
						bound := 1.1 * float64(2*slices.MaxFunc(part, byMagnitude)) / steps
						if off := math.Abs(float64(alone[i] - x)); off > math.Abs(bound) {
							t.Errorf("%s: weight %v became %v: more than a step away", r, x, alone[i])
						}
					}
				}
			}
		}
	}
}

func byMagnitude(a, b float32) int { return int(math.Copysign(1, float64(abs(a)-abs(b)))) }

func TestRefusals(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, r := range evenRules {
		dst := make([]byte, r.DType().RowBytes(2))
		for _, w := range [][]float32{{1, inf}, {nan, 1}} {
			if r.Quantize(dst, w, 2) == nil {
				t.Errorf("%s took %v", r, w)
			}
		}
		if r.Quantize(dst[1:], []float32{1, 2}, 2) == nil || r.Quantize(dst, []float32{1, 2, 3}, 2) == nil {
			t.Errorf("%s took sizes that do not agree", r)
		}
		for _, large := range []float32{3e38, math.MaxFloat32} {
			err := r.Quantize(dst, []float32{large, 1}, 2)
			if (err == nil) != (r == INT8) {
				t.Errorf("%s and %v: %v", r, large, err)
			}
			if err == nil && (Check(dst, r.DType(), 2) != nil || math.IsInf(float64(Row{r.DType(), 2, dst}.Scale(0)*127), 0)) {
				t.Errorf("%s made an infinite weight of %v", r, large)
			}
		}
	}
	if Rule("int5").Quantize(nil, nil, 1) == nil {
		t.Error("there is no rule int5")
	}
}

// FuzzCheck changes a byte of quantized rows. Either Check reports it, or the values are still finite.
func FuzzCheck(f *testing.F) {
	f.Add(uint8(0), uint16(5), uint16(0), uint8(255))
	f.Add(uint8(3), uint16(130), uint16(17), uint8(16))
	f.Add(uint8(4), uint16(191), uint16(3), uint8(0x7f))
	f.Add(uint8(0), uint16(1), uint16(3), uint8(0x7e)) // a finite scale, and weights that are not
	f.Fuzz(func(t *testing.T, rule uint8, in, at uint16, value uint8) {
		n := int(in)%300 + 1
		w := make([]float32, n)
		for i := range w {
			w[i] = float32((i*i)%17) - 5
		}
		r := Rules[int(rule)%len(Rules)]
		rows := quantized(t, r, w, n)
		rows[int(at)%len(rows)] = value
		if Check(rows, r.DType(), n) != nil {
			return
		}
		back := make([]float32, n)
		expect.OK(t, Dequantize(back, rows, r.DType(), n))
		for i, x := range back {
			if x-x != 0 {
				t.Fatalf("weight %d is %v", i, x)
			}
		}
	})
}

// TestCheck_NamesWhatIsWrong damages the second of two rows.
func TestCheck_NamesWhatIsWrong(t *testing.T) {
	const in = 130
	w := make([]float32, 2*in)
	for i := range w {
		w[i] = float32(i%15 - 7)
	}
	for _, c := range []struct {
		rule   Rule
		damage func(Row)
		want   string // "" if the row is as good as another
	}{
		{INT8, func(r Row) { r.SetScale(0, -1, 0) }, "row 1: scale 0 is -1"},
		{INT8, func(r Row) { r.SetScale(0, maxScale, 0) }, ""},
		{INT8, func(r Row) { r.SetScale(0, 1.01*maxScale, 0) }, "row 1: scale 0 is 2.7"},
		{INT8, func(r Row) { r.SetCode(129, -128) }, "row 1: code 129 is -128"},
		{INT8, func(r Row) { r.SetCode(129, -127) }, ""},
		{INT8, func(r Row) { r.Bytes[len(r.Bytes)-1] = 1 }, "is 1: must be padding, 0"},
		{INT4Sym8, func(r Row) { r.SetScale(1, -1, 8) }, ""},
		{INT4Sym8, func(r Row) { r.SetScale(1, float32(math.Inf(1)), 8) }, "row 1: scale 1 is +Inf"},
		{INT4Sym8, func(r Row) { r.Bytes[len(r.Bytes)-1] = 0 }, "is 0: must be padding, 8"},
		{INT4Asym, func(r Row) { r.SetScale(1, 1, 15) }, ""},
		{INT4Asym, func(r Row) { r.SetScale(1, 1, 16) }, "row 1: zero point 1 is 16: must be at most 15"},
	} {
		rows := quantized(t, c.rule, w, in)
		c.damage(Row{c.rule.DType(), in, rows[len(rows)/2:]})
		if err := Check(rows, c.rule.DType(), in); c.want != "" {
			expect.Error(t, err, c.want)
		} else if err != nil {
			t.Error(err)
		}
	}
	w[in+129] = float32(math.Inf(-1))
	expect.Error(t, INT4Sym8.Quantize(make([]byte, 2*tensor.INT4.RowBytes(in)), w, in),
		"row 1: elements 128 to 129: a weight is -Inf")
}

// TestNF4 has a block with a halfway point, a block of zeros, and one of a single weight, in two rows.
func TestNF4(t *testing.T) {
	values := tensor.NF4.Coding().Table
	w := make([]float32, 4*64)
	copy(w, []float32{2, -2, 0, values[14] + values[15]})
	w[128] = -4
	rows := quantized(t, NF4, w, 128)
	if len(rows) != 2*(16+64) {
		t.Fatalf("two rows have %d bytes", len(rows))
	}
	first, second := Row{tensor.NF4, 128, rows[:80]}, Row{tensor.NF4, 128, rows[80:]}
	if got := codes(first)[:5]; !slices.Equal(got, []int{15, 0, 7, 14, 7}) || first.Scale(0) != 2 || first.Scale(1) != 0 {
		t.Errorf("codes %v, scales %v and %v", got, first.Scale(0), first.Scale(1))
	}
	if second.Code(0) != 0 || second.Scale(0) != 4 || rows[16] != 0x7F || rows[16+1] != 0x70 {
		t.Errorf("% x", rows)
	}
	back := make([]float32, len(w))
	w[3] = 2 * values[14]
	if err := Dequantize(back, rows, tensor.NF4, 128); err != nil || !slices.Equal(back, w) {
		t.Errorf("%v, %v", back, err)
	}
	packed := make([]byte, 128)
	for i := range packed {
		packed[i] = 0x77
	}
	packed[0], packed[1], packed[64] = 0xF0, 0x7E, 0x07
	if got := NF4Rows(packed, []float32{2, 0, 4, 0}, 128); !bytes.Equal(got, rows) {
		t.Errorf("from packed codes: % x", got)
	}
	expect.Error(t, NF4.GPTQ(t.Context(), rows, w, &Factor{matrix(128, 128)}), "GPTQ by \"nf4\"")
}

// TestNF4Double compares scales with the result of NestNF4 and UnnestNF4, across the ends of rows, and checks that the
// codes are the ones for the scales before.
func TestNF4Double(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const in, out = 192, 100 // 300 blocks: more than share a scale
	w := make([]float32, in*out)
	for i := range w {
		w[i] = float32(random.NormFloat64())
	}
	plain, double := quantized(t, NF4, w, in), quantized(t, NF4Double, w, in)
	scales := func(rows []byte) (list []float32) {
		for size := tensor.NF4.RowBytes(in); len(rows) > 0; rows = rows[size:] {
			for g := range 3 {
				list = append(list, Row{tensor.NF4, in, rows}.Scale(g))
			}
		}
		return list
	}
	was := scales(plain)
	offset, values := MeanNF4(was), DynamicMap(true)
	nestedCodes, nested := NestNF4(was, values, offset)
	want := UnnestNF4(nestedCodes, nested, values, offset)
	if got := scales(double); !slices.Equal(got, want) || slices.Equal(got, was) || len(nested) != 2 {
		t.Errorf("scales %v: want %v", got, want)
	}
	head, size := tensor.NF4.HeadBytes(in), tensor.NF4.RowBytes(in)
	for i := 0; i < len(plain); i += size {
		if !bytes.Equal(plain[i+head:i+size], double[i+head:i+size]) {
			t.Fatalf("codes of row %d differ", i/size)
		}
	}
}

// TestNestNF4 has a halfway point between any two values, which gets the even code.
func TestNestNF4(t *testing.T) {
	values, scales := make([]float32, 256), make([]float32, 257)
	for i := range values {
		values[i] = float32(i-127) / 128
		scales[i] = 1 + 2*values[i]
	}
	scales[256] = 1
	codes, nested := NestNF4(scales, values, 1)
	for i, code := range codes {
		if int(code) != i%256 {
			t.Errorf("scale %d has the code %d", i, code)
		}
	}
	if back := UnnestNF4(codes, nested, values, 1); !slices.Equal(nested, []float32{2, 0}) || !slices.Equal(back, scales) {
		t.Errorf("%v, %v", nested, back)
	}
	for i := range 255 {
		step := values[i+1] - values[i]
		for part, want := range map[float32]int{0.25: i, 0.5: i + i%2, 0.75: i + 1} {
			if got := nearest(values[i]+part*step, values); got != want {
				t.Errorf("code %d and %v of a step: %d, want %d", i, part, got, want)
			}
		}
	}
	if MeanNF4([]float32{1, 2, 6}) != 3 || MeanNF4(nil) != 0 {
		t.Error("the mean of scales")
	}
}
