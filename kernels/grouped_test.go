package kernels

import (
	"math"
	"testing"

	"restyle/quant"
	"restyle/tensor"
)

// TestExpertsInParts multiplies by the quantized weights of experts that are dequantized all at once, two experts at a
// time, and some rows of one at a time. The results must agree but for the order of sums.
func TestExpertsInParts(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	const experts, pairs, in, out = 3, 30, 40, 96
	var x, w, y, offsets tensor.Tensor
	lay := func(a *Arena) {
		x, w = a.New("x", tensor.F32, pairs, in), a.New("w", tensor.INT4Z, experts*out, in)
		y, offsets = a.New("y", tensor.F32, pairs, out), a.New("offsets", tensor.I32, experts+1)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	lay(a)
	raw := make([]byte, w.Bytes())
	if err := quant.INT4Asym.Quantize(raw, Waves(experts*out*in), in); err != nil {
		t.Fatal(err)
	}
	d.UploadBytes(w, raw)
	d.Upload(x, Waves(pairs*in))
	d.UploadI32(offsets, []int32{0, 13, 19, pairs})
	was := gpuDequantizedBytes
	defer func() { gpuDequantizedBytes = was }()
	var whole []float32
	for _, rows := range []int{experts * out, 2 * out, 64} {
		gpuDequantizedBytes = rows * in * tensor.F32.Size()
		d.Zero(y)
		d.GroupedLinear(y, x, w, offsets, 16)
		got, err := d.Floats(y)
		if err != nil {
			t.Fatal(err)
		}
		if whole == nil {
			whole = got
		}
		for i, want := range whole {
			if math.Abs(float64(got[i]-want)) > 1e-4 || want == 0 {
				t.Fatalf("%d rows at a time: element %d is %v, and %v at once", rows, i, got[i], want)
			}
		}
	}
}
