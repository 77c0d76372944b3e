package cases

import (
	"math"
	"slices"
	"time"

	"restyle/kernels"
)

// TimedForms returns Forms without the fused one, if it runs the same kernels.
func (c *Case) TimedForms() []bool {
	if slices.Equal(c.Kernels[0], c.Kernels[1]) {
		return []bool{false}
	}
	return c.Forms()
}

// Time returns how long the fastest run of each direction took until its results were ready. It makes as many runs as
// fit into about budget, at least three after one warm-up. The time is 0 for a direction that the case
// does not have. The error is the device's.
func (c *Case) Time(d *kernels.Device, fused bool, budget time.Duration) (forward, backward time.Duration, err error) {
	setFused(d, fused)
	r, err := c.Place(d)
	if err != nil {
		return 0, 0, err
	}
	fastest := func(pass func(d *kernels.Device, x Tensors)) time.Duration {
		if pass == nil {
			return 0
		}
		pass(d, r.X)
		best := time.Duration(math.MaxInt64)
		_ = d.Sync() // an error sticks to the device
		for start, n := time.Now(), 0; n < 3 || time.Since(start) < budget; n++ {
			begin := time.Now()
			pass(d, r.X)
			_ = d.Sync()
			best = min(best, time.Since(begin))
		}
		return best
	}
	forward, backward = fastest(c.Forward), fastest(c.Backward)
	return forward, backward, r.Close()
}
