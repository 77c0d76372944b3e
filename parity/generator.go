package parity

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"restyle/model"
	"restyle/tensor"
)

// The weights of a model too large to store follow from a seed: element i of a parameter is a hash of the seed, the
// parameter's name and i. Every operation is exact or rounds as IEEE says, so all languages make the same bytes.
//
//	z = (seed ^ fnv1a(name)) + (i+1)·0x9E3779B97F4A7C15,   h = splitmix64's output of z
//	u = ((h >> 40) - 2²³) / 2²³                            in [-1, 1), exact
//	w = 1 + u/4 for norms, u·71/2048 for matrices          one float32 operation, then rounded to BF16

// A stream is the sequence of hashes for one name.
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

// hash returns number i of the stream.
func (s stream) hash(i int) uint64 {
	z := s.start + (uint64(i)+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// scale is the largest weight of a matrix: uniform numbers in ±scale have a standard deviation of 0.02.
const scale = 71.0 / 2048

// weight returns the bits of element i as a BF16.
func (s stream) weight(i int) uint16 {
	u := float32(int32(s.hash(i)>>40)-1<<23) * (1.0 / (1 << 23))
	w := u * scale
	if s.norm {
		w = 1 + 0.25*u // a fused multiply-add gives the same result, because the product is exact
	}
	bits := math.Float32bits(w)
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// sign returns the sign of element i of a gradient in its signed sum.
func (s stream) sign(i int) float64 { return 1 - 2*float64(s.hash(i)&1) }

// inParts calls f for consecutive parts of n elements, on all processors. The boundaries of the parts do not depend on
// the number of processors.
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

// sums adds up the results of f for each part of n elements, in order.
func sums(n int, f func(lo, hi int) float64) float64 {
	parts := make([]float64, (n+1<<18-1)>>18)
	inParts(n, func(part, lo, hi int) { parts[part] = f(lo, hi) })
	total := 0.0
	for _, p := range parts {
		total += p
	}
	return total
}

// fill sets the weights of a model and, the first time, compares them with the recorded values.
func (m *fullFolder) fill(l *model.Model) error {
	bits := make([]uint16, 0)
	floats := make([]float32, 0)
	for _, p := range l.Params() {
		s := newStream(m.seed, p.Name)
		sum := sha256.New()
		first := make([]float32, 4)
		err := inPieces(p.W.Len(), func(at, n int) error {
			bits = slices.Grow(bits[:0], n)[:n]
			inParts(n, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					bits[i] = s.weight(at + i)
				}
			})
			raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(bits))), 2*n)
			if !m.hashed {
				sum.Write(raw)
				for i := range first[:min(4, n)] {
					if at == 0 {
						first[i] = tensor.BF16ToF32(bits[i])
					}
				}
			}
			part := p.W.Part(at, n)
			if part.DType == tensor.BF16 {
				m.d.UploadBytes(part, raw)
				return m.d.Err()
			}
			floats = slices.Grow(floats[:0], n)[:n]
			inParts(n, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					floats[i] = tensor.BF16ToF32(bits[i])
				}
			})
			m.d.Upload(part, floats)
			return m.d.Err()
		})
		if err != nil {
			return err
		}
		if !m.hashed {
			m.compareWeight(p, hex.EncodeToString(sum.Sum(nil)), first)
		}
	}
	m.hashed = m.hashed || len(l.Params()) == m.c.TensorCount()
	if m.o.mistake.weights != nil {
		m.o.mistake.weights(m.d, l)
	}
	return nil
}

func (m *fullFolder) compareWeight(p model.Param, sum string, first []float32) {
	at := "weights." + p.Name + "."
	if !m.j.has(at + "sha256") {
		m.missing(m.j.key(at + "sha256"))
		return
	}
	if m.j.has(at+"sha256") && m.fates[m.j.key(at+"sha256")] == compared {
		return // a smaller model with the same weights did
	}
	var want string
	var shape []int
	m.j.get(at+"sha256", &want)
	m.j.get(at+"shape", &shape)
	m.compare("weights", m.j.key(at+"sha256"), differ(sum == want), exact)
	m.compare("weights", m.j.key(at+"shape"), differ(slices.Equal(shape, p.W.Shape)), exact)
	// The value was written with the digits that float32 needs. As a float64 it is a slightly different number.
	stored := m.j.numbers(at + "first")
	same := len(stored) == len(first)
	for i := range stored {
		same = same && float32(stored[i]) == first[i]
	}
	m.compare("weights", m.j.key(at+"first"), differ(same), exact)
}
