package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// CrossEntropy computes the loss of every row's logits, in nats, and its gradient. With p = softmax(logits[r]) and t =
// targets[r]:
//
//	loss[r] = log Σᵢ exp(logits[r,i]) − logits[r,t]
//	dlogits[r,i] = (p[i] − [i = t]) · scale
//
// logits is [rows, vocab], loss is [rows] F32, targets is [rows] I32. scale applies only to the gradient, not to the
// loss: usually one over the number of target tokens. dlogits is F32, BF16 or F16, whatever the type of the logits, and
// is rounded once. It may be the logits themselves, which it then overwrites, or the zero Tensor to skip the gradient.
// Logits of −∞ are impossible tokens; a NaN makes the row's loss and gradient NaN. A target that is not a column is a
// programming error.
//
// Fused ("crossentropy") it is one kernel that stores only the row's maximum and sum. Unfused, one kernel each:
// log-softmax into F32 scratch memory of the logits' shape, the loss, and the gradient.
func (d *Device) CrossEntropy(loss, dlogits, logits, targets tensor.Tensor, scale float32) {
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
		d.crossEntropy(loss, dlogits, logits, targets, scale)
		return
	}
	defer d.release(d.mark())
	l := crossEntropyScratch(d.scratch, logits.Rows(), logits.Dim(-1))
	d.logSoftmax(l, logits)
	d.nll(loss, l, targets)
	if dlogits.Ok() {
		d.nllBackward(dlogits, l, targets, scale)
	}
}

func (d *Device) crossEntropy(loss, dlogits, logits, targets tensor.Tensor, scale float32) {
	d.ran("crossentropy")
	if d.gpu == nil {
		cpu.CrossEntropy(loss, dlogits, logits, targets, scale)
		return
	}
	d.launch(kernel{"op_crossentropy.cu", "cross_entropy", lossMacros(logits, dlogits)}, line(logits.Rows(), lossThreads),
		addr(loss), addr(dlogits), addr(logits), addr(targets), i32(logits.Dim(-1)), f32(scale))
}

func (d *Device) logSoftmax(y, logits tensor.Tensor) {
	d.ran("logsoftmax")
	if d.gpu == nil {
		cpu.LogSoftmax(y, logits)
		return
	}
	d.launch(kernel{"op_crossentropy.cu", "log_softmax", lossMacros(logits, y)}, line(logits.Rows(), lossThreads),
		addr(y), addr(logits), i32(y.Dim(-1)))
}

func (d *Device) nll(loss, logp, targets tensor.Tensor) {
	d.ran("nll")
	if d.gpu == nil {
		cpu.NLL(loss, logp, targets)
		return
	}
	d.launch(kernel{"op_crossentropy.cu", "nll", lossMacros(logp, logp)},
		line(blocks(logp.Rows(), lossThreads), lossThreads),
		addr(loss), addr(logp).moves(loss.Bytes()), addr(targets), i32(logp.Dim(-1)), i32(logp.Rows()))
}

func (d *Device) nllBackward(dlogits, logp, targets tensor.Tensor, scale float32) {
	d.ran("nll_backward")
	if d.gpu == nil {
		cpu.NLLBackward(dlogits, logp, targets, scale)
		return
	}
	d.launch(kernel{"op_crossentropy.cu", "nll_backward", lossMacros(logp, dlogits)}, line(logp.Rows(), lossThreads),
		addr(dlogits), addr(logp), addr(targets), i32(logp.Dim(-1)), f32(scale))
}

// lossThreads is the number of threads of the block that handles a row.
const lossThreads = 1024

// lossMacros returns the macros for rows that are read from one tensor and, unless to is the zero Tensor, written to
// another: the smaller type decides the vector width.
func lossMacros(from, to tensor.Tensor) macros {
	if !to.DType.Half() {
		return vectorsOf(from.Matrix())
	}
	wide := width(to.DType, from.Dim(-1))
	return define(macro{from.DType.String(), 1}, macro{"WIDTH", wide}, macro{"TO_" + to.DType.String(), 1})
}

// crossEntropyScratch lays out the log-probabilities of the unfused form.
func crossEntropyScratch(cut cut, rows, vocab int) tensor.Tensor {
	return cut("log-softmax", tensor.F32, rows, vocab)
}
