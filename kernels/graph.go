package kernels

import (
	"restyle/kernels/cuda"
)

// A Graph is operations on a GPU that are queued as one, which spares the time that it takes to launch each. It is closed before its
// device.
type Graph struct {
	d     *Device
	graph *cuda.Graph
}

// Capture makes a graph of what f computes on a GPU, without computing it. f runs operations that have run before, so that they are
// compiled, and which neither need scratch memory nor move anything from the host or to it. What they compute with lies where it
// lies now whenever the graph is launched. It is nil on the CPU, with Options.Sync, which times each kernel alone, and after an
// error.
func (d *Device) Capture(f func()) *Graph {
	if d.gpu == nil || d.opts.Sync || d.err != nil {
		return nil
	}
	graph, err := d.gpu.Capture(f)
	d.fail(err)
	if graph == nil {
		return nil
	}
	return &Graph{d, graph}
}

// Launch queues what the graph computes.
func (g *Graph) Launch() {
	if g.d.err == nil {
		g.graph.Launch()
	}
}

// Close gives the graph back. Closing none does nothing.
func (g *Graph) Close() error {
	if g == nil {
		return nil
	}
	return g.graph.Close()
}
