package kernels

import (
	"fmt"
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Dropout zeroes a random share of the elements of x, and enlarges the others (Srivastava et al. 2014):
//
//	y = x / (1 - rate)    or    y = 0 with probability rate
//
// Both are of one type and length; y may be x. Which elements are 0 depends only on key and an element's number modulo
// 2³², on every device and with any number of threads. The same key repeats them, as the gradient needs, which is
// Dropout of dy. rate is at least 0 and less than 1, and is rounded to a multiple of 2⁻³².
func (d *Device) Dropout(y, x tensor.Tensor, rate float64, key uint64) {
	const op = "Dropout"
	floating(op, "x", x)
	want(op, "y", y, x.DType, x.Len())
	if !(rate >= 0 && rate < 1) {
		panic(fmt.Sprintf("%s: rate %v: must be at least 0 and less than 1", op, rate))
	}
	d.ran("dropout")
	below, scale := uint32(min(rate*(1<<32), math.MaxUint32)), float32(1/(1-rate))
	if d.gpu == nil {
		cpu.Dropout(y.View(x.Shape...), x, int(below), scale, int(key))
		return
	}
	n := vectors(x.Matrix())
	d.launch(kernel{"op_dropout.cu", "dropout", vectorsOf(x.Matrix())}, each(n), addr(y), addr(x), i64(n), i64(int(below)),
		f32(scale), i64(int(key)))
}
