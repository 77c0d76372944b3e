package kernels

import (
	"testing"

	"restyle/tensor"
)

// TestScratch grows in the middle of an operation without moving what it has, is one piece afterwards, and does not grow
// again for the same.
func TestScratch(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *Device) {
		var grown int
		for range 3 {
			func() {
				defer d.release(d.mark())
				a := d.scratch("a", tensor.F32, 10)
				d.Upload(a, filled(10, func(i int) float64 { return float64(i) }))
				func() {
					defer d.release(d.mark())
					b := d.scratch("b", tensor.F32, 1<<19) // more than there is at first
					d.Zero(b)
				}()
				c := d.scratch("c", tensor.F32, 10)
				d.Zero(c)
				if got := floats(t, d, a); got[9] != 9 {
					t.Error("what was taken first is another:", got)
				}
			}()
			if grown > 0 && d.ScratchBytes() != grown {
				t.Errorf("%d bytes, %d before", d.ScratchBytes(), grown)
			}
			grown = d.ScratchBytes()
			if len(d.pads) != 1 || d.pads[0].used != 0 {
				t.Errorf("%d pieces", len(d.pads))
			}
		}
		if want := 1<<21 + 256; d.ScratchPeak() != want {
			t.Errorf("peak is %d, want %d", d.ScratchPeak(), want)
		}
		if err := d.ReserveScratch(1 << 23); err != nil || d.ScratchBytes() != 1<<23 {
			t.Errorf("reserved %d, %v", d.ScratchBytes(), err)
		}
		if err := d.ReserveScratch(1 << 60); err == nil {
			t.Error("2^60 bytes were there")
		}
	})
}
