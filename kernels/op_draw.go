package kernels

import (
	"math"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// A Draw says how a token is drawn from a row of logits. The zero Draw takes the highest logit, or the first of several
// equal ones. Otherwise logits are divided by Temperature, and filters keep the first candidates in the order of TopK:
// all that are not below candidate number TopK, then as many as it takes for their probabilities to add up to TopP, at
// least one, then the candidates that are at least MinP times as probable as the first one. A filter that is 0 keeps
// all, and so does a TopP of 1. The token is the first, by id, up to which the probabilities of the remaining
// candidates add up to more than Uniform, which is from 0 to 1.
type Draw struct {
	TopP, MinP, Uniform float64
	Temperature         float32
	TopK                int32
}

// DrawWords is the number of I32 elements of a Draw.
const DrawWords = 8

// Append appends the elements of a Draw.
func (w Draw) Append(to []int32) []int32 {
	for _, x := range [3]float64{w.TopP, w.MinP, w.Uniform} {
		bits := math.Float64bits(x)
		to = append(to, int32(bits), int32(bits>>32))
	}
	return append(to, int32(math.Float32bits(w.Temperature)), w.TopK)
}

// Draw draws a token from each row of logits. ids is [rows] I32, logits [rows, vocab] F32, and draws [rows, DrawWords]
// I32, at an address that is a multiple of 8.
//
// An id is the one that any computation by the formula finds, whatever the order of its sums, as long as each of its
// weights exp(score - highest score) is within 2⁻⁴⁰, relatively, of package infer's. If a sum is so close to a border
// between two tokens that the order could matter, the id is -1. It is also -1 if a logit is NaN or +Inf or all are
// -Inf, and if more than 1024 equal candidates are at the border of TopP or TopP is below 2⁻⁴⁴. With any Temperature
// but 0, it is -1 in rows of more than 2¹⁹ logits, and on a CPU, where the logits are at hand.
//
// On a GPU weights are rounded down to multiples of 2⁻⁴⁴. Their sums are exact in any order, and off by no more than
// 2⁻⁴⁴ per candidate; sums of n float64 are off by n·2⁻⁵³ of the whole.
func (d *Device) Draw(ids, logits, draws tensor.Tensor) {
	const op = "Draw"
	vocab := logits.Dim(-1)
	want(op, "logits", logits, tensor.F32, logits.Rows(), vocab)
	want(op, "ids", ids, tensor.I32, logits.Rows())
	want(op, "draws", draws, tensor.I32, logits.Rows(), DrawWords)
	d.ran("draw")
	if d.gpu != nil {
		d.launch(kernel{"op_draw.cu", "draw", vectorsOf(logits.Matrix())}, topKGrid(logits), addr(ids), addr(logits),
			addr(draws), i32(vocab))
		return
	}
	id, x, greedy := ids.I32(), logits.F32(), func(r int) bool { return draws.I32()[r*DrawWords+6] == 0 }
	for r := range id {
		if id[r] = -1; !greedy(r) {
			continue
		}
		cpu.TopK(tensor.Tensor{}, ids.Slice(r, r+1), logits.Slice(r, r+1), 1)
		if highest := x[r*vocab+int(id[r])]; highest-highest != 0 { // a NaN or an infinity comes first
			id[r] = -1
		}
	}
}
