package kernels

import "restyle/tensor"

// opsCases returns the cases of the loss, of the step's control and of operations that move rows.
func opsCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	pieces := []int{(rows + 3) / 4, 128256 + dim%2} // of logits
	loss, logits := gpuOperand{tensor.F32, pieces[:1], 1}, gpuOperand{tensor.F32, pieces, 1}
	targets, dlogits := gpuOperand{tensor.I32, pieces[:1], 1}, gpuOperand{t, pieces, 1}
	control := gpuOperand{tensor.F64, []int{4}, 2}
	perRow := gpuOperand{tensor.F32, []int{rows}, 1}
	many := []int{max(rows, 2*embeddingPiece), dim}                                    // more than a thread block adds up
	ids, table := gpuOperand{tensor.I32, many[:1], 1}, gpuOperand{tensor.F32, many, 2} // all ids are different
	bias := gpuOperand{t, []int{dim}, 2}
	cases := []gpuCase{
		{"embedding backward", []gpuOperand{table, {t, many, 1}, ids}, func(d *Device, x []tensor.Tensor) {
			d.EmbeddingBackward(x[0], x[1], x[2], -1)
		}},
		{"add squares", []gpuOperand{control, full(1)}, func(d *Device, x []tensor.Tensor) {
			d.AddSquares(Control{x[0]},
				x[1])
		}},
		{"decide", []gpuOperand{control, perRow}, func(d *Device, x []tensor.Tensor) {
			d.AddLoss(Control{x[0]}, x[1])
			d.Decide(Control{x[0]}, 1, 1)
		}},
		{"cross-entropy", []gpuOperand{loss, dlogits, logits, targets}, func(d *Device, x []tensor.Tensor) {
			d.CrossEntropy(x[0], x[1], x[2], x[3], 1)
		}},
		{"bias backward", []gpuOperand{bias, full(1)}, func(d *Device, x []tensor.Tensor) { d.BiasGradient(x[0], x[1], 0) }},
	}
	if dim%64 == 0 && dim > 128 {
		heads := dim/64 - 2
		w, dw, rstd := gpuOperand{t, []int{64}, 1}, gpuOperand{tensor.F32, []int{64}, 2},
			gpuOperand{tensor.F32, []int{rows, heads + 1}, 1}
		cases = append(cases,
			gpuCase{"qknorm forward", []gpuOperand{full(1), rstd, full(1), w, w}, func(d *Device, x []tensor.Tensor) {
				d.QKNorm(x[0], x[1], x[2], x[3], x[4], heads, 1, 1e-6)
			}},
			gpuCase{"qknorm backward", []gpuOperand{full(1), dw, dw, full(1), full(1), w, w, rstd},
				func(d *Device, x []tensor.Tensor) {
					d.QKNormBackward(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], heads, 1)
				}})
	}
	return cases
}
