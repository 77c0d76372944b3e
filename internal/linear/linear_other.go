//go:build !linux

package linear

import "time"

var begun = time.Now()

// threadTime returns wall-clock time, because the thread's CPU time is not available.
func threadTime() time.Duration { return time.Since(begun) }
