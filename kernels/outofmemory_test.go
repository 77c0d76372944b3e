package kernels

import (
	"errors"
	"fmt"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
)

// TestOutOfMemory checks for a table of who uses a GPU's memory, this process's arenas and other processes, and that
// only the one arena fails: a smaller one fits.
func TestOutOfMemory(t *testing.T) {
	cudatest.Use(t, "libcuda", "libnvrtc")
	t.Setenv("STANDIN_USED", "102400") // of 1 MiB
	d, err := Open("cuda", Options{OwnProducts: true})
	expect.OK(t, err)
	var arenas []*Arena
	for _, n := range []int{100, 300, 100} {
		a, err := d.NewArena(fmt.Sprintf("weights of %d", n), n<<10)
		expect.OK(t, err)
		arenas = append(arenas, a)
	}
	_, err = d.NewArena("gradients", 500<<10)
	var e *OutOfMemory
	if !errors.As(err, &e) || e.Reach() != 1<<20 || e.Want != 500<<10 || e.Free != 424<<10 || e.Total != 1<<20 {
		t.Fatalf("%+v, %v", e, err)
	}
	var cause *cuda.Error
	if !errors.As(err, &cause) || !cause.OutOfMemory() || cuda.Fault(err) {
		t.Errorf("%v", cause)
	}
	want := `memory for gradients: 500.0 KiB on cuda:0: allocate 512000 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory
  weights of 300                     300.0 KiB
  weights of 100                     200.0 KiB
  other processes, the driver        100.0 KiB
  free                               424.0 KiB
  in all                               1.0 MiB`
	if err.Error() != want {
		t.Errorf("%s\nnot\n%s", err, want)
	}
	smaller, err := d.NewArena("gradients", 424<<10)
	if err != nil || d.Err() != nil {
		t.Error(err, d.Err())
	}
	for _, a := range append(arenas, smaller) {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
