package model

import (
	"math"

	"restyle/kernels"
	"restyle/tensor"
)

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
	length   int // Config.ropeLength of the pass that it is for
}

// ropeFor makes sure that the table has at least positions positions, as they are in a pass over n. With learned
// positions there is no table.
func (m *Model) ropeFor(positions, n int) error {
	t, length := &m.rope, m.cfg.ropeLength(n)
	switch {
	case m.cfg.LearnedPositions:
		return nil
	case !t.cos.Ok() || t.cos.Dim(0) < positions:
		if err := m.allocRoPE(positions); err != nil {
			return err
		}
	case t.length == length:
		return nil
	}
	t.length = length
	half := t.cos.Dim(1)
	freq, scale := m.cfg.InvFreq(n), m.cfg.RoPEScaling.Attention()
	cos, sin := make([]float32, t.cos.Len()), make([]float32, t.cos.Len())
	for p := range t.cos.Dim(0) {
		for i, f := range freq {
			s, c := math.Sincos(float64(p) * f)
			cos[p*half+i], sin[p*half+i] = float32(c*scale), float32(s*scale)
		}
	}
	m.dev.Upload(t.cos, cos)
	m.dev.Upload(t.sin, sin)
	return nil
}

// allocRoPE replaces the table by one of at least positions positions, to be filled.
func (m *Model) allocRoPE(positions int) error {
	t := &m.rope
	if t.cos.Ok() { // at least double, so that a growing cache does not recompute the table at every token
		positions = max(positions, min(2*t.cos.Dim(0), m.cfg.Positions()))
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
	return nil
}

// ropeRows returns the number of positions of a table that needs this many. A table is never smaller than 64.
func ropeRows(positions int) int { return max(positions, 64) }

func ropeTensors(arena *kernels.Arena, positions, half int) (cos, sin tensor.Tensor) {
	return arena.New("cos", tensor.F32, positions, half), arena.New("sin", tensor.F32, positions, half)
}
