package optim

import "restyle/kernels"

// A step may also be taken in parts, where the gradients of one block at a time are there: AddSquares for each block, Decide, once
// more each block's gradients for MoveLayer, and End. Blocks are those of model.Param, and model.Outside.

// AddSquares adds what the gradients of a block add to the square of the norm.
func (o *AdamW) AddSquares(block int) {
	defer o.dev.Range("optimizer")()
	if list := o.layers[block]; list != nil {
		o.dev.AddSquaresAll(o.control, list)
	}
}

// Decide says what becomes of the step: see Step.
func (o *AdamW) Decide(limit float64) { o.dev.Decide(o.control, limit) }

// MoveLayer moves the parameters of a block, if the step is taken.
func (o *AdamW) MoveLayer(block int, lr float64) {
	defer o.dev.Range("optimizer")()
	if list := o.layers[block]; list != nil {
		o.move(list, lr, o.control)
	}
}

// End waits for the step and returns what it came to.
func (o *AdamW) End() (kernels.Record, error) {
	r, err := o.dev.Record(o.control)
	o.dev.Begin(o.control)
	if r.Taken {
		o.step++
	}
	return r, err
}
