// Package linear tests that a function, such as a parser of hostile text, takes linear time.
package linear

import (
	"runtime"
	"testing"
	"time"
)

// Test fails if f(8·n) takes more than 24 times the CPU time of f(n). A linear function takes 8 times as long, a
// quadratic one 64 times. Test counts only the CPU time of the thread that runs f, and of each size the best of three
// tries, so a busy machine does not matter. Less than a millisecond counts as one millisecond. f must not start
// goroutines.
func Test(t testing.TB, what string, n int, f func(n int)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func(n int) time.Duration {
		begin := threadTime()
		f(n)
		return max(threadTime()-begin, time.Millisecond)
	}
	small := min(spent(n), spent(n), spent(n))
	var large time.Duration
	for range 3 {
		if large = spent(8 * n); large <= 24*small {
			return
		}
	}
	t.Errorf("%s: %d takes %v, and %d takes %v", what, n, small, 8*n, large)
}
