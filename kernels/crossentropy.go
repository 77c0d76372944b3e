package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// CrossEntropy is the loss of every row's logits, in nats, and their gradient. With p = softmax(logits[r]) and t = targets[r]:
//
//	loss[r] = log Σᵢ exp(logits[r,i]) − logits[r,t]
//	dlogits[r,i] = (p[i] − [i = t]) · scale
//
// logits is [rows, vocab], loss is [rows] F32, targets is [rows] I32. The loss is not scaled; scale is the gradient's: one
// over the number of trained tokens as a rule. dlogits is F32 or BF16, whatever the logits are, and rounded once; it may be
// the logits themselves, whose place it takes, or no tensor, and then there is none. Logits of −∞ are tokens that cannot be;
// a NaN makes the row's loss and gradient NaN. A target that is no column is a mistake of the program.
//
// Fused ("crossentropy") it is one kernel that keeps nothing but the row's maximum and sum. Unfused: log-softmax into F32
// scratch memory of the logits' shape, the loss, and the gradient, one kernel each.
func (d *Device) CrossEntropy(loss, dlogits, logits, targets tensor.Tensor, scale float32) {
	d.onlyCPU("CrossEntropy")
	const op = "CrossEntropy"
	floating(op, "logits", logits)
	want(op, "loss", loss, tensor.F32, logits.Rows())
	want(op, "targets", targets, tensor.I32, logits.Rows())
	if dlogits.Ok() {
		floating(op, "dlogits", dlogits)
		want(op, "dlogits", dlogits, dlogits.DType, logits.Len())
	}
	d.within(op, "targets", targets, logits.Dim(-1))
	if d.fused("crossentropy") {
		d.ran("crossentropy")
		cpu.CrossEntropy(loss, dlogits, logits, targets, scale)
		return
	}
	defer d.release(d.mark())
	l := crossEntropyScratch(d.scratch, logits.Rows(), logits.Dim(-1))
	d.ran("logsoftmax")
	cpu.LogSoftmax(l, logits)
	d.ran("nll")
	cpu.NLL(loss, l, targets)
	if dlogits.Ok() {
		d.ran("nll_backward")
		cpu.NLLBackward(dlogits, l, targets, scale)
	}
}

// crossEntropyScratch lays out the logarithms of probabilities for the unfused body.
func crossEntropyScratch(cut cut, rows, vocab int) tensor.Tensor {
	return cut("log-softmax", tensor.F32, rows, vocab)
}
