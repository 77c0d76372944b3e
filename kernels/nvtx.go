package kernels

import "runtime"

// Range starts a named range on a profiler's time line, and returns a function that ends it, which the same goroutine
// must call. Ranges nest. Without a profiler, Range does nothing.
func (d *Device) Range(name string) (end func()) {
	if d.gpu == nil || d.gpu.ranges == nil {
		return func() {}
	}
	runtime.LockOSThread() // ranges belong to a thread, and so does the GPU work attributed to them
	d.gpu.ranges.Begin(name)
	return func() {
		d.gpu.ranges.End()
		runtime.UnlockOSThread()
	}
}
