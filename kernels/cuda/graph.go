package cuda

/*
#include "shim.h"

#cgo nocallback cuda_begin_capture
#cgo noescape cuda_end_capture
#cgo nocallback cuda_end_capture
#cgo nocallback cuda_launch_graph
#cgo nocallback cuda_free_graph
*/
import "C"

import (
	"errors"
	"slices"
)

// A Graph is a list of launches, with their arguments, that are queued together. It is valid until its GPU is closed,
// or until Close.
type Graph struct {
	gpu    *GPU
	handle C.uintptr_t
}

// Capture makes a graph of the kernels that f launches; they do not run. f must do nothing else on the GPU: no copy, no
// allocation, no waiting.
func (g *GPU) Capture(f func()) (*Graph, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	graph, err := g.capture(f)
	var e *Error
	if g.early && errors.As(err, &e) && slices.Contains(earlyRefused, e.Code) {
		g.early = false
		g.failed.Store(nil)
		return g.capture(f)
	}
	return graph, err
}

func (g *GPU) capture(f func()) (*Graph, error) {
	g.captures = true
	defer func() { g.captures = false }()
	if s := C.cuda_begin_capture(g.handle); s.code != 0 {
		return nil, g.fail(s, "begin a graph%v", g.after())
	}
	f()
	if err := g.Err(); err != nil {
		C.cuda_end_capture(g.handle, nil) // the error is already known
		return nil, err
	}
	graph := &Graph{gpu: g}
	if s := C.cuda_end_capture(g.handle, &graph.handle); s.code != 0 {
		return nil, g.fail(s, "end a graph%v", g.after())
	}
	return graph, nil
}

// Launch queues the graph. An error sticks, and the next call that returns an error returns it.
func (g *Graph) Launch() {
	if g.gpu.failed.Load() != nil {
		return
	}
	if s := C.cuda_launch_graph(g.gpu.handle, g.handle); s.code != 0 {
		g.gpu.fail(s, "launch a graph%v", g.gpu.after())
	}
}

// Close frees the graph, which may still be running. Closing a graph twice, or a nil graph, or after an error, does
// nothing.
func (g *Graph) Close() error {
	if g == nil || g.handle == 0 {
		return nil
	}
	handle := g.handle
	g.handle = 0
	if g.gpu.Err() != nil {
		return nil
	}
	if s := C.cuda_free_graph(g.gpu.handle, handle); s.code != 0 {
		return g.gpu.fail(s, "free a graph%v", g.gpu.after())
	}
	return nil
}
