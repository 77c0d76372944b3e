package main

import (
	"context"
	"sync"
)

// interrupts decides what a Ctrl-C means: the first one stops the answer under way, any other leaves.
type interrupts struct {
	leave context.CancelFunc

	mu      sync.Mutex
	stop    context.CancelFunc // the answer under way, nil where there is none
	stopped bool               // it, or the one before, has been stopped
}

// hit is a Ctrl-C.
func (i *interrupts) hit() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stop == nil || i.stopped {
		i.leave()
		return
	}
	i.stopped = true
	i.stop()
}

// answering begins an answer: a Ctrl-C until end is called stops its context alone.
func (i *interrupts) answering(ctx context.Context) (answer context.Context, end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	answer, i.stop = context.WithCancel(ctx)
	i.stopped = false
	return answer, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.stop()
		i.stop = nil
	}
}

// wasStopped says whether a Ctrl-C stopped the last answer.
func (i *interrupts) wasStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// underWay says whether there is an answer to stop.
func (i *interrupts) underWay() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stop != nil
}
