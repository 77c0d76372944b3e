package optim

import (
	"math"

	"restyle/kernels"
	"restyle/model"
)

// Norm is the global norm of all gradients, ‖g‖ over every element of every trained parameter. It waits for the device,
// and returns its error. A gradient that is not finite makes it so too.
func Norm(d *kernels.Device, params []model.Param) (float64, error) {
	var sum float64
	for _, p := range params {
		if p.Trained() {
			sum += d.SumSquares(p.Grad)
		}
	}
	return math.Sqrt(sum), d.Sync()
}

// Clip is the scale that brings a gradient of this norm down to limit, and 1 where it is smaller or limit is 0:
// min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it.
func Clip(norm, limit float64) float64 {
	if limit <= 0 {
		return 1
	}
	return math.Min(1, limit/(norm+1e-6))
}
