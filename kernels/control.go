package kernels

import (
	"math"
	"unsafe"

	"restyle/tensor"
)

// A Control is what a training step decides where its numbers are, on the device, so that the host waits once a step, for the
// Record of it: the losses and squares that are added up, and what follows from them for the weights.
type Control struct {
	x tensor.Tensor // F64: loss, squares, scale, and 1 where the step is taken
}

// A Record is what a step came to.
type Record struct {
	Loss  float64 // sum of the losses that were added
	Norm  float64 // of the gradient, before it was clipped
	Scale float64 // of the gradient: less than 1 where it was clipped
	Taken bool    // the weights moved: loss and norm are finite
}

// NewControl cuts a Control from an arena.
func NewControl(a *Arena) Control { return Control{a.New("control", tensor.F64, 4)} }

// Begin is the beginning of a step: nothing is added up yet.
func (d *Device) Begin(c Control) { d.Zero(c.x) }

// controlThreads are those of the one block that a kernel for a Control has.
const controlThreads = 1024

// AddLoss adds losses, F32, in float64 and in an order that their number alone decides.
func (d *Device) AddLoss(c Control, losses tensor.Tensor) {
	want("AddLoss", "losses", losses, tensor.F32, losses.Len())
	d.ran("add_loss")
	if d.gpu != nil {
		d.launch(kernel{"control.cu", "add_loss", macros{}}, line(1, controlThreads), addr(c.x), addr(losses), i32(losses.Len()))
		return
	}
	sum := 0.0
	for _, x := range losses.F32() {
		sum += float64(x)
	}
	c.x.F64()[0] += sum
}

// Decide says what becomes of a step from its norm, the root of the squares, and the limit that it is clipped to (Pascanu et
// al. 2013), 0 for none:
//
//	scale = min(1, limit / (norm + 1e-6))
//
// as torch.nn.utils.clip_grad_norm_ has it. The step is taken if loss and norm are finite.
func (d *Device) Decide(c Control, limit float64) {
	d.ran("decide")
	if d.gpu != nil {
		d.launch(kernel{"control.cu", "decide", macros{}}, line(1, controlThreads), addr(c.x), f64(limit))
		return
	}
	x := c.x.F64()
	norm := math.Sqrt(x[1])
	x[2], x[3] = 1, 0
	if limit > 0 {
		x[2] = math.Min(1, limit/(norm+1e-6))
	}
	if finite(x[0]) && finite(norm) {
		x[3] = 1
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Record waits for the step and reads what it came to. It returns the device's first error.
func (d *Device) Record(c Control) (Record, error) {
	var x [4]float64
	err := d.DownloadBytes(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), c.x.Bytes()), c.x)
	return Record{Loss: x[0], Norm: math.Sqrt(x[1]), Scale: x[2], Taken: x[3] == 1}, err
}
