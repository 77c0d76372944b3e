package optim

import (
	"errors"

	"restyle/kernels"
	"restyle/model"
)

// Norm is the global norm of all gradients, ‖g‖ over every element of every trained parameter. It waits for the device,
// and returns its error. A gradient that is not finite makes it so too.
func Norm(d *kernels.Device, params []model.Param) (norm float64, err error) {
	a, err := d.NewArena("norm", kernels.SizeOf(func(a *kernels.Arena) { kernels.NewControl(a) }))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	c := kernels.NewControl(a)
	d.Begin(c)
	for _, p := range params {
		if p.Trainable() {
			d.AddSquares(c, p.Grad)
		}
	}
	r, err := d.Record(c)
	return r.Norm, err
}
