package kernels_test

import (
	"math"
	"testing"

	"restyle/kernels"
	"restyle/quant"
	"restyle/tensor"
)

// TestQuantizedPieces multiplies more rows by a layer that is dequantized in several pieces, with a bias, and compares
// the last outputs, which are in the last piece, with those that few rows give.
func TestQuantizedPieces(t *testing.T) {
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const rows, in, out = 9, 8200, 600 // 8 MiB have 255 rows
	var x, w, bias, many, few tensor.Tensor
	cut := func(a *kernels.Arena) {
		x, w, bias = a.New("x", tensor.F32, rows, in), a.New("w", tensor.INT8, out, in), a.New("bias", tensor.F32, out)
		many, few = a.New("many", tensor.F32, rows, out), a.New("few", tensor.F32, 1, out)
	}
	a, err := d.NewArena("test", kernels.SizeOf(cut))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	cut(a)
	raw := make([]byte, w.Bytes())
	if err := quant.INT8.Quantize(raw, kernels.Waves(out*in), in); err != nil {
		t.Fatal(err)
	}
	d.UploadBytes(w, raw)
	d.Upload(x, kernels.Waves(rows*in))
	d.Upload(bias, kernels.Waves(out))
	d.Linear(many, x, w, bias)
	d.Linear(few, x.Slice(rows-1, rows), w, bias)
	for i, want := range few.F32() {
		if got := many.F32()[(rows-1)*out+i]; math.Abs(float64(got-want)) > 1e-3 {
			t.Fatalf("output %d is %v by dequantized weights, and %v by codes", i, got, want)
		}
	}
}
