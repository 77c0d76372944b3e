package kernels

import (
	"testing"

	"restyle/internal/expect"
	"restyle/tensor"
)

// TestProfileOnCPU checks that the operations of a CPU are timed with Sync, each by its name, products with their
// FLOPs, and that nothing is timed without it.
func TestProfileOnCPU(t *testing.T) {
	for _, sync := range []bool{true, false} {
		d, err := Open("cpu", Options{Sync: sync, Threads: 1})
		expect.OK(t, err)
		a, err := d.NewArena("test", 1<<20)
		expect.OK(t, err)
		x, w, y := a.New("x", tensor.F32, 64, 64), a.New("w", tensor.F32, 64, 64), a.New("y", tensor.F32, 64, 64)
		for range 2 {
			d.Linear(y, x, w, tensor.Tensor{})
			d.Add(y, y, x)
		}
		list := map[string]Timing{}
		for _, k := range d.Profile() {
			list[k.Kernel] = k
		}
		linear, add := list["linear"], list["add"]
		if sync && (len(list) != 2 || linear.Count != 2 || linear.FLOPs != 2*2*64*64*64 || add.Count != 2 || add.FLOPs != 0 ||
			linear.Time <= 0 || add.Time <= 0) || !sync && len(list) != 0 {
			t.Errorf("sync %v: %+v", sync, list)
		}
		if list := d.Profile(); len(list) != 0 {
			t.Errorf("%+v is still there", list)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
