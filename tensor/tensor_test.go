package tensor

import (
	"math"
	"testing"
	"unsafe"
)

// TestF16_AllValues converts every binary16 to its value by the definition, and back to the same bits.
func TestF16_AllValues(t *testing.T) {
	for bits := range 1 << 16 {
		h := uint16(bits)
		sign, exp, frac := 1-2*float64(h>>15), int(h>>10&0x1F), float64(h&0x3FF)
		want := sign * frac * 0x1p-24
		switch {
		case exp == 0x1F && frac != 0:
			if f := F16ToF32(h); f == f || F16FromF32(f)&0x7FFF <= 0x7C00 {
				t.Fatalf("%#x: %v is no NaN, or does not come back as one", h, f)
			}
			continue
		case exp == 0x1F:
			want = sign * math.Inf(1)
		case exp > 0:
			want = sign * (1 + frac/1024) * math.Pow(2, float64(exp-15))
		}
		f := F16ToF32(h)
		if float64(f) != want || math.Signbit(float64(f)) != (h>>15 == 1) {
			t.Fatalf("%#x is %v, want %v", h, f, want)
		}
		if back := F16FromF32(f); back != h {
			t.Fatalf("%#x came back as %#x", h, back)
		}
		if exp == 0x1F || h&0x7FFF == 0x7BFF {
			continue
		}
		// The midpoint of two neighbors rounds to the even one; an ulp to either side of it, to the nearer one.
		next := F16ToF32(h + 1)
		middle := (f + next) / 2
		even := h + h&1
		for _, c := range []struct {
			f    float32
			want uint16
		}{
			{middle, even},
			{math.Nextafter32(middle, f), h},
			{math.Nextafter32(middle, next), h + 1},
		} {
			if got := F16FromF32(c.f); got != c.want {
				t.Fatalf("%v rounds to %#x, want %#x", c.f, got, c.want)
			}
		}
	}
	if got := F16FromF32(65519.99); got != 0x7BFF {
		t.Errorf("65519.99 is %#x", got)
	}
	if got := F16FromF32(65520); got != 0x7C00 {
		t.Errorf("65520 is %#x", got)
	}
}

// TestBF16_AllValues does the same for every bfloat16.
func TestBF16_AllValues(t *testing.T) {
	for bits := range 1 << 16 {
		h := uint16(bits)
		f := BF16ToF32(h)
		if f != f {
			if r := RoundBF16(f); r == r {
				t.Fatalf("NaN %#x became %v", h, r)
			}
			continue
		}
		if back := BF16FromF32(f); back != h {
			t.Fatalf("%#x came back as %#x", h, back)
		}
		if h&0x7FFF >= 0x7F7F {
			continue
		}
		middle := math.Float32frombits(uint32(h)<<16 | 0x8000)
		even := h + h&1
		for _, c := range []struct {
			f    float32
			want uint16
		}{
			{middle, even},
			{math.Float32frombits(math.Float32bits(middle) - 1), h},
			{math.Float32frombits(math.Float32bits(middle) + 1), h + 1},
		} {
			if got := BF16FromF32(c.f); got != c.want {
				t.Fatalf("%v rounds to %#x, want %#x", c.f, got, c.want)
			}
		}
	}
	// A NaN whose payload is only in the lower half must not become an infinity.
	if r := RoundBF16(math.Float32frombits(0x7F800001)); r == r {
		t.Errorf("a NaN became %v", r)
	}
	if r := RoundBF16(math.MaxFloat32); !math.IsInf(float64(r), 1) {
		t.Errorf("the largest float32 became %v", r)
	}
}

func TestViews(t *testing.T) {
	data := make([]float32, 24)
	for i := range data {
		data[i] = float32(i)
	}
	x := Tensor{Name: "x", DType: F32, Shape: []int{4, 2, 3}, Addr: uintptr(unsafe.Pointer(&data[0]))}
	if x.Len() != 24 || x.Bytes() != 96 || x.Rows() != 8 || x.Dim(-1) != 3 || x.Dim(0) != 4 {
		t.Errorf("sizes of %v", x)
	}
	s := x.Slice(1, 3)
	if s.Len() != 12 || s.F32()[0] != 6 || x.Shape[0] != 4 {
		t.Errorf("%v begins with %v", s, s.F32()[0])
	}
	if p := x.Part(5, 2, 2); p.F32()[3] != 8 {
		t.Errorf("part ends with %v", p.F32()[3])
	}
	if v := x.View(6, 4); v.F32()[23] != 23 || v.String() != "x F32[6 4]" {
		t.Errorf("%v", v)
	}
	if empty := x.Slice(2, 2); len(empty.F32()) != 0 {
		t.Errorf("%v is not empty", empty)
	}
	for name, f := range map[string]func(){
		"rows that are not there": func() { x.Slice(1, 5) },
		"rows that go back":       func() { x.Slice(2, 1) },
		"another size":            func() { x.View(5, 5) },
		"beyond the end":          func() { x.Part(20, 5) },
		"another type":            func() { x.Half() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestDTypes(t *testing.T) {
	for _, d := range []DType{F32, F16, BF16, I64, I32, U8} {
		if back, err := ParseDType(d.String()); back != d || err != nil {
			t.Errorf("%v: %v, %v", d, back, err)
		}
	}
	if _, err := ParseDType("F8_E4M3"); err == nil {
		t.Error("an unknown type was taken")
	}
	if _, err := ParseDType(""); err == nil {
		t.Error("no type was taken for one")
	}
	if DType(0).Size() != 0 || DType(77).Size() != 0 {
		t.Error("what is no type has a size")
	}
}
