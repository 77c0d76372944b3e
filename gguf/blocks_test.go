package gguf

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"restyle/internal/expect"
)

// safetensors returns the bytes of the tensors of a file of the reference.
func safetensors(t *testing.T, elem ...string) map[string][]byte {
	data, err := os.ReadFile(expect.Reference(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	n := 8 + binary.LittleEndian.Uint64(data)
	var header map[string]struct {
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:n], &header); err != nil {
		t.Fatal(err)
	}
	tensors := map[string][]byte{}
	for name, h := range header {
		tensors[name] = data[n+h.Offsets[0] : n+h.Offsets[1]]
	}
	return tensors
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	decodeF32(x, b)
	return x
}

// sameBits reports the first element that differs.
func sameBits(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements, want %d", len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestBlocks_Reference(t *testing.T) {
	recorded := safetensors(t, "golden-next", "gguf", "blocks", "gguf.safetensors")
	x := floats(recorded["x"])
	for _, typ := range Types[2:10] {
		t.Run(typ.String(), func(t *testing.T) {
			if packed, ok := recorded[typ.String()+".packed"]; ok {
				got := make([]byte, typ.RowBytes(len(x)))
				if err := typ.Quantize(got, x); err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if got[i] != packed[i] {
						_, size := typ.Block()
						t.Fatalf("byte %d of block %d is %d, want %d", i%size, i/size, got[i], packed[i])
					}
				}
				back := make([]float32, len(x))
				if err := typ.Dequantize(back, packed); err != nil {
					t.Fatal(err)
				}
				sameBits(t, back, floats(recorded[typ.String()+".back"]))
			}
			want := floats(recorded[typ.String()+".noise.back"])
			got := make([]float32, len(want))
			if err := typ.Dequantize(got, recorded[typ.String()+".noise"]); err != nil {
				t.Fatal(err)
			}
			sameBits(t, got, want)
		})
	}
}

func BenchmarkQuantize(b *testing.B) {
	x := make([]float32, 1<<16)
	state := uint64(1)
	for i := range x {
		x[i] = normal(&state) / 32
	}
	for _, typ := range Types {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := typ.Quantize(dst, x); err != nil {
					b.Fatal(err)
				}
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
				if err := typ.Dequantize(x, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// uniform returns the next number of a sequence, from 0 to 1. It is exact, and so the same on every machine.
func uniform(state *uint64) float32 {
	*state = *state*6364136223846793005 + 1442695040888963407
	return float32(*state>>40) / (1 << 24)
}

// normal returns about a normal number, of the sum of uniform ones.
func normal(state *uint64) float32 {
	sum := float32(-6)
	for range 12 {
		sum += uniform(state)
	}
	return sum
}
