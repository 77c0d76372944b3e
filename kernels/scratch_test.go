package kernels

import (
	"strings"
	"testing"

	"restyle/tensor"
)

// TestScratch checks that scratch memory grows in the middle of an operation without moving what is allocated, is a
// single piece afterwards, and does not grow again for the same operation.
func TestScratch(t *testing.T) {
	EachDevice(t, func(t *testing.T, d *Device) {
		d.GuardScratch(nil)
		var size int
		for range 3 {
			func() {
				defer d.release(d.mark())
				a := d.scratch("a", tensor.F32, 10)
				d.Upload(a, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
				func() {
					defer d.release(d.mark())
					b := d.scratch("b", tensor.F32, 1<<19) // more than there is at first
					d.Zero(b)
				}()
				c := d.scratch("c", tensor.F32, 10)
				d.Zero(c)
				if got, err := d.Floats(a); err != nil || got[9] != 9 {
					t.Error("what was taken first is another:", got)
				}
			}()
			if len(d.scratchArenas) != 1 || d.mark() != 0 {
				t.Fatalf("%d pieces, %d bytes in use", len(d.scratchArenas), d.mark())
			}
			if size > 0 && d.scratchArenas[0].size != size {
				t.Errorf("%d bytes, %d before", d.scratchArenas[0].size, size)
			}
			size = d.scratchArenas[0].size
		}
		if want := 1<<21 + align; d.ScratchPeak() != want {
			t.Errorf("peak is %d, want %d", d.ScratchPeak(), want)
		}
		if err := d.ReserveScratch(1 << 23); err != nil || d.scratchArenas[0].size != 1<<23 {
			t.Errorf("reserved %d, %v", d.scratchArenas[0].size, err)
		}
		if err := d.ReserveScratch(1 << 60); err == nil {
			t.Error("2^60 bytes were there")
		}
	})
}

// TestScratch_BeyondMemory takes more scratch memory than there is: a CPU panics, and a GPU says so at the next Sync.
func TestScratch_BeyondMemory(t *testing.T) {
	EachDeviceAndEmulated(t, func(t *testing.T, d *Device) {
		d.GuardScratch(nil)
		take := func() {
			defer d.release(d.mark())
			d.scratch("huge", tensor.F32, 1<<55)
		}
		if d.gpu == nil {
			MustPanic(t, "a CPU", "memory for scratch: 131072.0 TiB", take)
			return
		}
		take()
		take() // after a failure as well
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "scratch") {
			t.Errorf("Sync says %v", err)
		}
		d.err = nil // which Close says as well
	})
}
