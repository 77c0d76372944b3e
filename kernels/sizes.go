package kernels

import (
	"restyle/kernels/cpu"
	"restyle/tensor"
)

// Sizes are those of the largest operations of a pass through a model, for ScratchOf.
type Sizes struct {
	Type              tensor.DType // of weights and activations
	Rows, Longest     int          // tokens of a batch, and of its longest sequence
	Logits            int          // rows of logits at a time
	Dim, Inner, Vocab int
	Mask              Mask // heads and window; its sequences are not looked at
	QKNorm, Backward  bool
	Context           int // positions of the cache that the rows, or single ones, are appended to; 0 where there is none
}

// ScratchOf is how much scratch memory the operations of a pass of these sizes need at most, with this device's threads and
// fused operations: what ReserveScratch is given so that nothing has to grow in the middle of a step.
func (d *Device) ScratchOf(s Sizes) (most int) {
	most = leastScratch
	need := func(cut func(a *Arena)) { most = max(most, SizeOf(cut)) }
	if d.gpu != nil || s.Rows == 0 {
		return 0
	}
	m := s.Mask
	// The sequences that need most: as many of the longest as there are tokens for.
	m.CuSeqlens = []int32{0}
	for n := 0; n < s.Rows; n += s.Longest {
		m.CuSeqlens = append(m.CuSeqlens, int32(n+s.Longest))
	}
	rows := int(m.CuSeqlens[len(m.CuSeqlens)-1])
	args := m.args(tensor.Tensor{DType: s.Type, Shape: []int{rows, m.width()}}, tensor.Tensor{}, tensor.Tensor{})
	need(func(a *Arena) {
		if d.fused("attention") || s.Context > 0 {
			a.New("attention", tensor.U8, args.ForwardSpace())
			return
		}
		a.New("attention scores", tensor.F32, m.Heads, s.Longest, s.Longest)
		a.New("attention weights", s.Type, m.Heads, s.Longest, s.Longest)
		if s.Backward {
			a.New("gradients of keys and values", tensor.F32, s.Longest, 2*m.KVHeads*m.HeadDim)
			a.New("dy·y", tensor.F32, m.Heads, s.Longest)
		}
	})
	if d.fused("attention") && s.Backward {
		need(func(a *Arena) { a.New("attention", tensor.U8, args.BackwardSpace()) })
	}
	if s.Context > 0 {
		one := m.args(tensor.Tensor{DType: s.Type, Shape: []int{1, m.width()}}, tensor.Tensor{}, tensor.Tensor{})
		one.CuSeqlens, one.Ahead = []int32{0, 1}, s.Context-1
		need(func(a *Arena) { a.New("attention", tensor.U8, one.DecodeSpace()) })
	}
	if !d.fused("swiglu") {
		need(func(a *Arena) {
			a.New("silu", s.Type, s.Rows, s.Inner)
			if s.Backward {
				a.New("gradient of silu", s.Type, s.Rows, s.Inner)
			}
		})
	}
	if !d.fused("crossentropy") && s.Logits > 0 {
		need(func(a *Arena) { a.New("log-softmax", tensor.F32, s.Logits, s.Vocab) })
	}
	if !s.Backward {
		return most
	}
	need(func(a *Arena) {
		if !d.fused("rmsnorm") {
			a.New("norm gradient", s.Type, s.Rows, s.Dim)
		}
		a.New("dw of blocks of rows", tensor.F32, mostBlocks(s.Rows, s.Dim), s.Dim)
	})
	if s.QKNorm {
		need(func(a *Arena) {
			a.New("dw of blocks of rows", tensor.F32, mostBlocks(s.Rows, m.width()), 2*m.HeadDim)
		})
	}
	return most
}

// mostBlocks is the most blocks that up to so many rows are cut into. Beyond half of what there are at most, fewer rows may
// have more.
func mostBlocks(rows, width int) int {
	n := cpu.NormPartials(rows, width)
	if n > cpu.MaxNormPartials/2 {
		return cpu.MaxNormPartials
	}
	return n
}
