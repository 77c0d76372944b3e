package kernels

import (
	"fmt"
	"math"
	"testing"

	"restyle/internal/expect"
	"restyle/quant"
	"restyle/tensor"
)

// TestLinear_QuantizedParts dequantizes a layer's weights in parts and compares what it computes, with a bias, and the
// gradient of its input, of each type, added to and not, without and with a pair, with the results of weights
// dequantized at once.
func TestLinear_QuantizedParts(t *testing.T) {
	const in, out, rank = 130, 150, 5 // parts of 64 rows
	was := [2]int{dequantizedBytes, gpuDequantizedBytes}
	defer func() { dequantizedBytes, gpuDequantizedBytes = was[0], was[1] }()
	EachDevice(t, func(t *testing.T, d *Device) {
		rows := 9
		if d.IsCPU() {
			rows = maxGateUpRows + 3 // sums of more are not kept at once
		}
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
			for _, add := range []bool{false, true} {
				var w, bias, y, wantY, dy, dx, want, x2, w2, a2 tensor.Tensor
				lay := func(a *Arena) {
					w, dy = a.New("w", tensor.INT8, out, in), a.New("dy", dtype, rows, out)
					dx, want = a.New("dx", dtype, rows, in), a.New("want", tensor.F32, rows, in)
					bias = a.New("bias", dtype, out)
					y, wantY = a.New("y", dtype, rows, out), a.New("wantY", tensor.F32, rows, out)
					x2, w2, a2 = a.New("x2", dtype, rows, rank), a.New("w2", dtype, out, rank), a.New("a2", dtype, rank, in)
				}
				a, err := d.NewArena("test", SizeOf(lay))
				expect.OK(t, err)
				lay(a)
				raw := make([]byte, w.Bytes())
				expect.OK(t, quant.INT8.Quantize(raw, Waves(out*in), in))
				d.UploadBytes(w, raw)
				d.Upload(dy, Waves(dy.Len()))
				d.Upload(dx, Waves(dx.Len()))
				var pair, back []Pair
				if add {
					for _, x := range []tensor.Tensor{x2, w2, a2} {
						d.Upload(x, Waves(x.Len()))
					}
					pair, back = []Pair{{x2, w2}}, []Pair{{x2, a2}}
				}
				dequantizedBytes, gpuDequantizedBytes = was[0], was[1]
				d.LinearBackward(want, dy, w, false, back...)
				d.Upload(bias, Waves(out))
				d.Linear(wantY, dx, w, bias, pair...)
				dequantizedBytes, gpuDequantizedBytes = 0, 0
				d.Linear(y, dx, w, bias, pair...)
				compareParts(t, fmt.Sprintf("%v, forward", dtype), d, y, wantY, false)
				if add {
					d.LinearBackward(dx, dy, w, false, back...)
				}
				d.LinearBackward(dx, dy, w, add, back...)
				compareParts(t, fmt.Sprintf("%v, added %t", dtype, add), d, dx, want, add)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// compareParts requires that dx is want, or twice that, rounded to its type.
func compareParts(t *testing.T, name string, d *Device, dx, want tensor.Tensor, twice bool) {
	got, err := d.Floats(dx)
	expect.OK(t, err)
	values, err := d.Floats(want)
	expect.OK(t, err)
	limit := map[tensor.DType]float64{tensor.F32: 0x1p-20, tensor.BF16: 0x1p-8, tensor.F16: 0x1p-11}[dx.DType]
	for i, v := range values {
		exact := float64(v)
		if twice {
			exact *= 2 // which rounds as v does
		}
		if !(math.Abs(float64(got[i])-exact) <= limit*math.Abs(exact)+2e-5) {
			t.Fatalf("%s: element %d is %v, not %v", name, i, got[i], exact)
		}
	}
}
