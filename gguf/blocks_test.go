package gguf

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestQuantize_Recorded checks the checksums of blocks that TestQuantize_IsGGML finds equal to ggml's.
func TestQuantize_Recorded(t *testing.T) {
	x := expect.Weights(360)
	for typ, want := range map[Type]string{
		F16:  "b5e9fbadcfed1514",
		Q4_0: "98ef3e839f003e90",
		Q4_1: "76ef8b4430fbf2d7",
		Q5_0: "5650480bd07f2d94",
		Q5_1: "b0862be44d7ca360",
		Q8_0: "630f94e62c971b6e",
		Q4_K: "a18bb7d4ce6c2746",
		Q5_K: "51fe73d1d826813b",
		Q6_K: "40124fa86c52cd0d",
		BF16: "e86ddfba7739b98f",
	} {
		got := make([]byte, typ.RowBytes(len(x)))
		expect.OK(t, typ.Quantize(got, x))
		if sum := fmt.Sprintf("%x", sha256.Sum256(got))[:16]; sum != want {
			t.Errorf("%v: sum %s, want %s", typ, sum, want)
		}
	}
}

// TestQuantize_Again checks that elements that a block holds exactly give the block again, for types whose rule
// finds the scales again.
func TestQuantize_Again(t *testing.T) {
	x := expect.Weights(5)
	for _, typ := range []Type{F32, F16, BF16, Q8_0, Q4_0, Q5_0} {
		once, twice := make([]byte, typ.RowBytes(len(x))), make([]byte, typ.RowBytes(len(x)))
		back := make([]float32, len(x))
		expect.OK(t, errors.Join(typ.Quantize(once, x), typ.Dequantize(back, once), typ.Quantize(twice, back)))
		if !bytes.Equal(once, twice) {
			t.Errorf("%v: other blocks", typ)
		}
	}
}

func TestQuantize_Errors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		typ   Type
		first float32
		want  string
	}{
		{F32, nan, "element 300 is NaN: weights must be finite"},
		{Q6_K, inf, "element 300 is -Inf: weights must be finite"},
		{F16, 65520, "element 300 is 65520, which is too large for F16"},
		{BF16, math.MaxFloat32, "element 300 is 3.4028235e+38, which is too large for BF16"},
		{Q8_0, 65520 * 127, "element 300 is 8.32104e+06, which is too large for Q8_0"},
		{Q4_1, -65520, "element 300 is -65520, which is too large for Q4_1"},
		{Q4_K, 1e9, "element 300 is 1e+09, which is too large for Q4_K"},
		{Q6_K, -5e8, "element 300 is -5e+08, which is too large for Q6_K"},
		{F16, 65519, ""},
		{Q8_0, 65519 * 127, ""},
	} {
		x := make([]float32, 512)
		x[300], x[301] = c.first, c.first/2
		err := c.typ.Quantize(make([]byte, c.typ.RowBytes(len(x))), x)
		if c.want == "" && err != nil {
			t.Errorf("%v of %v: %v", c.typ, c.first, err)
		} else if c.want != "" {
			expect.Error(t, err, c.want)
		}
	}
	x := make([]float32, 96)
	expect.Error(t, Q4_K.Quantize(nil, x), "96 elements as Q4_K: use a multiple of 256")
	expect.Error(t, Q4_0.Dequantize(x, make([]byte, 55)), "96 elements as Q4_0 take 54 bytes, not 55")
	expect.Error(t, Type(11).Dequantize(x, nil), "Q3_K (type 11) is not supported", "Q6_K")
}

func FuzzDequantize(f *testing.F) {
	for i := range Types {
		f.Add(byte(i), []byte(strings.Repeat("\x00\x3c\xff\x7f\x01", 42)))
	}
	f.Fuzz(func(t *testing.T, i byte, b []byte) {
		typ := Types[int(i)%len(Types)]
		n, size := typ.Block()
		x := make([]float32, len(b)/size*n)
		if err := typ.Dequantize(x, b); (err == nil) != (len(b)%size == 0) {
			t.Fatalf("%d bytes of %v: %v", len(b), typ, err)
		}
		_ = typ.Quantize(make([]byte, typ.RowBytes(len(x))), x) // any finite elements must do
	})
}

func BenchmarkQuantize(b *testing.B) {
	x := expect.Weights(12 * 16)
	for _, typ := range Types {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				expect.OK(b, typ.Quantize(dst, x))
			}
		})
	}
}

func BenchmarkDequantize(b *testing.B) {
	x := make([]float32, 1<<16)
	for _, typ := range Types {
		b.Run(typ.String(), func(b *testing.B) {
			src := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				expect.OK(b, typ.Dequantize(x, src))
			}
		})
	}
}
