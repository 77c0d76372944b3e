package kernels

import (
	"restyle/kernels/cuda"
	"restyle/tensor"
)

// A Graph is a list of operations on a GPU that are queued together, which saves the time to launch each. Close it
// before its device.
type Graph struct {
	d     *Device
	graph *cuda.Graph
}

// Capture makes a graph of the operations of f on a GPU, without computing them. f may run only operations that have
// run before, so that they are compiled, and that transfer no data from or to the host. The graph always uses the
// memory addresses of the capture, for scratch memory as well: see ScratchMoves. Capture returns nil on the CPU, with
// Options.Sync, which times each kernel separately, and after an error.
func (d *Device) Capture(f func()) *Graph {
	if d.gpu == nil || d.opts.Sync || d.err != nil {
		return nil
	}
	graph, err := d.gpu.Capture(func() {
		d.err = nil // from the first try, if the driver refused its early launches and this is the second
		f()
	})
	d.fail(err)
	if graph == nil {
		return nil
	}
	return &Graph{d, graph}
}

// StartDownload queues a copy of x, at most 64 bytes, for FinishDownload.
func (d *Device) StartDownload(x tensor.Tensor) {
	if d.gpu == nil {
		copy(d.downloaded[:], x.Raw())
		return
	}
	if d.err == nil {
		d.gpu.StartDownload(x.Addr, x.Bytes())
	}
}

// FinishDownload waits for the last StartDownload, but not for what was queued after it, and stores the bytes in to.
func (d *Device) FinishDownload(to []byte) error {
	if d.gpu == nil {
		copy(to, d.downloaded[:])
		return nil
	}
	if err := d.Err(); err != nil {
		return err
	}
	err := d.gpu.FinishDownload(to)
	d.fail(err)
	return err
}

// Launch queues the operations of the graph.
func (g *Graph) Launch() {
	if g.d.err == nil {
		g.graph.Launch()
	}
}

// Close frees the graph. Closing a nil graph does nothing.
func (g *Graph) Close() error {
	if g == nil {
		return nil
	}
	return g.graph.Close()
}
