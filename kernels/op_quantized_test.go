package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/quant"
	"restyle/tensor"
)

// TestQuantizedPieces multiplies more rows by a layer that is dequantized in several pieces, with a bias, and compares
// the last outputs, which are in the last piece, with the outputs for few rows.
func TestQuantizedPieces(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	expect.OK(t, err)
	defer d.Close()
	const rows, in, out = 9, 8200, 600 // 8 MiB have 255 rows
	var x, w, bias, many, few tensor.Tensor
	cut := func(a *kernels.Arena) {
		x, w, bias = a.New("x", tensor.F32, rows, in), a.New("w", tensor.INT8, out, in), a.New("bias", tensor.F32, out)
		many, few = a.New("many", tensor.F32, rows, out), a.New("few", tensor.F32, 1, out)
	}
	a, err := d.NewArena("test", kernels.SizeOf(cut))
	expect.OK(t, err)
	defer a.Close()
	cut(a)
	raw := make([]byte, w.Bytes())
	expect.OK(t, quant.INT8.Quantize(raw, kernels.Waves(out*in), in))
	d.UploadBytes(w, raw)
	d.Upload(x, kernels.Waves(rows*in))
	d.Upload(bias, kernels.Waves(out))
	d.Linear(many, x, w, bias)
	d.Linear(few, x.Slice(rows-1, rows), w, bias)
	for i, want := range few.F32() {
		if got := many.F32()[(rows-1)*out+i]; !(math.Abs(float64(got-want)) <= 1e-3) {
			t.Fatalf("output %d is %v by dequantized weights, and %v by codes", i, got, want)
		}
	}
}

// TestQuantizedOutliers multiplies a row by 4-bit weights, one of which in each group is far larger than the others,
// whose codes are then next to the zero point: what the zero point contributes must not cost the sum its digits.
func TestQuantizedOutliers(t *testing.T) {
	const in, out = 129, 64
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		for _, rule := range []quant.Rule{quant.INT4Sym7, quant.INT4Asym} {
			a := arena(t, d, 1<<17)
			x, w, y := a.New("x", tensor.F32, 1, in), a.New("w", rule.DType(), out, in), a.New("y", tensor.F32, 1, out)
			weights := kernels.Waves(out * in)
			for i := range weights {
				if i%in%100 == 0 {
					weights[i] *= 7
				}
			}
			raw := make([]byte, w.Bytes())
			expect.OK(t, rule.Quantize(raw, weights, in))
			d.UploadBytes(w, raw)
			d.Upload(x, filled(in, func(i int) float64 { return 1 + math.Cos(float64(i*i))/4 }))
			d.Linear(y, x, w, tensor.Tensor{})
			at, want := floats(t, d, x), make([]float64, out)
			for r := range out {
				row := quant.Row{DType: w.DType, In: in, Bytes: raw[r*w.DType.RowBytes(in):][:w.DType.RowBytes(in)]}
				for i := range in {
					want[r] += at[i] * float64(row.Code(i)-row.Zero(i/tensor.GroupSize)) * float64(row.Scale(i/tensor.GroupSize))
				}
			}
			if off := opcheck.Distance(floats(t, d, y), want); !(off <= 4e-7) {
				t.Errorf("%v: off by %.2g", rule, off)
			}
		}
	})
}

// TestDequantizedValues_AreExact compares the values of GGUF's types, of random bytes without infinite scales, with
// package quant's, to the bit: all rows, and the rows that ids list.
func TestDequantizedValues_AreExact(t *testing.T) {
	kernels.EachDevice(t, func(t *testing.T, d *kernels.Device) {
		random := rand.New(rand.NewPCG(5, 6))
		for w := tensor.Q4_0; w.Quantized(); w++ {
			for _, in := range []int{256, 768, 1280, 32, 160, 288} {
				if in%max(1, w.Coding().Unit) != 0 {
					continue
				}
				raw, ids := make([]byte, 7*w.RowBytes(in)), []int32{6, 0, 0, 3, 5, 6, 2}
				for i := range raw {
					raw[i] = byte(random.Uint32()) &^ 0x40
				}
				want := make([]float32, 7*in)
				expect.OK(t, quant.Dequantize(want, raw, w, in))
				for _, to := range opcheck.Types {
					a := arena(t, d, 1<<17)
					table, y, at := a.New("w", w, 7, in), a.New("y", to, 7, in), a.New("ids", tensor.I32, 7)
					d.UploadBytes(table, raw)
					d.UploadI32(at, ids)
					d.DequantizeWeights(y, table)
					all := floats(t, d, y)
					d.Embedding(y, table, at)
					some := floats(t, d, y)
					for i, x := range want {
						if got := all[i]; got != float64(tensor.Round(x, to)) {
							t.Fatalf("%v to %v, rows of %d: value %d is %v, want %v", w, to, in, i, got, x)
						}
						if from := int(ids[i/in])*in + i%in; some[i] != all[from] {
							t.Fatalf("%v to %v, rows of %d: value %d is %v, want %v", w, to, in, i, some[i], all[from])
						}
					}
				}
			}
		}
	})
}

// TestDequantizeWeights_EqualsQuant compares the values of all quantized types, rounded to each type, with the values
// that package quant computes: bit by bit, because codes times scales are exact. Weights include zeros, whose values
// may have signs.
func TestDequantizeWeights_EqualsQuant(t *testing.T) {
	const in, out = 768, 3
	weights := kernels.Waves(out * in)
	clear(weights[in : in+300])
	kernels.EachDeviceAndEmulated(t, func(t *testing.T, d *kernels.Device) {
		for of := tensor.INT8; of.Quantized(); of++ {
			a := arena(t, d, 1<<16)
			w, raw, want := a.New("w", of, out, in), make([]byte, out*of.RowBytes(in)), make([]float32, out*in)
			expect.OK(t, quant.RuleFor(of).Quantize(raw, weights, in))
			expect.OK(t, quant.Dequantize(want, raw, of, in))
			d.UploadBytes(w, raw)
			for _, to := range opcheck.Types {
				y := a.New("y", to, out, in)
				d.DequantizeWeights(y, w)
				got, err := d.Floats(y)
				expect.OK(t, err)
				for i, x := range want {
					if math.Float32bits(got[i]) != math.Float32bits(tensor.Round(x, to)) {
						t.Fatalf("%v as %v: weight %d is %v, not %v", of, to, i, got[i], tensor.Round(x, to))
					}
				}
			}
		}
	})
}
