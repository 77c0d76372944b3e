package batch

import "errors"

// The errors of Start that are not the caller's fault.
var (
	ErrFull   = errors.New("the queue is full: try again later")
	ErrClosed = errors.New("the batch takes no more requests")
)
