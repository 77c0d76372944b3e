package optim

import (
	"restyle/kernels"
	"restyle/tensor"
)

// A step may also be taken layer by layer, with only one layer's gradients in memory at a time: AddSquares for each
// layer, Decide, then UpdateLayer for each layer, whose gradients must be computed again, and End. Layers are numbered
// as in model.Param, and include model.Outside.

// AddSquares adds the squares of a layer's gradients to the square of the global norm.
func (o *AdamW) AddSquares(layer int) {
	defer o.dev.Range("optimizer")()
	if list := o.layers[layer]; list != nil {
		o.dev.SquaresAll(list)
	}
}

// Square computes the squares of all gradients in this rank's ranges, into Squares.
func (o *AdamW) Square() { o.dev.SquaresAll(o.all) }

// Squares returns partial sums of the squares of all gradients, F64 on the device. The partial sums for other ranks'
// ranges are 0 before Decide, which needs the sums over all ranks: each adds a number and zeros, so its order changes
// nothing.
func (o *AdamW) Squares() tensor.Tensor { return o.squares }

// Decide decides whether the step is taken, and how far it is clipped: see Step.
func (o *AdamW) Decide(limit float64) {
	o.dev.AddSums(o.control, o.squares)
	o.dev.Decide(o.control, limit, o.Scaler.unscale())
}

// UpdateLayer updates the parameters of a layer, if the step is taken.
func (o *AdamW) UpdateLayer(layer int, lr float64) {
	defer o.dev.Range("optimizer")()
	if list := o.layers[layer]; list != nil {
		o.update(list, lr, o.control)
	}
}

// End waits for the step and returns its result. It tells the Scaler, if there is one, whether the step was taken.
func (o *AdamW) End() (kernels.StepResult, error) {
	r, err := o.dev.Result(o.control)
	o.begin()
	if r.Taken {
		o.step++
	}
	if o.Scaler != nil && err == nil {
		o.Scaler.Update(!r.Taken)
	}
	return r, err
}
