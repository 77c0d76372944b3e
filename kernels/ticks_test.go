package kernels

import (
	"testing"

	"restyle/kernels/cuda/cudatest"
)

// TestTicks checks that all ticks have been executed after Sync, and that a GPU's ticks come in order, not before what
// is queued before them.
func TestTicks(t *testing.T) {
	EachDeviceAndEmulated(t, func(t *testing.T, d *Device) {
		before := d.Ticks()
		for range 3 {
			d.Tick()
		}
		if err := d.Sync(); err != nil || d.Ticks() != before+3 {
			t.Errorf("%d of 3 ticks, %v", d.Ticks()-before, err)
		}
	})
	cudatest.Set(t, "LATE=1")
	d := Emulated(t, Options{})
	d.Tick()
	if got := d.Ticks(); got != 0 {
		t.Errorf("%d ticks before the GPU has begun", got)
	}
	if err := d.Sync(); err != nil || d.Ticks() != 1 {
		t.Errorf("%d of 1 tick, %v", d.Ticks(), err)
	}
}
