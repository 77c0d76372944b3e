package kernels

import (
	"fmt"

	"restyle/tensor"
)

// scratch cuts a tensor from the device's own memory for what an operation needs only while it runs: the intermediates of an
// unfused body, partial sums. Its contents are arbitrary. The operation gives back all that it took when it ends, with
//
//	defer d.release(d.mark())
//
// before its first scratch. The memory stays with the device, as large as the most that operations had at a time, until
// Close. When it has to grow and cannot, scratch panics: ReserveScratch beforehand returns an error instead.
func (d *Device) scratch(name string, t tensor.DType, shape ...int) tensor.Tensor {
	cut := func(a *Arena) tensor.Tensor { return a.New(name, t, shape...) }
	need := SizeOf(func(a *Arena) { cut(a) })
	if n := len(d.pads); n == 0 || d.pads[n-1].size-d.pads[n-1].used < need {
		if err := d.grow(need); err != nil {
			panic(fmt.Sprintf("scratch memory: %v", err))
		}
	}
	x := cut(d.pads[len(d.pads)-1])
	used := 0
	for _, a := range d.pads {
		used += a.used
	}
	d.padPeak = max(d.padPeak, used)
	return x
}

// mark is a point to which release goes back.
func (d *Device) mark() (at padMark) {
	if n := len(d.pads); n > 0 {
		at = padMark{n, d.pads[n-1].used}
	}
	return at
}

// release gives back the scratch memory that was taken since the mark. Pieces that it had to grow by become one when
// nothing is in use: nothing can move before.
func (d *Device) release(at padMark) {
	for i, a := range d.pads {
		switch {
		case i >= at.pads:
			a.Release(0)
		case i == at.pads-1:
			a.Release(at.used)
		}
	}
	if at == (padMark{}) || at.pads == 1 && at.used == 0 {
		if len(d.pads) > 1 {
			d.fail(d.closeScratch())
			d.fail(d.grow(d.padPeak))
		}
	}
}

// padMark is how many pieces of scratch memory there were, and how much of the last was in use.
type padMark struct{ pads, used int }

// grow adds a piece of scratch memory.
func (d *Device) grow(bytes int) error {
	const least = 1 << 20
	a, err := d.NewArena("scratch", max(bytes, least))
	if err == nil {
		d.pads = append(d.pads, a)
	}
	return err
}

// closeScratch gives all scratch memory back to the system.
func (d *Device) closeScratch() (err error) {
	for _, a := range d.pads {
		if e := a.Close(); err == nil {
			err = e
		}
	}
	d.pads = nil
	return err
}

// ReserveScratch sees to it that operations have so many bytes for their intermediates before they ask. No operation may
// be running. It is an error when the memory is not there.
func (d *Device) ReserveScratch(bytes int) error {
	if d.ScratchBytes() >= bytes {
		return nil
	}
	if err := d.closeScratch(); err != nil {
		return err
	}
	return d.grow(bytes)
}

// ScratchBytes is how much memory the device has for intermediates now. ScratchPeak is the most that were in use at a time.
func (d *Device) ScratchBytes() (n int) {
	for _, a := range d.pads {
		n += a.size
	}
	return n
}

// ScratchPeak is the largest number of bytes that operations had for their intermediates at a time.
func (d *Device) ScratchPeak() int { return d.padPeak }
