package main

import (
	"context"
	"sync"
)

// interrupts decides what a Ctrl-C does: the first one stops the current answer, another leaves.
type interrupts struct {
	leave context.CancelFunc

	mu      sync.Mutex
	stop    context.CancelFunc // stops the current answer, nil if there is none
	stopped bool               // the current answer, or the last, has been stopped
}

// hit handles a Ctrl-C.
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

// answer starts an answer: until end is called, a Ctrl-C cancels only the context that answer returns.
func (i *interrupts) answer(ctx context.Context) (answer context.Context, end func()) {
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

// wasStopped reports whether a Ctrl-C stopped the last answer.
func (i *interrupts) wasStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// answering reports whether there is an answer to stop.
func (i *interrupts) answering() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stop != nil
}
