//go:build !linux

package linear

import "time"

var begun = time.Now()

// threadTime is the time on the clock, for want of the thread's.
func threadTime() time.Duration { return time.Since(begun) }
