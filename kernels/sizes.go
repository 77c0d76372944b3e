package kernels

import (
	"slices"

	"restyle/tensor"
)

// Sizes are the sizes of the largest operations of a pass through a model, for ScratchOf.
type Sizes struct {
	Type              tensor.DType   // of weights and activations
	Rows, Longest     int            // tokens of a batch, and of its longest sequence
	Logits            int            // rows of logits computed at once
	Dim, Inner, Vocab int            // Inner is SwiGLU's; 0 without it
	GELU              int            // width of layers with GELU instead; 0 without any
	Pairs, Expert     int            // pairs of a row and an expert, and the width inside an expert; 0 without a mixture
	Quantized         int            // most inputs of a layer with quantized weights; 0 without any
	Codings           []tensor.DType // types of quantized weights
	Pair              bool           // products with quantized weights have a second pair of operands
	Biased            int            // outputs of the widest layer with a bias; 0 if no layer has one
	Attention         AttentionSpec  // heads and window; its sequences are not used
	LayerNorm         bool           // the norms are LayerNorm instead of RMSNorm
	QKNorm, Backward  bool
	Context           int  // positions of the KV cache that rows, or single tokens, are appended to; 0 without one
	Paged             bool // AttentionPaged processes the rows
}

// ScratchOf returns the maximum bytes of scratch memory that the operations of a pass of these sizes need, with this
// device's threads and these fused operations. Pass it to ReserveScratch, so that nothing has to grow in the middle of
// a step. Each operation lays out its own scratch memory.
func (d *Device) ScratchOf(f Fused, s Sizes) int {
	if s.Rows == 0 {
		return 0
	}
	need := minScratch
	atLeast := func(lay func(cut cut)) { need = max(need, SizeOf(func(a *Arena) { lay(a.New) })) }
	s.attention(d.gpu != nil, f, atLeast)
	if s.Paged && d.gpu == nil {
		atLeast(func(cut cut) { pagedScratch(cut, s.Attention, s.Rows) })
	}
	if s.Quantized > 0 {
		d.quantizedScratch(s, atLeast)
	}
	d.activationsScratch(f, s, atLeast)
	if !f["crossentropy"] && s.Logits > 0 {
		atLeast(func(cut cut) { crossEntropyScratch(cut, s.Logits, s.Vocab) })
	}
	if s.Backward {
		atLeast(func(cut cut) {
			op, weights := "rmsnorm", s.Dim
			if s.LayerNorm {
				op, weights = "layernorm", 2*s.Dim
			}
			if !f[op] {
				addNormScratch(cut, s.Type, s.Rows, s.Dim)
			}
			normScratch(cut, d.maxNormPartials(s.Rows, s.Dim), weights)
		})
	}
	if s.Backward && d.gpu != nil {
		atLeast(func(cut cut) {
			embeddingScratch(cut, s.Rows, s.Dim)
			sortScratch(cut, s.Rows)
		})
		atLeast(func(cut cut) { columnScratch(cut, s.Rows, s.Biased) })
	}
	if s.Backward && s.QKNorm {
		atLeast(func(cut cut) { normScratch(cut, d.maxNormPartials(s.Rows, s.Attention.Width()), 2*s.Attention.HeadDim) })
	}
	return need
}

// quantizedScratch is ScratchOf for layers with quantized weights.
func (d *Device) quantizedScratch(s Sizes, atLeast func(lay func(cut cut))) {
	if d.int8Activations {
		atLeast(func(cut cut) { int8Scratch(cut, s.Rows, s.Quantized) })
	}
	others := slices.ContainsFunc(s.Codings, func(t tensor.DType) bool { return t != tensor.INT8 })
	coded := d.int8Activations && !others && s.Quantized <= MaxINT8
	if s.Pair || !coded && !d.converts(s) {
		atLeast(func(cut cut) { d.mostDequantized(cut, s.Type, s.Quantized) })
	}
	if s.Pair && s.Paged && d.hasWGMMA() {
		atLeast(func(cut cut) {
			pairedSumsScratch(cut, s.Rows, max(2*s.Inner, s.GELU, s.Dim, s.Attention.Width()))
			d.mostDequantized(cut, s.Type, s.Quantized)
		})
	}
	if s.Backward {
		for _, inner := range []int{s.Inner, s.GELU} {
			atLeast(func(cut cut) {
				inputGradientScratch(cut, s.Type, s.Rows, inner)
				d.gradientScratch(cut, s.Type, s.Rows, s.Quantized)
			})
		}
	}
	switch {
	case d.gpu == nil:
		atLeast(func(cut cut) { fewRowsScratch(cut, tensor.F32, tensor.INT4, maxFewRows, s.Quantized) })
	case s.Pairs > 0:
		atLeast(func(cut cut) { d.mostDequantized(cut, s.Type, s.Quantized) })
	}
}

// converts reports whether wgmma computes the values of quantized weights in all products of these sizes with more
// than a few rows.
func (d *Device) converts(s Sizes) bool {
	a := s.Attention
	lengths := s.Dim | s.Inner | a.Width() | a.Heads*a.HeadDim | a.KVHeads*a.HeadDim // k may be of another type than v
	if s.Logits > 0 {
		lengths |= s.Vocab
	}
	return d.hasWGMMA() && s.Type == tensor.BF16 && !slices.ContainsFunc(s.Codings, isStored) &&
		(s.Rows <= maxConvertedRows || d.rowsAlone) && lengths%8 == 0
}

// activationsScratch is ScratchOf for activations, and the gradients of layers after them.
func (d *Device) activationsScratch(f Fused, s Sizes, atLeast func(lay func(cut cut))) {
	if !f["swiglu"] {
		atLeast(func(cut cut) { swiGLUScratch(cut, s.Type, s.Rows, s.Inner, false) })
		atLeast(func(cut cut) { swiGLUScratch(cut, s.Type, s.Pairs, s.Expert, s.Backward) })
	}
	if !s.Backward {
		return
	}
	rows := func(op string, inner int) int { return d.inputGradientRows(f[op], s.Type, s.Rows, s.Dim, inner) }
	atLeast(func(cut cut) {
		inputGradientScratch(cut, s.Type, rows("swiglu", s.Inner), s.Inner)
		if !f["swiglu"] {
			swiGLUScratch(cut, s.Type, min(s.Rows, maxGateUpRows), s.Inner, true)
		}
	})
	atLeast(func(cut cut) { inputGradientScratch(cut, s.Type, rows("linear_activation", s.GELU), s.GELU) })
}

// attention is ScratchOf for attention: for the sequences that need the most memory, which are as many of the longest
// as there are tokens for, and for one token at the end of a KV cache.
func (s Sizes) attention(gpu bool, f Fused, atLeast func(lay func(cut cut))) {
	m := s.Attention
	m.CuSeqlens = []int32{0}
	for n := 0; n < s.Rows; n += s.Longest {
		m.CuSeqlens = append(m.CuSeqlens, int32(n+s.Longest))
	}
	args := m.sizes()
	if !f["attention"] && s.Context == 0 {
		atLeast(func(cut cut) {
			m.eagerScratch(cut, s.Type, s.Longest)
			if s.Backward {
				m.eagerBackwardScratch(cut, s.Longest)
			}
		})
	} else if !gpu {
		atLeast(func(cut cut) { attentionScratch(cut, args.ForwardScratch()) })
	}
	if f["attention"] && s.Backward {
		atLeast(func(cut cut) {
			if gpu {
				m.attentionDelta(cut, s.Rows)
			} else {
				attentionScratch(cut, args.BackwardScratch())
			}
		})
	}
	if s.Context > 0 {
		atLeast(func(cut cut) {
			if gpu {
				m.attentionParts(cut, s.Context-1)
			} else {
				args.CuSeqlens, args.Ahead = []int32{0, 1}, s.Context-1
				attentionScratch(cut, args.DecodeScratch())
			}
		})
	}
}
