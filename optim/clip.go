package optim

import (
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Norm is the global norm of all gradients, ‖g‖ over every element of every trained parameter. It waits for the device,
// and returns its error. A gradient that is not finite makes it so too.
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
	r, err := dev.Record(c)
	return r.Norm, err
}
