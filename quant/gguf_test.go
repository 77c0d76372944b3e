package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"restyle/tensor"
)

// TestPack_KeepsTheValues packs blocks of random bytes, whose halves are finite, and compares the values of both
// forms. Rows that Unpack accepts become the same blocks again.
func TestPack_KeepsTheValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for to, from := range blockTypes {
		elements, size := from.Block()
		for _, in := range []int{elements, 3 * elements, 256, 1024} {
			const rows = 5
			raw := make([]byte, rows*from.RowBytes(in))
			for i := range raw {
				raw[i] = byte(random.Uint32()) &^ 0x40 // no exponent of infinity
			}
			packed := make([]byte, rows*to.RowBytes(in))
			want, got := make([]float32, rows*in), make([]float32, rows*in)
			for _, err := range []error{Pack(packed, raw, to, in), Check(packed, to, in), from.Dequantize(want, raw),
				Dequantize(got, packed, to, in)} {
				if err != nil {
					t.Fatalf("%v, rows of %d: %v", to, in, err)
				}
			}
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v, rows of %d: weight %d is %v, want %v", to, in, i, got[i], want[i])
				}
			}
			again := make([]byte, len(raw))
			if err := Unpack(again, packed, to, in); (err == nil) != (to == tensor.Q4_0) ||
				err == nil && !bytes.Equal(again, raw) {
				t.Errorf("%v, rows of %d: unpacked, the blocks are not the same: %v", to, in, err)
			}
			infinite := packed[:to.RowBytes(in)]
			for i := range size {
				raw[i] |= 0x7C
			}
			if Pack(infinite, raw[:from.RowBytes(in)], to, in) == nil {
				t.Errorf("%v: a scale of NaN is packed", to)
			}
		}
		half := Pack(nil, nil, to, elements/2) == nil || Unpack(nil, nil, to, elements/2) == nil
		if half || FromGGUF(from) != to || RuleFor(to).DType() != to {
			t.Errorf("%v: half a block is packed, or %v and %q are not its own", to, from, RuleFor(to))
		}
	}
	if Pack(nil, nil, tensor.INT4, 128) == nil {
		t.Error("INT4 is packed from blocks")
	}
}
