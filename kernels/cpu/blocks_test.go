package cpu_test

import (
	"bytes"
	"math"
	"testing"

	"restyle/gguf"
	"restyle/internal/expect"
	"restyle/kernels/cpu"
)

// blocks returns numbers of many kinds, a kind for each of n blocks of 256.
func blocks(n int) []float32 {
	x := make([]float32, 256*n)
	state := uint64(1)
	next := func() float32 { // from -0.5 to 0.5
		state = state*6364136223846793005 + 1442695040888963407
		return float32(int64(state)>>40) / (1 << 24)
	}
	for i := range x {
		v := next()
		switch block := i / 256; block % 11 {
		case 0:
			v += next() + next() + next()
		case 1: // a few are large
			v *= v * v * v * 1000
		case 2: // next to one number, above or below zero
			v = v/1000 - float32(block%3) + 1
		case 3: // ties
			v = float32(int(v*32)) / 4
		case 4:
			v *= 1e-7
		case 5: // scales are subnormal, or zero
			v *= float32(math.Ldexp(1, -20-block%120))
		case 6:
			if i/32%2 == 0 {
				v = 0
			}
		case 7: // one-sided
			v = float32(math.Abs(float64(v)))
		case 8:
			v = -v * v
		case 9:
			v *= float32(math.Ldexp(1, block%17))
		case 10:
			v = float32(block%5) - 2
		}
		x[i] = v
	}
	return x
}

// TestQuantizeBlocks_IsGGUF compares with the loops in Go, bit by bit, at every level.
func TestQuantizeBlocks_IsGGUF(t *testing.T) {
	x := blocks(1221)
	for _, typ := range gguf.Types {
		want := make([]byte, typ.RowBytes(len(x)))
		if err := typ.Quantize(want, x); err != nil {
			t.Fatal(err)
		}
		eachLevel(t, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 3, 1221} {
				got := make([]byte, typ.RowBytes(256*n))
				if err := cpu.QuantizeBlocks(typ, got, x[:256*n]); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want[:len(got)]) {
					_, size := typ.Block()
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("%v: byte %d of block %d of %d is %d, want %d", typ, i%size, i/size, n, got[i], want[i])
						}
					}
				}
			}
		})
	}
}

func TestQuantizeBlocks_Errors(t *testing.T) {
	x := blocks(600)
	x[100_000], x[70_001] = float32(math.Inf(1)), float32(math.NaN())
	dst := make([]byte, gguf.Q4_K.RowBytes(len(x)))
	expect.Error(t, cpu.QuantizeBlocks(gguf.Q4_K, dst, x), "element 70001 is NaN")
	expect.Error(t, cpu.QuantizeBlocks(gguf.Q4_K, dst[1:], x), "take 86400 bytes, not 86399")
	expect.Error(t, cpu.QuantizeBlocks(9, dst, x), "Q8_1 (type 9) is not supported")
}

func BenchmarkQuantizeBlocks(b *testing.B) {
	defer cpu.SetThreads(cpu.Threads())
	if err := cpu.SetThreads(1); err != nil {
		b.Fatal(err)
	}
	x := blocks(1100)
	for i := range x {
		x[i] = x[i%2816] / 32
	}
	for _, typ := range gguf.Types {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := cpu.QuantizeBlocks(typ, dst, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
