package kernels

import (
	"errors"
	"time"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// Meters are the readings of a GPU's sensors and counters.
type Meters = cuda.Meters

// Meters reads the device's meters. On the CPU, and without NVML, known is false.
func (d *Device) Meters() (m Meters, known bool) {
	if d.gpu == nil {
		return m, false
	}
	if d.gpu.monitor == nil && !d.gpu.dark {
		monitor, err := cuda.OpenMonitor(d.gpu.UUID)
		d.gpu.monitor, d.gpu.dark = monitor, err != nil
	}
	if d.gpu.dark {
		return m, false
	}
	return d.gpu.monitor.Read(), true
}

// CopyRate returns the bytes per second that a copy within the device's memory reads and writes, outside all caches, in
// the fastest of several runs: the ceiling for operations that stream through memory. On the CPU all threads copy, and
// it takes 512 MiB; on a GPU it takes 32 times the size of its L2 cache.
func (d *Device) CopyRate() (rate float64, err error) {
	if d.gpu == nil {
		return cpu.CopyRate(200 * time.Millisecond), nil
	}
	bytes := max(16*d.gpu.L2, 16<<20)
	cut := func(a *Arena) (to, from tensor.Tensor) {
		return a.New("a copy", tensor.U8, bytes), a.New("what is copied", tensor.U8, bytes)
	}
	a, err := d.NewArena("a copy that is timed", SizeOf(func(a *Arena) { cut(a) }))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	to, from := cut(a)
	d.Zero(from)
	for range 10 {
		took, err := d.gpu.Time(func() { d.Copy(to, from) })
		if err != nil {
			return 0, err
		}
		rate = max(rate, 2*float64(bytes)/took.Seconds())
	}
	return rate, nil
}
