package model

import (
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

// InvFreq returns the angle by which each pair of elements of a head turns from one position to the next, [headDim/2],
// with Llama 3's scaling if the model has it:
//
//	f[i] = theta^(-2i/headDim)
//
// Scaling keeps fast frequencies, divides slow ones by Factor, and interpolates linearly between these (transformers,
// modeling_rope_utils.py, llama3). All in float64.
func (c Config) InvFreq() []float64 {
	f := make([]float64, c.HeadDim/2)
	for i := range f {
		f[i] = math.Pow(c.RoPETheta, -2*float64(i)/float64(c.HeadDim))
	}
	s := c.RoPEScaling
	if s == nil {
		return f
	}
	slowest := float64(s.OriginalMaxPositions) / s.LowFreqFactor  // longer wavelengths are divided
	fastest := float64(s.OriginalMaxPositions) / s.HighFreqFactor // shorter ones stay
	for i, x := range f {
		switch wavelength := 2 * math.Pi / x; {
		case wavelength > slowest:
			f[i] = x / s.Factor
		case wavelength >= fastest:
			keep := (float64(s.OriginalMaxPositions)/wavelength - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
			f[i] = (1-keep)*x/s.Factor + keep*x
		}
	}
	return f
}

// rotary gives attention its positions: it rotates each head of q and k by the position of its token.
type rotary struct{ heads, kvHeads int }

func (r rotary) forward(p *pass, qkv tensor.Tensor) {
	p.dev.RoPE(qkv, p.positions, p.rope.cos, p.rope.sin, r.heads, r.kvHeads)
}

func (r rotary) backward(p *pass, dqkv tensor.Tensor) {
	p.dev.RoPEBackward(dqkv, p.positions, p.rope.cos, p.rope.sin, r.heads, r.kvHeads)
}

// ropeTable holds the cosines and sines of positions 0 and up, each F32 [positions, headDim/2].
type ropeTable struct {
	cos, sin tensor.Tensor
	arena    *kernels.Arena
}

// ropeFor makes sure that the table has at least positions positions. With learned positions there is no table.
func (m *Model) ropeFor(positions int) error {
	t := &m.rope
	if m.cfg.LearnedPositions {
		return nil
	}
	if t.cos.Ok() && t.cos.Dim(0) >= positions {
		return nil
	}
	if t.cos.Ok() { // at least double, so that a growing cache does not recompute the table at every token
		positions = max(positions, min(2*t.cos.Dim(0), m.cfg.MaxPositions))
	}
	positions = ropeRows(positions)
	half := m.cfg.HeadDim / 2
	arena, err := m.dev.NewArena("RoPE's angles",
		kernels.SizeOf(func(arena *kernels.Arena) { ropeTensors(arena, positions, half) }))
	if err != nil {
		return err
	}
	if err := t.arena.Close(); err != nil {
		return err
	}
	t.arena = arena
	t.cos, t.sin = ropeTensors(arena, positions, half)
	freq := m.cfg.InvFreq()
	cos, sin := make([]float32, positions*half), make([]float32, positions*half)
	for p := range positions {
		for i, f := range freq {
			s, c := math.Sincos(float64(p) * f)
			cos[p*half+i], sin[p*half+i] = float32(c), float32(s)
		}
	}
	m.dev.Upload(t.cos, cos)
	m.dev.Upload(t.sin, sin)
	return nil
}

// ropeRows returns the number of positions of a table that needs this many. A table is never smaller than 64.
func ropeRows(positions int) int { return max(positions, 64) }

func ropeTensors(arena *kernels.Arena, positions, half int) (cos, sin tensor.Tensor) {
	return arena.New("cos", tensor.F32, positions, half), arena.New("sin", tensor.F32, positions, half)
}
