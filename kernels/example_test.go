package kernels_test

import (
	"fmt"

	"restyle/kernels"
	"restyle/tensor"
)

// One operation on your own tensors: open a device, allocate, upload values, run the operation, read the result.
func Example() {
	d, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	const rows, dim = 1, 4
	var x, w, y, rstd tensor.Tensor
	cut := func(a *kernels.Arena) {
		x, w = a.New("x", tensor.F32, rows, dim), a.New("w", tensor.F32, dim)
		y, rstd = a.New("y", tensor.F32, rows, dim), a.New("rstd", tensor.F32, rows)
	}
	a, err := d.NewArena("example", kernels.SizeOf(cut))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	cut(a)

	d.Upload(x, []float32{1, -1, 3, -3})
	d.Upload(w, []float32{1, 1, 1, 2})
	d.RMSNorm(y, rstd, x, w, 0)
	got, err := d.Floats(y)
	fmt.Printf("%.3f %v\n", got, err)
	// Output: [0.447 -0.447 1.342 -2.683] <nil>
}
