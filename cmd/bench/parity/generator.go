package parity

import (
	"math"
	"runtime"
	"strings"
	"sync"
)

// The weights of a model too large to store follow from a seed: element i of a parameter is a hash of the seed, the
// parameter's name and i. Every operation is exact or rounds as IEEE says, so all languages make the same bytes.
//
//	z = (seed ^ fnv1a(name)) + (i+1)·0x9E3779B97F4A7C15,   h = splitmix64's output of z
//	u = ((h >> 40) - 2²³) / 2²³                            in [-1, 1), exact
//	w = 1 + u/4 for norms, u·71/2048 for matrices          one float32 operation, then rounded to BF16

// A stream is the hashes of one name.
type stream struct {
	start uint64
	norm  bool
}

func newStream(seed uint64, name string) stream {
	f := uint64(0xCBF29CE484222325) // FNV-1a
	for _, b := range []byte(name) {
		f = (f ^ uint64(b)) * 0x100000001B3
	}
	return stream{seed ^ f, strings.Contains(name, "norm")}
}

// hash is number i of the stream.
func (s stream) hash(i int) uint64 {
	z := s.start + (uint64(i)+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// scale is the largest weight of a matrix: uniform numbers up to it have a standard deviation of 0.02.
const scale = 71.0 / 2048

// weight is the bits of element i as a BF16.
func (s stream) weight(i int) uint16 {
	u := float32(int32(s.hash(i)>>40)-1<<23) * (1.0 / (1 << 23))
	w := u * scale
	if s.norm {
		w = 1 + 0.25*u // a fused multiply-add gives the same: the product is exact
	}
	bits := math.Float32bits(w)
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// sign is the one with which element i of a gradient enters its signed sum.
func (s stream) sign(i int) float64 { return 1 - 2*float64(s.hash(i)&1) }

// inParts calls f for consecutive parts of n elements on all processors. Where the parts end does not depend on how many
// these are.
func inParts(n int, f func(part, lo, hi int)) {
	const size = 1 << 18
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for part := 0; part*size < n; part++ {
		slots <- struct{}{}
		wait.Go(func() {
			f(part, part*size, min(n, (part+1)*size))
			<-slots
		})
	}
	wait.Wait()
}

// sums adds up what f gives for each part of n elements, in order.
func sums(n int, f func(lo, hi int) float64) float64 {
	parts := make([]float64, (n+1<<18-1)>>18)
	inParts(n, func(part, lo, hi int) { parts[part] = f(lo, hi) })
	total := 0.0
	for _, p := range parts {
		total += p
	}
	return total
}
