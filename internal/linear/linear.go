// Package linear fails a test if a function, such as a parser of hostile text, takes more than linear time.
package linear

import (
	"math"
	"runtime"
	"testing"
	"time"
)

const (
	factor = 32  // between the two sizes
	limit  = 400 // between their times
)

// Test fails if f(32·n) takes more than 400 times the CPU time of f(n). A linear function takes 32 times as long, one
// that allocates up to 150 times, because a little garbage is never collected. A quadratic one takes 1,024 times as
// long, however often it is tried. Test counts only the CPU time of the thread that runs f, for n in the best of three
// tries, and for 32·n in the best of up to six, because the thread finds its caches taken. Less than a quarter of a
// millisecond counts as a quarter of a millisecond. f must not start goroutines.
func Test(t testing.TB, what string, n int, f func(n int)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func(n int) time.Duration {
		begin := threadTime()
		f(n)
		return max(threadTime()-begin, time.Millisecond/4)
	}
	small := min(spent(n), spent(n), spent(n))
	large := time.Duration(math.MaxInt64)
	for range 6 {
		if large = min(large, spent(factor*n)); large <= limit*small {
			return
		}
	}
	t.Errorf("%s: %d takes %v, and %d takes %v", what, n, small, factor*n, large)
}
