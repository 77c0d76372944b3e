package kernels

import (
	"math"
	"unsafe"

	"restyle/tensor"
)

// A Control holds, on the device, what decides a training step: the sums of losses and squares, and from them the
// gradient's scale and whether the step is taken. So the host waits only once per step, for its StepResult.
type Control struct {
	x tensor.Tensor // F64: loss, squares, scale, and 1 if the step is taken
}

// A StepResult is the result of a step.
type StepResult struct {
	Loss  float64 // sum of the added losses
	Norm  float64 // global norm of the gradient before clipping
	Scale float64 // factor of the gradient: less than unscale if it was clipped
	Taken bool    // whether the weights were updated: loss and norm are finite
}

// NewControl allocates a Control in an arena.
func NewControl(a *Arena) Control { return Control{a.New("control", tensor.F64, 4)} }

// Loss is the sum of the losses, F64 [1].
func (c Control) Loss() tensor.Tensor { return c.x.Part(0, 1) }

// Begin starts a step: it resets the sums of c.
func (d *Device) Begin(c Control) { d.Zero(c.x) }

// controlThreads is the number of threads of the single block of a Control's kernels.
const controlThreads = 1024

// AddLoss adds losses, F32, to c. It sums in float64, in an order that depends only on their number.
func (d *Device) AddLoss(c Control, losses tensor.Tensor) { d.AddLossTo(c.Loss(), losses) }

// AddLossTo is AddLoss for any sum, F64 [1].
func (d *Device) AddLossTo(sum, losses tensor.Tensor) {
	want("AddLoss", "sum", sum, tensor.F64, 1)
	want("AddLoss", "losses", losses, tensor.F32, losses.Len())
	d.ran("add_loss")
	if d.gpu != nil {
		d.launch(kernel{"step_control.cu", "add_loss", macros{}}, line(1, controlThreads), addr(sum), addr(losses),
			i32(losses.Len()))
		return
	}
	added := 0.0
	for _, x := range losses.F32() {
		added += float64(x)
	}
	sum.F64()[0] += added
}

// AddSums adds sums of squares, F64, to c's, in an order that depends only on their number: see SquaresAll.
func (d *Device) AddSums(c Control, sums tensor.Tensor) {
	want("AddSums", "sums", sums, tensor.F64, sums.Len())
	d.ran("add_sums")
	if d.gpu != nil {
		d.launch(kernel{"step_control.cu", "add_sums", macros{}}, line(1, controlThreads), addr(c.x), addr(sums),
			i32(sums.Len()))
		return
	}
	sum := 0.0
	for _, x := range sums.F64() {
		sum += x
	}
	c.x.F64()[1] += sum
}

// Decide decides a step from the gradient's norm and the norm to clip to (Pascanu et al. 2013), 0 for no clipping:
//
//	norm = unscale · √(sum of squares)
//	scale = unscale · min(1, limit / (norm + 1e-6))
//
// as torch.nn.utils.clip_grad_norm_ computes it. unscale is one over the factor that the loss was multiplied by,
// usually 1. The step is taken if loss and norm are finite. Then norm² replaces the sum of squares.
func (d *Device) Decide(c Control, limit, unscale float64) {
	d.ran("decide")
	if d.gpu != nil {
		d.launch(kernel{"step_control.cu", "decide", macros{}}, line(1, controlThreads), addr(c.x), f64(limit), f64(unscale))
		return
	}
	x := c.x.F64()
	x[1] *= unscale * unscale
	norm := math.Sqrt(x[1])
	x[2], x[3] = unscale, 0
	if limit > 0 {
		x[2] *= math.Min(1, limit/(norm+1e-6))
	}
	if finite(x[0]) && finite(norm) {
		x[3] = 1
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Result waits for the step and returns its result, or the device's first error.
func (d *Device) Result(c Control) (StepResult, error) {
	var x [4]float64
	err := d.DownloadBytes(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), c.x.Bytes()), c.x)
	return StepResult{Loss: x[0], Norm: math.Sqrt(x[1]), Scale: x[2], Taken: x[3] == 1}, err
}
