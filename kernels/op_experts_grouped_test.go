package kernels

import (
	"math"
	"slices"
	"testing"

	"restyle/internal/expect"
	"restyle/quant"
	"restyle/tensor"
)

// TestExpertsInParts multiplies by the quantized weights of experts that are dequantized all at once, two experts at a
// time, and some rows of one at a time. The results must agree except for the order of sums.
func TestExpertsInParts(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true})
	const experts, pairs, in, out = 3, 30, 40, 96
	var x, w, y, offsets tensor.Tensor
	lay := func(a *Arena) {
		x, w = a.New("x", tensor.F32, pairs, in), a.New("w", tensor.INT4Z, experts*out, in)
		y, offsets = a.New("y", tensor.F32, pairs, out), a.New("offsets", tensor.I32, experts+1)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	expect.OK(t, err)
	defer a.Close()
	lay(a)
	raw := make([]byte, w.Bytes())
	expect.OK(t, quant.INT4Asym.Quantize(raw, Waves(experts*out*in), in))
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
		expect.OK(t, err)
		if whole == nil {
			whole = got
		}
		for i, want := range whole {
			if !(math.Abs(float64(got[i]-want)) <= 1e-4) || want == 0 {
				t.Fatalf("%d rows at a time: element %d is %v, and %v at once", rows, i, got[i], want)
			}
		}
	}
}

// TestExpertsAsAlone checks on the emulated GPU that experts compute the same bits together as one by one, with SwiGLU
// after the products and without it.
func TestExpertsAsAlone(t *testing.T) {
	d := Emulated(t, Options{OwnProducts: true, Fused: All()})
	const in, out = 72, 128
	// More than half a tile before few rows, in each order of the blocks: what is written after it is noticed.
	at := []int32{0, 130, 130, 139, 209}
	for _, rows := range []int32{9, 70, 9, 70, 70, 9} {
		at = append(at, at[len(at)-1]+rows)
	}
	experts, pairs := len(at)-1, int(at[len(at)-1])
	var x, w, y, gateUp, act, kept, offsets tensor.Tensor
	lay := func(a *Arena) {
		x, w = a.New("x", tensor.BF16, pairs, in), a.New("w", tensor.BF16, experts*out, in)
		y, gateUp = a.New("y", tensor.BF16, pairs, out), a.New("gateUp", tensor.BF16, pairs, out)
		act, kept = a.New("act", tensor.BF16, pairs, out/2), a.New("kept", tensor.BF16, pairs, out)
		offsets = a.New("offsets", tensor.I32, experts+1)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	expect.OK(t, err)
	defer a.Close()
	lay(a)
	d.Upload(x, Waves(pairs*in))
	d.Upload(w, Waves(experts*out*in))
	d.UploadI32(offsets, at)
	all := func() (values []float32) {
		for _, x := range []tensor.Tensor{y, act, kept} {
			got, err := d.Floats(x)
			expect.OK(t, err)
			values = append(values, got...)
			d.Zero(x)
		}
		return values
	}
	d.GroupedLinear(y, x, w, offsets, pairs)
	d.GroupedSwiGLU(act, kept, x, w, offsets, pairs, true)
	together := all()
	for e := range experts {
		lo, hi, own := int(at[e]), int(at[e+1]), w.Slice(e*out, (e+1)*out)
		if lo < hi {
			d.Linear(y.Slice(lo, hi), x.Slice(lo, hi), own, tensor.Tensor{})
			d.LinearSwiGLU(act.Slice(lo, hi), kept.Slice(lo, hi), x.Slice(lo, hi), own, tensor.Tensor{})
		}
	}
	if !slices.Equal(together, all()) || slices.Max(together) == 0 {
		t.Error("experts compute other bits together than each alone")
	}
	d.GroupedSwiGLU(act, gateUp, x, w, offsets, pairs, false)
	if got, err := d.Floats(act); err != nil || !slices.Equal(got, together[pairs*out:][:len(got)]) {
		t.Errorf("%v: SwiGLU differs if gates and ups are not kept", err)
	}
}
