package cases

import (
	"math"
	"slices"
	"time"

	"restyle/kernels"
	"restyle/tensor"
)

// Timed are cases to be timed, of the sizes of Llama-3.2-1B and of a model of five million parameters: memory decides the speed
// of the first, caches that of the others.
func Timed(t tensor.DType) []*Case {
	index := make([]int, 1024)
	for i := range index {
		index[i] = 2 * i
	}
	return []*Case{
		addCase(t, 2048*2048), addCase(t, 512*256),
		rmsNormCase(t, 2048, 2048), rmsNormCase(t, 512, 256),
		addRMSNormCase(t, 2048, 2048), addRMSNormCase(t, 512, 256),
		qkNormCase(t, 2048, 32, 8, 64), qkNormCase(t, 512, 8, 4, 32),
		ropeCase(t, 2048, 32, 8, 64), ropeCase(t, 512, 8, 4, 32),
		swiGLUCase(t, 2048, 8192), swiGLUCase(t, 512, 688),
		geluCase(t, 2048, 8192, false), geluCase(t, 512, 688, false), geluCase(t, 2048, 8192, true), geluCase(t, 512, 688, true),
		embeddingCase(t, 2048, 20000, 2048, 20000), embeddingCase(t, 512, 4096, 256, 4096),
		rowsCase(t, 2048, 2048, index),
		crossEntropyCase(t, 300, 128256, nil, true), crossEntropyCase(t, 512, 4096, nil, true),
		adamWCase(t, 4<<20, 10, false), adamWCase(t, 256*688, 10, false),
	}
}

// TimedForms are Forms without the fused one, if it runs the same kernels.
func (c *Case) TimedForms() []bool {
	if slices.Equal(c.Kernels[0], c.Kernels[1]) {
		return []bool{false}
	}
	return c.Forms()
}

// Time returns how long the fastest run of each direction took until its results were there, of as many runs as fit in about as
// much time as is given, at least three after one to warm up. It is 0 for a direction that the case or the device has not. The
// error is the device's.
func (c *Case) Time(d *kernels.Device, fused bool, budget time.Duration) (forward, backward time.Duration, err error) {
	setFused(d, fused)
	r, err := c.Place(d)
	if err != nil {
		return 0, 0, err
	}
	fastest := func(pass func(d *kernels.Device, x Tensors)) time.Duration {
		var p Pass
		if pass == nil {
			return 0
		}
		if p.run(pass, r); !p.Ran {
			return 0
		}
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
