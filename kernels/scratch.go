package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"restyle/tensor"
)

// scratch allocates a tensor from the device's own memory for what an operation needs only while it runs: intermediates
// of an unfused form, partial sums. Its contents are undefined. An operation releases all that it took when it ends:
// its first call of scratch comes after
//
//	defer d.release(d.mark())
//
// The memory stays with the device until Close, as much as operations ever used at a time. If it has to grow and
// cannot, scratch panics on a CPU; ReserveScratch returns an error instead, if it is called beforehand. On a GPU the
// error sticks to the device, nothing is launched from then on, and the tensor has no memory: a GPU may also have
// failed before.
func (d *Device) scratch(name string, t tensor.DType, shape ...int) tensor.Tensor {
	cut := (*Arena).New
	if d.cutScratch != nil {
		cut = d.cutScratch
	}
	need := SizeOf(func(a *Arena) { cut(a, name, t, shape...) })
	if n := len(d.scratchArenas); n == 0 || d.scratchArenas[n-1].size-d.scratchArenas[n-1].used < need {
		err := d.err // a GPU that has failed computes nothing any more
		if d.gpu == nil || err == nil {
			err = d.growScratch(need)
		}
		if err != nil && d.gpu == nil {
			panic(err.Error())
		}
		if err != nil {
			d.fail(err)
			d.scratchArenas = append(d.scratchArenas, &Arena{d: d, base: align, size: math.MaxInt})
		}
	}
	x := cut(d.scratchArenas[len(d.scratchArenas)-1], name, t, shape...)
	d.scratchPeak = max(d.scratchPeak, d.mark())
	return x
}

// A cut lays out a tensor: d.scratch for an operation that runs, (*Arena).New to count. Each operation has one function
// that lays out its scratch memory for both.
type cut func(name string, t tensor.DType, shape ...int) tensor.Tensor

// mark returns the bytes of scratch memory in use, a point to which release can return.
func (d *Device) mark() (used int) {
	for _, a := range d.scratchArenas {
		used += a.used
	}
	return used
}

// release frees the scratch memory taken since the mark. Memory in use cannot move, so scratch memory grows by arenas;
// when none of it is in use, they are merged into one.
func (d *Device) release(mark int) {
	if d.released != nil {
		d.released(mark)
	}
	used := d.mark()
	for i := len(d.scratchArenas) - 1; used > mark; i-- {
		back := min(d.scratchArenas[i].used, used-mark)
		d.scratchArenas[i].Release(d.scratchArenas[i].used - back)
		used -= back
	}
	if used == 0 && len(d.scratchArenas) > 1 {
		d.fail(d.ReserveScratch(d.scratchPeak))
	}
}

// ReserveScratch makes scratch memory one arena of at least a number of bytes, and on a GPU allocates the memory of
// products too, so that no operation lacks memory later. Call it between operations. It returns an error if there is
// not enough memory.
func (d *Device) ReserveScratch(bytes int) error {
	if d.gpu != nil {
		if err := d.makeRoom(); err != nil {
			return err
		}
	}
	if len(d.scratchArenas) == 1 && d.scratchArenas[0].size >= bytes {
		return nil
	}
	if err := d.closeScratch(); err != nil {
		return err
	}
	return d.growScratch(bytes)
}

// ScratchPeak returns the largest number of bytes of scratch memory that operations used at a time.
func (d *Device) ScratchPeak() int { return d.scratchPeak }

// TrimScratch frees the scratch memory. ScratchPeak counts from 0 again. Call it between operations.
func (d *Device) TrimScratch() error {
	d.scratchPeak = 0
	return d.closeScratch()
}

// minScratch is the minimum size of an arena of scratch memory in bytes.
const minScratch = 1 << 20

func (d *Device) growScratch(bytes int) error {
	a, err := d.NewArena("scratch", max(bytes, minScratch))
	if err != nil {
		return err
	}
	d.scratchArenas = append(d.scratchArenas, a)
	return nil
}

// ScratchMoves returns how often scratch memory has been freed or has moved: a Graph that was captured before must not
// be launched any more if its operations use some.
func (d *Device) ScratchMoves() int { return d.scratchMoves }

func (d *Device) closeScratch() error {
	var all error
	d.scratchMoves++
	for _, a := range d.scratchArenas {
		all = errors.Join(all, a.Close())
	}
	d.scratchArenas = nil
	return all
}

// GuardScratch fills scratch memory with NaN and puts page-sized guards around it, to check operations: when one
// releases its scratch memory, report gets a description of what it wrote outside. Operations are slower meanwhile. A
// nil report ends it.
func (d *Device) GuardScratch(report func(what string)) {
	if report == nil {
		d.cutScratch, d.released = nil, nil
		return
	}
	const zone, guardByte = 4096, 0xA5
	type guarded struct {
		mark   int
		name   string
		guards [2]tensor.Tensor
	}
	var all []guarded
	d.cutScratch = func(a *Arena, name string, typ tensor.DType, shape ...int) tensor.Tensor {
		mark := d.mark()
		before := a.New("guard", tensor.U8, zone)
		x := a.New(name, typ, shape...)
		after := a.New("guard", tensor.U8, zone)
		if a.Counting() {
			return x
		}
		// The guard after x starts at x's last byte, before its own first, unless there is memory that belongs to no
		// tensor.
		if end := x.Addr + uintptr(x.Bytes()); !a.wide {
			after = tensor.Tensor{DType: tensor.U8, Shape: []int{zone + int(after.Addr-end)}, Addr: end}
		}
		for _, g := range []tensor.Tensor{before, after} {
			d.UploadBytes(g, bytes.Repeat([]byte{guardByte}, g.Bytes()))
		}
		d.UploadBytes(x, bytes.Repeat([]byte{0xFF}, x.Bytes()))
		all = append(all, guarded{mark, fmt.Sprint(x), [2]tensor.Tensor{before, after}})
		return x
	}
	d.released = func(mark int) {
		for n := len(all); n > 0 && all[n-1].mark >= mark; n-- {
			for i, g := range all[n-1].guards {
				b := make([]byte, g.Bytes())
				if d.DownloadBytes(b, g) == nil && bytes.Count(b, []byte{guardByte}) != len(b) {
					where := [2]string{"before its beginning", "beyond its end"}[i]
					report(fmt.Sprintf("%s: written %s", all[n-1].name, where))
				}
			}
			all = all[:n-1]
		}
	}
}
