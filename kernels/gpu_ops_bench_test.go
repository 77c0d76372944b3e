package kernels

import "restyle/tensor"

// opsCases are those of the loss, of the step's control and of what moves rows.
func opsCases(t tensor.DType, rows, dim int) []gpuCase {
	full := func(moved int) gpuOperand { return gpuOperand{t, []int{rows, dim}, moved} }
	pieces := []int{(rows + 3) / 4, 128256 + dim%2} // of logits
	loss, logits := gpuOperand{tensor.F32, pieces[:1], 1}, gpuOperand{tensor.F32, pieces, 1}
	targets, dlogits := gpuOperand{tensor.I32, pieces[:1], 1}, gpuOperand{t, pieces, 1}
	control := gpuOperand{tensor.F64, []int{4}, 2}
	perRow := gpuOperand{tensor.F32, []int{rows}, 1}
	many := []int{max(rows, 2*embeddingPiece), dim}                                    // more than a block adds up
	ids, table := gpuOperand{tensor.I32, many[:1], 1}, gpuOperand{tensor.F32, many, 2} // all ids are different
	return []gpuCase{
		{"embedding backward", []gpuOperand{table, {t, many, 1}, ids}, func(d *Device, x []tensor.Tensor) {
			d.EmbeddingBackward(x[0], x[1], x[2], -1)
		}},
		{"add squares", []gpuOperand{control, full(1)}, func(d *Device, x []tensor.Tensor) { d.AddSquares(Control{x[0]}, x[1]) }},
		{"decide", []gpuOperand{control, perRow}, func(d *Device, x []tensor.Tensor) {
			d.AddLoss(Control{x[0]}, x[1])
			d.Decide(Control{x[0]}, 1)
		}},
		{"cross-entropy", []gpuOperand{loss, dlogits, logits, targets}, func(d *Device, x []tensor.Tensor) {
			d.CrossEntropy(x[0], x[1], x[2], x[3], 1)
		}},
	}
}
