// Package linear tests that a function, such as a parser of hostile text, takes linear time.
package linear

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// Test fails if f(8·n) takes more than 24 times the CPU time of f(n). A linear function takes 8 times as long, a
// quadratic one 64 times, however often it is tried. Test counts only the CPU time of the thread that runs f, and of n
// the best of three tries, of 8·n that of up to twelve, because the thread also collects garbage and finds its caches
// taken. Less than a millisecond counts as one millisecond. f must not start goroutines.
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
	large := time.Duration(math.MaxInt64)
	for range 12 {
		if large = min(large, spent(8*n)); large <= 24*small {
			return
		}
	}
	t.Errorf("%s: %d takes %v, and %d takes %v", what, n, small, 8*n, large)
}
