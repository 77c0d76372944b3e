package optim

import (
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Norm returns the global norm of all gradients: ‖g‖ over every element of every trainable parameter. It waits for the
// device, and returns its error. If a gradient is not finite, neither is the norm.
func Norm(dev *kernels.Device, params []model.Param) (norm float64, err error) {
	arena, err := dev.NewArena("norm", kernels.SizeOf(func(arena *kernels.Arena) { kernels.NewControl(arena) }))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	c := kernels.NewControl(arena)
	dev.Begin(c)
	for _, p := range params {
		if p.Trainable() {
			dev.AddSquares(c, p.Grad)
		}
	}
	r, err := dev.Result(c)
	return r.Norm, err
}
