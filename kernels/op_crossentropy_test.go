package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestCrossEntropyGradient compares the gradient with differences of the loss itself.
func TestCrossEntropyGradient(t *testing.T) {
	const rows, vocab, h = 2, 11, 1e-2
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, fused := range []bool{false, true} {
			d.SetFused(kernels.Fused{"crossentropy": fused})
			a := arena(t, d, 1<<12)
			loss, logits, targets := a.New("loss", tensor.F32, rows), a.New("logits", tensor.F32, rows, vocab),
				a.New("targets", tensor.I32, rows)
			d.UploadI32(targets, []int32{3, 10})
			at := filled(rows*vocab, func(i int) float64 { return math.Sin(float64(i)) })
			run := func(i int, by float64, gradient bool) []float64 {
				x := append([]float32(nil), at...)
				x[i] += float32(by)
				d.Upload(logits, x)
				var dlogits tensor.Tensor
				if gradient {
					dlogits = logits
				}
				d.CrossEntropy(loss, dlogits, logits, targets, 1)
				return floats(t, d, loss)
			}
			run(0, 0, true)
			gradient := floats(t, d, logits)
			var numeric []float64
			for i := range at {
				up, down := run(i, h, false)[i/vocab], run(i, -h, false)[i/vocab]
				numeric = append(numeric, (up-down)/(2*h))
			}
			// The differences err by h²/6 of the third derivative, 1e-5, and by the rounding of the losses divided by h, 2e-5.
			if e := opcheck.Distance(gradient, numeric); e > 1e-4 {
				t.Errorf("fused %v: off by %.3g", fused, e)
			}
		}
	})
}

// TestCrossEntropyRounds checks that the BF16 gradient of F32 logits is the F32 gradient, rounded once.
func TestCrossEntropyRounds(t *testing.T) {
	const rows, vocab = 3, 1027
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, fused := range []bool{false, true} {
			d.SetFused(kernels.Fused{"crossentropy": fused})
			a := arena(t, d, 1<<17)
			loss, logits, targets := a.New("loss", tensor.F32, rows), a.New("logits", tensor.F32, rows, vocab),
				a.New("targets", tensor.I32, rows)
			half := a.New("dlogits", tensor.BF16, rows, vocab)
			d.UploadI32(targets, []int32{3, 1026, 0})
			x := filled(rows*vocab, func(i int) float64 { return 4 * math.Sin(float64(i)) })
			d.Upload(logits, x)
			d.CrossEntropy(loss, half, logits, targets, 0.3)
			kept := floats(t, d, logits)
			for i := range kept {
				if kept[i] != float64(x[i]) {
					t.Fatalf("fused %v: the logits changed", fused)
				}
			}
			want := make([]float64, len(x))
			for i, v := range x {
				want[i] = float64(v)
			}
			_, want = opcheck.CrossEntropy(want, []float64{3, 1026, 0}, vocab, 0.3)
			if e := opcheck.Distance(floats(t, d, half), want); e > opcheck.Tolerances[tensor.BF16]/2 {
				t.Errorf("fused %v: off by %.3g", fused, e)
			}
		}
	})
}

// TestCrossEntropyLimits has logits of −∞ (one chunk of the row has no others), a NaN, a target of probability 0, and a
// target that is no column.
func TestCrossEntropyLimits(t *testing.T) {
	const vocab = 2100
	inf := math.Inf(1)
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range wideTypes {
			for _, fused := range []bool{false, true} {
				t.Run(fmt.Sprint(typ, fused), func(t *testing.T) {
					d.SetFused(kernels.Fused{"crossentropy": fused})
					a := arena(t, d, 1<<17)
					loss, logits, targets := a.New("loss", tensor.F32, 4), a.New("logits", typ, 4, vocab),
						a.New("targets", tensor.I32, 4)
					d.UploadI32(targets, []int32{1500, 7, 7, 2099})
					d.Upload(logits, filled(4*vocab, func(i int) float64 {
						switch r, c := i/vocab, i%vocab; {
						case r <= 1 && c < 1100:
							return -inf
						case r == 2 && c == 2090:
							return math.NaN()
						case r == 3 && c == 2099:
							return 1e30
						case r == 3:
							return -1e30
						}
						return 2
					}))
					d.CrossEntropy(loss, logits, logits, targets, 1)
					got, g := floats(t, d, loss), floats(t, d, logits)
					if want := math.Log(1000); !(math.Abs(got[0]-want) <= 1e-6*want) {
						t.Errorf("loss over what can be is %v, want %v", got[0], want)
					}
					if got[1] != inf {
						t.Errorf("loss of what cannot be is %v", got[1])
					}
					if !math.IsNaN(got[2]) || !math.IsNaN(g[2*vocab+5]) {
						t.Errorf("a NaN is lost: loss %v, gradient %v", got[2], g[2*vocab+5])
					}
					if got[3] != 0 {
						t.Errorf("loss of what is certain is %v", got[3])
					}
					for i, v := range g {
						if want := i/vocab == 2; math.IsNaN(v) != want {
							t.Fatalf("gradient of row %d is %v at %d", i/vocab, v, i%vocab)
						}
					}
					if g[0] != 0 || !(math.Abs(g[1500]+0.999) <= 4e-3) {
						t.Errorf("gradients %v, %v", g[0], g[1500])
					}
					if !d.IsCPU() {
						return
					}
					kernels.MustPanic(t, "a target that is no column", "CrossEntropy: targets[3] is 2100: must be from 0 to 2099",
						func() {
							d.UploadI32(targets, []int32{0, 0, 0, vocab})
							d.CrossEntropy(loss, logits, logits, targets, 1)
						})
				})
			}
		}
	})
}

// TestCrossEntropyEnds has rows that end within a vector. In some, the logits are so far below zero that a 0 in the
// vector after the end of the row would make up the whole sum. In others, they are so far above zero that it would be
// the smallest.
func TestCrossEntropyEnds(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, typ := range opcheck.Types {
			for _, vocab := range []int{1, 3, 7, 17, 31, 63, 65, 1024 + 5} {
				for _, level := range []float64{-500, -60, 60} {
					for _, fused := range []bool{false, true} {
						d.SetFused(kernels.Fused{"crossentropy": fused})
						a := arena(t, d, 1<<14)
						loss, logits, targets := a.New("loss", tensor.F32, 2), a.New("logits", typ, 2, vocab),
							a.New("targets", tensor.I32, 2)
						last := float64(vocab - 1)
						d.UploadI32(targets, []int32{0, int32(last)})
						d.Upload(logits, filled(2*vocab, func(i int) float64 { return level + float64(i%5) }))
						wantLoss, want := opcheck.CrossEntropy(floats(t, d, logits), []float64{0, last}, vocab, 1)
						d.CrossEntropy(loss, logits, logits, targets, 1)
						// Logits have an ulp of at most 2⁻¹⁵, to which log-softmax rounds.
						for i, got := range floats(t, d, loss) {
							if !(math.Abs(got-wantLoss[i]) <= 1e-6*wantLoss[i]+1e-4) {
								t.Errorf("%v, %d about %v, fused %v: loss %v, want %v", typ, vocab, level, fused, got, wantLoss[i])
							}
						}
						for i, got := range floats(t, d, logits) {
							if !(math.Abs(got-want[i]) <= (1e-4+opcheck.ElementLimits[typ].Relative)*math.Abs(want[i])+1e-7) {
								t.Fatalf("%v, %d about %v, fused %v: gradient %d is %v, want %v", typ, vocab, level, fused, i, got, want[i])
							}
						}
					}
				}
			}
		}
	})
}

// TestCrossEntropySmallLoss has targets that are nearly certain. The loss is the logarithm of a sum just above 1, and
// so has an absolute error of 2⁻²³. The target's gradient, e^−loss − 1, is as accurate as the loss itself.
func TestCrossEntropySmallLoss(t *testing.T) {
	const vocab, scale = 3, 0.25
	var x []float32
	for above := float32(1); above < 16; above += 0.25 { // losses from 0.5 to 1e-7
		x = append(x, 40+above, 40, -1000)
	}
	rows := len(x) / vocab
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for _, fused := range []bool{false, true} {
			d.SetFused(kernels.Fused{"crossentropy": fused})
			a := arena(t, d, 1<<14)
			loss, logits, targets := a.New("loss", tensor.F32, rows), a.New("logits", tensor.F32, rows, vocab),
				a.New("targets", tensor.I32, rows)
			d.UploadI32(targets, make([]int32, rows))
			d.Upload(logits, x)
			d.CrossEntropy(loss, logits, logits, targets, scale)
			l, g := floats(t, d, loss), floats(t, d, logits)
			for r := range rows {
				if want := math.Log1p(math.Exp(float64(x[r*vocab+1] - x[r*vocab]))); !(math.Abs(l[r]-want) <= 0x1p-22) {
					t.Errorf("fused %v: loss %v, want %v", fused, l[r], want)
				}
				if want := scale * math.Expm1(-l[r]); !(math.Abs(g[r*vocab]-want) <= 0x1p-22*math.Abs(want)) {
					t.Errorf("fused %v: with a loss of %v, the target's gradient is %v, want %v", fused, l[r], g[r*vocab], want)
				}
			}
			// A logit of 40 above the others has a loss of e⁻⁴⁰ or 0, whatever the magnitude of the logits.
			d.Upload(logits.Slice(0, 1), []float32{1e4, 1e4 - 40, 1e4 - 50})
			d.CrossEntropy(loss, tensor.Tensor{}, logits, targets, scale)
			if got := floats(t, d, loss)[0]; got < 0 || got > 1e-17 {
				t.Errorf("fused %v: the loss of what is certain is %v", fused, got)
			}
		}
	})
}

// TestCrossEntropyRoundsTarget has a target of probability 0, whose gradient must be −scale, rounded to nearest, ties
// to even.
func TestCrossEntropyRoundsTarget(t *testing.T) {
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		a := arena(t, d, 1<<12)
		loss, logits, targets := a.New("loss", tensor.F32, 1), a.New("logits", tensor.F32, 1, 2),
			a.New("targets", tensor.I32, 1)
		half := a.New("dlogits", tensor.BF16, 1, 2)
		d.UploadI32(targets, []int32{1})
		d.Upload(logits, []float32{0, float32(math.Inf(-1))})
		for _, fused := range []bool{false, true} {
			d.SetFused(kernels.Fused{"crossentropy": fused})
			for _, high := range []uint32{0x3F80, 0x3F81, 0x3FFF, 0x4000, 0x7F00, 0x7F7F} {
				for _, low := range []uint32{0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF} {
					scale := math.Float32frombits(high<<16 | low)
					d.CrossEntropy(loss, half, logits, targets, scale)
					if got, want := float32(floats(t, d, half)[1]), tensor.RoundBF16(-scale); got != want {
						t.Fatalf("fused %v: %v became %v, not %v", fused, -scale, got, want)
					}
				}
			}
			for _, bits := range []uint32{0x7F800001, 0x7FFFFFFF} { // rounding would carry the second beyond infinity, to -0
				d.CrossEntropy(loss, half, logits, targets, math.Float32frombits(bits))
				if got := floats(t, d, half)[1]; !math.IsNaN(got) {
					t.Errorf("fused %v: the NaN %#08x became %v", fused, bits, got)
				}
			}
		}
	})
}
