package model

import (
	"fmt"
	"slices"
)

// Ignore is the label of a token that is not a target.
const Ignore = -100

// A Batch holds sequences of tokens laid end to end. It is the input of one pass.
type Batch struct {
	IDs []int32
	// Labels are not shifted: the token at position t predicts Labels[t+1] of its own sequence. So the first label of a
	// sequence has no effect. Ignore marks tokens that are not targets. Nil if no loss is computed.
	Labels []int32
	// CuSeqlens holds the start of each sequence, and the end of the last: sequence i is [CuSeqlens[i], CuSeqlens[i+1]).
	// Nil means one sequence.
	CuSeqlens []int32
}

// OneSequence returns a batch of one sequence without labels.
func OneSequence(ids []int32) Batch { return Batch{IDs: ids} }

// Join returns one batch with the sequences of several, in order.
func Join(batches ...Batch) Batch {
	j := Batch{CuSeqlens: []int32{0}}
	for _, b := range batches {
		at := int32(len(j.IDs))
		j.IDs = append(j.IDs, b.IDs...)
		j.Labels = append(j.Labels, b.Labels...)
		for _, s := range b.cuSeqlens()[1:] {
			j.CuSeqlens = append(j.CuSeqlens, at+s)
		}
	}
	return j
}

// padded returns b with ignored tokens appended, up to rows tokens, in sequences of at most longest tokens.
func (b Batch) padded(rows, longest int, id int32) Batch {
	f := []Batch{b}
	for left := rows - len(b.IDs); left > 0; left -= longest {
		n := min(left, longest)
		one := Batch{IDs: slices.Repeat([]int32{id}, n)}
		if b.Labels != nil {
			one.Labels = slices.Repeat([]int32{Ignore}, n)
		}
		f = append(f, one)
	}
	if len(f) == 1 {
		return b
	}
	return Join(f...)
}

func (b Batch) cuSeqlens() []int32 {
	if b.CuSeqlens == nil {
		return []int32{0, int32(len(b.IDs))}
	}
	return b.CuSeqlens
}

// Targets returns the number of positions that have a label to predict.
func (b Batch) Targets() int {
	n := 0
	b.eachTarget(func(int, int32) { n++ })
	return n
}

// targets returns the positions that predict a label, and these labels.
func (b Batch) targets() (index, targets []int32) {
	b.eachTarget(func(at int, target int32) {
		index = append(index, int32(at))
		targets = append(targets, target)
	})
	return index, targets
}

// eachTarget calls f with every position that predicts a label, and the label.
func (b Batch) eachTarget(f func(at int, target int32)) {
	if b.Labels == nil {
		return
	}
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		for t := s[i]; t+1 < s[i+1]; t++ {
			if l := b.Labels[t+1]; l != Ignore {
				f(int(t), l)
			}
		}
	}
}

// check reports what makes a batch invalid for a model. The kernels would read out of bounds with such a batch.
func (b Batch) check(cfg Config, limit int) error {
	n := len(b.IDs)
	switch {
	case n == 0:
		return fmt.Errorf("batch: no tokens")
	case n > limit:
		return fmt.Errorf("batch: %d tokens: the model was opened for at most %d", n, limit)
	case b.Labels != nil && len(b.Labels) != n:
		return fmt.Errorf("batch: %d labels for %d tokens", len(b.Labels), n)
	}
	s := b.cuSeqlens()
	if len(s) < 2 || s[0] != 0 || int(s[len(s)-1]) != n || !slices.IsSorted(s) {
		return fmt.Errorf("batch: sequence boundaries %v: must ascend from 0 to %d, the number of tokens", s, n)
	}
	for i := range len(s) - 1 {
		if length := int(s[i+1] - s[i]); length > cfg.Positions() {
			return fmt.Errorf("batch: sequence of %d tokens: the model has %d positions", length, cfg.Positions())
		}
	}
	for i, id := range b.IDs {
		if id < 0 || int(id) >= cfg.Vocab {
			return fmt.Errorf("batch: token %d is %d, outside the vocabulary of %d: use the model's own tokenizer", i, id,
				cfg.Vocab)
		}
	}
	for i, l := range b.Labels {
		if l != Ignore && (l < 0 || int(l) >= cfg.Vocab) {
			return fmt.Errorf("batch: label %d is %d, outside the vocabulary of %d", i, l, cfg.Vocab)
		}
	}
	return nil
}

// positions returns the position of each token in its sequence.
func (b Batch) positions() []int32 {
	p := make([]int32, len(b.IDs))
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		for t := s[i]; t < s[i+1]; t++ {
			p[t] = t - s[i]
		}
	}
	return p
}

// longest returns the length of the longest sequence.
func (b Batch) longest() int {
	n := int32(0)
	s := b.cuSeqlens()
	for i := range len(s) - 1 {
		n = max(n, s[i+1]-s[i])
	}
	return int(n)
}
