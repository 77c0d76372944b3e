package kernels

import "runtime"

// Range begins a range of that name on a profiler's time line, and returns what ends it, to be called by the same goroutine. Ranges
// nest. Where no profiler listens, it does nothing.
func (d *Device) Range(name string) (end func()) {
	if d.gpu == nil || d.gpu.ranges == nil {
		return func() {}
	}
	runtime.LockOSThread() // ranges are a thread's, and so is what they hold of the work on the GPU
	d.gpu.ranges.Begin(name)
	return func() {
		d.gpu.ranges.End()
		runtime.UnlockOSThread()
	}
}
