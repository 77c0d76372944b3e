package cpu_test

import (
	"math"
	"testing"

	"restyle/gguf"
	"restyle/internal/expect"
	"restyle/kernels/cpu"
)

// TestQuantizeBlocks_IsGGUF compares with the loops in Go, bit by bit, at every level.
func TestQuantizeBlocks_IsGGUF(t *testing.T) {
	x := expect.Weights(1221)
	for _, typ := range gguf.Types {
		want := make([]byte, typ.RowBytes(len(x)))
		expect.OK(t, typ.Quantize(want, x))
		eachLevel(t, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 3, 1221} {
				got := make([]byte, typ.RowBytes(256*n))
				expect.OK(t, cpu.QuantizeBlocks(typ, got, x[:256*n]))
				_, size := typ.Block()
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("%v: byte %d of block %d of %d is %d, want %d", typ, i%size, i/size, n, got[i], want[i])
					}
				}
			}
		})
	}
}

func TestQuantizeBlocks_Errors(t *testing.T) {
	x := expect.Weights(600)
	x[100_000], x[70_001] = float32(math.Inf(1)), float32(math.NaN())
	dst := make([]byte, gguf.Q4_K.RowBytes(len(x)))
	expect.Error(t, cpu.QuantizeBlocks(gguf.Q4_K, dst, x), "element 70001 is NaN")
	expect.Error(t, cpu.QuantizeBlocks(gguf.Q4_K, dst[1:], x), "take 86400 bytes, not 86399")
	expect.Error(t, cpu.QuantizeBlocks(9, dst, x), "Q8_1 (type 9) is not supported")
}

func BenchmarkQuantizeBlocks(b *testing.B) {
	defer cpu.SetThreads(cpu.Threads())
	expect.OK(b, cpu.SetThreads(1))
	x := expect.Weights(1100)
	for i := range x {
		x[i] = x[i%2816] / 32
	}
	for _, typ := range gguf.Types {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				expect.OK(b, cpu.QuantizeBlocks(typ, dst, x))
			}
		})
	}
}
