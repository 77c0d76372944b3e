package linear

import "testing"

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestTest_FindsSquares(t *testing.T) {
	sum := 0
	loop := func(n int) {
		for i := range n {
			sum += i ^ sum
		}
	}
	for what, c := range map[string]struct {
		f    func(n int)
		fail bool
	}{
		"linear":    {func(n int) { loop(1000 * n) }, false},
		"quadratic": {func(n int) { loop(n * n) }, true},
	} {
		r := &recorder{TB: t}
		if Test(r, what, 1000, c.f); r.failed != c.fail {
			t.Errorf("%s: failed %t", what, r.failed)
		}
	}
}
