package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// CrossEntropy is the loss of every row's logits, in nats, and their gradient. With p = softmax(logits[r]) and t = targets[r]:
//
//	loss[r] = log Σᵢ exp(logits[r,i]) − logits[r,t]
//	logits[r,i] ← (p[i] − [i = t]) · scale    where gradient is true
//
// logits is [rows, vocab], loss is [rows] F32, targets is [rows] I32. The loss is not scaled; scale is the gradient's: one
// over the number of trained tokens as a rule. The gradient takes the logits' place, rounded to their type once. Logits of
// −∞ are tokens that cannot be; a NaN makes the row's loss and gradient NaN. A target that is no column is a mistake of the
// program.
//
// Fused ("crossentropy") it is one kernel that keeps nothing but the row's maximum and sum. Unfused: log-softmax into F32
// scratch memory of the logits' shape, the loss, and the gradient, one kernel each.
func (d *Device) CrossEntropy(loss, logits, targets tensor.Tensor, scale float32, gradient bool) {
	const op = "CrossEntropy"
	floating(op, "logits", logits)
	want(op, "loss", loss, tensor.F32, logits.Rows())
	want(op, "targets", targets, tensor.I32, logits.Rows())
	d.within(op, "targets", targets, logits.Dim(-1))
	if d.fused("crossentropy") {
		d.ran("crossentropy")
		cpu.CrossEntropy(loss, logits, targets, scale, gradient)
		return
	}
	defer d.release(d.mark())
	l := d.scratch("log-softmax", tensor.F32, logits.Rows(), logits.Dim(-1))
	d.ran("logsoftmax")
	cpu.LogSoftmax(l, logits)
	d.ran("nll")
	cpu.NLL(loss, l, targets)
	if gradient {
		d.ran("nll_backward")
		cpu.NLLBackward(logits, l, targets, scale)
	}
}
