package kernels

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// TestComm_OfOne sums on a GPU that is alone, where a sum leaves everything as it is. cmd/train tests several ranks.
func TestComm_OfOne(t *testing.T) {
	name := cmp.Or(os.Getenv("RESTYLE_TEST_DEVICE"), "emulated")
	if name == "cpu" {
		t.Skip("the CPU's ranks are no GPUs")
	}
	cudatest.Once(t)
	d, err := Open(name, Options{OwnProducts: true})
	cudatest.Opened(t, d, err)
	c, _, err := d.OpenComm(0, 1, func(id []byte) ([]byte, error) { return id, nil })
	if err != nil {
		t.Fatal(err)
	}
	arena, err := d.NewArena("sums", 3*align)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	var list []tensor.Tensor
	for _, dtype := range []tensor.DType{tensor.F32, tensor.BF16} {
		list = append(list, arena.New("x", dtype, 5))
		d.Upload(list[len(list)-1], []float32{1, 2, -3, 4, 0.5})
	}
	c.Sum(list...)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if got, err := d.Floats(x); err != nil || !slices.Equal(got, []float32{1, 2, -3, 4, 0.5}) {
			t.Errorf("%v: %v, %v", x, got, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
