package kernels

import (
	"bytes"
	"testing"

	"restyle/internal/expect"
	"restyle/quant"
	"restyle/tensor"
)

// TestPair_ZeroChangesNoBit computes layers, of few rows and many, of whole words and not, and the gradients of their
// inputs with a pair whose product is zero, and without.
func TestPair_ZeroChangesNoBit(t *testing.T) {
	EachDeviceAndEmulated(t, func(t *testing.T, d *Device) {
		sizes := [][4]int{{3, 136, 72, 8}, {40, 136, 72, 8}, {40, 33, 17, 5}}
		if d.IsCPU() { // after k-blocks that have room for the pair, or nearly
			sizes = append(sizes, [4]int{37, 576, 40, 24}, [4]int{40, 960, 72, 16}, [4]int{40, 208, 40, 40},
				[4]int{96, 176, 960, 16})
		}
		for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
			for _, size := range sizes {
				compareZeroPair(t, d, dtype, dtype, size)
			}
			compareZeroPair(t, d, dtype, tensor.INT8, [4]int{3, 136, 72, 8})
		}
	})
}

// compareZeroPair takes the rows, inputs and outputs of a layer, and the rank of its pair.
func compareZeroPair(t *testing.T, d *Device, dtype, weights tensor.DType, size [4]int) {
	t.Helper()
	rows, in, out, rank := size[0], size[1], size[2], size[3]
	var x, w, bias, y, dx, x2, w2, zeroX, zeroW tensor.Tensor
	lay := func(a *Arena) {
		x, w, bias = a.New("x", dtype, rows, in), a.New("w", weights, out, in), a.New("bias", dtype, out)
		y, dx = a.New("y", dtype, rows, out), a.New("dx", dtype, rows, in)
		x2, w2 = a.New("x2", dtype, rows, rank), a.New("w2", dtype, rank, in)
		zeroX, zeroW = a.New("no x2", dtype, rows, rank), a.New("no w2", dtype, out, rank)
	}
	a, err := d.NewArena("test", SizeOf(lay))
	expect.OK(t, err)
	defer a.Close()
	lay(a)
	for _, some := range []tensor.Tensor{x, bias, x2, w2} {
		d.Upload(some, Waves(some.Len()))
	}
	if weights == dtype {
		d.Upload(w, Waves(w.Len()))
	} else {
		raw := make([]byte, w.Bytes())
		expect.OK(t, quant.INT8.Quantize(raw, Waves(out*in), in))
		d.UploadBytes(w, raw)
	}
	d.Zero(zeroX)
	d.Zero(zeroW)
	result := func(of tensor.Tensor) []byte {
		b := make([]byte, of.Bytes())
		expect.OK(t, d.DownloadBytes(b, of))
		return b
	}
	d.Linear(y, x, w, bias)
	want := result(y)
	d.Linear(y, x, w, bias, Pair{x2, zeroW})
	if !bytes.Equal(result(y), want) {
		t.Errorf("%v by %v %v: another output", dtype, weights, size)
	}
	d.LinearBackward(dx, y, w, false)
	want = result(dx)
	d.LinearBackward(dx, y, w, false, Pair{zeroX, w2})
	if !bytes.Equal(result(dx), want) {
		t.Errorf("%v by %v %v: another gradient", dtype, weights, size)
	}
}
