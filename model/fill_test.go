package model

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/tensor"
)

// TestFill_NumbersOfRows checks that there are few different numbers of rows, that tensor cores handle them well, and
// that none is larger than necessary.
func TestFill_NumbersOfRows(t *testing.T) {
	for _, most := range []int{1, 15, 16, 17, 255, 256, 257, 300, 2048, 16384, 100_000} {
		seen := map[int]bool{}
		for tokens := range most + 1 {
			if got := (Options{MaxTokens: most}).Rows(tokens); got != tokens {
				t.Fatalf("%d of %d tokens have %d rows unfilled", tokens, most, got)
			}
			rows := Options{MaxTokens: most, PadPasses: true}.Rows(tokens)
			if rows < tokens || rows > most || rows-tokens > most/16+16 || rows < most && rows%16 != 0 {
				t.Fatalf("%d of %d tokens are filled up to %d", tokens, most, rows)
			}
			seen[rows] = tokens > 0
		}
		delete(seen, 0)
		want := slices.Sorted(maps.Keys(seen))
		if got := (Options{MaxTokens: most, PadPasses: true}).PassSizes(); len(want) > 16 || !slices.Equal(got, want) {
			t.Errorf("%d tokens: fillings %v, not %v", most, got, want)
		}
	}
}

// TestFill_SameLosses checks that padded passes have the same losses and, apart from the rounding of sums, the same
// gradients.
func TestFill_SameLosses(t *testing.T) {
	for name, cfg := range shapes {
		for dtype, rounding := range map[tensor.DType]float64{tensor.F32: 1e-5, tensor.BF16: 1e-2} {
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				dev := device(t, kernels.Options{Fused: kernels.All()})
				opts := Options{DType: dtype, MaxTokens: 300, Longest: 20, Train: true, HeadBytes: 24 * cfg.Vocab * 4}
				plain := open(t, dev, cfg, opts)
				opts.PadPasses = true
				filled := open(t, dev, cfg, opts)
				if a, b := filled.headRows(3, 100), filled.headRows(3, 24); a != 32 || b != 24 {
					t.Errorf("the head has %d rows, and %d of a smaller piece", a, b)
				}
				shown := 0
				filled.OnHidden = func(_ string, h tensor.Tensor) { shown = h.Rows() }
				for _, lengths := range [][]int{{3}, {20, 12}, {20, 13}, {17, 20, 20, 3}, slices.Repeat([]int{20}, 15)} {
					var of []Batch
					for i, n := range lengths {
						of = append(of, sequence(cfg, uint64(i), n))
					}
					b := Join(of...)
					want := gradient(t, plain, 0.25, b)
					wantGradients := gradients(t, plain)
					filled.actArena.Release(0)
					whole := filled.actArena.New("NaN", tensor.U8, filled.actArena.Size())
					dev.UploadBytes(whole, bytes.Repeat([]byte{0xFF}, whole.Bytes()))
					got := gradient(t, filled, 0.25, b)
					if shown != filled.Rows(len(b.IDs)) || len(lengths) == 1 && shown != 32 {
						t.Errorf("%v: %d rows", lengths, shown)
					}
					if got.Targets != want.Targets || len(got.Tokens) != len(want.Tokens) ||
						distance(got.Tokens, want.Tokens) > rounding {
						t.Errorf("%v: losses %v, not %v", lengths, got.Tokens, want.Tokens)
					}
					if e := distance(gradients(t, filled), wantGradients); e > rounding {
						t.Errorf("%v: gradients are %g apart", lengths, e)
					}
					told := 0
					if err := filled.Logits(b, func(position int, _ []float32) { told++ }); err != nil || told != len(b.IDs) {
						t.Errorf("%v: logits of %d positions, %v", lengths, told, err)
					}
				}
				if l, err := filled.Loss(Batch{IDs: []int32{1, 2}}); err != nil || l.Targets != 0 {
					t.Errorf("without labels: %v, %v", l, err)
				}
			})
		}
	}
}
